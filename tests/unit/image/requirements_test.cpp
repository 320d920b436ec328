// Checks which lines of requirements are safe for pip, and in which form mlk passes these lines to pip.
#include "cli/image/requirements.h"

#include <map>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("image/requirements");

namespace {

namespace fs = std::filesystem;
using mlk::image::classify_requirement;
using mlk::image::Requirements;
using Wanted = mlk::image::RequirementKind;
using RequirementFiles = std::map<std::string, std::string>;

Requirements read_all(const RequirementFiles& files, const std::string& name = "requirements.txt") {
  return mlk::image::read_requirements(
      "/code/" + name,
      [&](const fs::path& path) {
        const auto found = files.find(path.string().substr(std::string("/code/").size()));
        if (found == files.end()) throw mlk::Error(mlk::ExitCode::not_found, "no file " + path.string());
        return found->second;
      },
      [](const std::string& variable) { return variable == "TOKEN" ? "word" : ""; });
}

std::string wanted_of(const std::string& text) { return read_all({{"requirements.txt", text}}).wanted; }

mlk::Error requirement_refusal(const RequirementFiles& files) {
  try {
    (void)read_all(files);
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

}  // namespace

TEST_CASE("classify_requirement() distinguishes packages, wheels and sources that pip would build") {
  const std::vector<std::pair<std::string, Wanted>> table{
      {"six", Wanted::package},
      {"six==1.16.0", Wanted::package},
      {"six[a,b] >= 1 ; python_version < '3.11'", Wanted::package},
      {"six; platform_release == 'a/b'", Wanted::package},
      {"./dist/own-1-py3-none-any.whl", Wanted::wheel_file},
      {"own-1-py3-none-any.whl", Wanted::wheel_file},
      {"./own-1-py3-none-any.whl[extra] ; os_name == 'posix'", Wanted::wheel_file},
      {"file:///w/own-1-py3-none-any.whl", Wanted::wheel_file},
      {"own @ file:///w/own-1-py3-none-any.whl", Wanted::wheel_file},
      {"https://x/own-1-py3-none-any.whl#sha256=aa", Wanted::wheel_url},
      {"own@https://x/own-1-py3-none-any.whl?a=b", Wanted::wheel_url},
      {"own[a] @ https://x/own-1-py3-none-any.whl ; os_name == 'posix'", Wanted::wheel_url},
      {".", Wanted::folder},
      {"..", Wanted::folder},
      {"./own", Wanted::folder},
      {"sub/own[extra]", Wanted::folder},
      {"/home/me/own", Wanted::folder},
      {"file:///home/me/own", Wanted::folder},
      {"file:own", Wanted::folder},
      {"own @ file:///home/me/own", Wanted::folder},
      {"-e .", Wanted::editable},
      {"--editable=.", Wanted::editable},
      {"git+https://x/own.git@main", Wanted::repository},
      {"GIT+https://x/own", Wanted::repository},
      {"own @ git+ssh://git@x/own.git@0123abc#egg=own", Wanted::repository},
      {"git+file:///home/me/own-1.whl", Wanted::repository},
      {"hg+https://x/own", Wanted::repository},
      {"ssh://git@x/own.git", Wanted::repository},
      {"git://x/own.git", Wanted::repository},
      {"https://x/own-1.tar.gz", Wanted::sources},
      {"https://x/own-1.zip", Wanted::sources},
      {"https://x/own", Wanted::sources},
      {"own @ https://x/archive/main.zip", Wanted::sources},
      {"file:///w/own-1.tar.gz", Wanted::sources},
      {"./own-1.tar.gz", Wanted::sources},
      {"own-1.tar.gz", Wanted::sources},
      {"./own-1.WHL", Wanted::folder},
  };
  for (const auto& [line, kind] : table)
    CHECK_MESSAGE(static_cast<int>(classify_requirement(line).kind) == static_cast<int>(kind), line);
  CHECK(classify_requirement("own @ https://x/own.whl ; os_name == 'posix'").place == "https://x/own.whl");
  CHECK(classify_requirement("./own.whl[extra]").place == "./own.whl");
}

TEST_CASE("read_requirements() refuses a file in UTF-16, and names the file") {
  for (const std::string& utf_16 :
       {std::string("\xff\xfes\0i\0x\0\n\0", 10), std::string("\xfe\xff\0s", 4)}) {
    const mlk::Error error = requirement_refusal({{"requirements.txt", "-r more.txt"}, {"more.txt", utf_16}});
    CHECK(error.code() == mlk::ExitCode::usage);
    CHECK(std::string(error.what()) == "code.python: more.txt is in UTF-16, and must be in UTF-8");
  }
}

TEST_CASE("read_requirements() joins continued lines, removes comments, and makes paths absolute") {
  CHECK(wanted_of("# all\n\nsix==1.16.0  # why\ncow\\\nsay==6.1\n") == "six==1.16.0\ncowsay==6.1\n");
  CHECK(wanted_of("\xef\xbb\xbfsix\r\n") == "six\n");
  CHECK(wanted_of("own @ https://x/o.whl#sha256=aa\n") == "own @ https://x/o.whl#sha256=aa\n");
  CHECK(wanted_of("./dist/own.whl[a] ; os_name == 'posix'") ==
        "/code/dist/own.whl[a] ; os_name == 'posix'\n");
  CHECK(wanted_of("own @ file:./dist/own.whl") == "own @ file:///code/dist/own.whl\n");
  CHECK(wanted_of("/w/own.whl") == "/w/own.whl\n");
  CHECK(wanted_of("six==1.16.0 \\\n  --hash=sha256:aa \\\n  --hash sha256:bb") ==
        "six==1.16.0 --hash=sha256:aa --hash=sha256:bb\n");
  CHECK(wanted_of("--only-binary=:none:\nsix") == "six\n");
}

TEST_CASE("both `wanted` and `options` contain the options for the sources of packages") {
  const Requirements found = read_all({{"requirements.txt",
                                        "-i one\n--extra-index-url=two-${TOKEN} --pre\n"
                                        "--trusted-host y\n-f wheels\n--find-links https://z/w\nsix\n"
                                        "https://me:${TOKEN}@x/own.whl#sha256=aa\n"}});
  CHECK(found.options ==
        "--index-url=one\n--extra-index-url='two-${TOKEN}' --pre\n--trusted-host=y\n"
        "--find-links=/code/wheels\n--find-links=https://z/w\n");
  CHECK(found.wanted == found.options + "six\nhttps://me:${TOKEN}@x/own.whl#sha256=aa\n");
  CHECK(found.urls == std::vector<std::string>{"https://me:word@x/own.whl#sha256=aa"});
  CHECK(found.constraints.empty());
}

TEST_CASE("values of options may have quotes and backslashes, as in a shell") {
  const auto links = [](const std::string& word) { return wanted_of("--find-links " + word + "\nsix\n"); };
  CHECK(links("'two words'") == links("\"two words\""));
  CHECK(links("'two words'") == links("two\\ words"));
  CHECK(links(R"('a\b')") == links(R"("a\\b")"));
  CHECK(links(R"('a\b')") != links(R"("a\b")"));
  CHECK(links(R"("a\b")") == links("ab"));
  CHECK(links(R"(a'b'"c")") == links("abc"));
}

TEST_CASE("paths after -r and -c are relative to the file with this option, and -c reads only constraints") {
  const Requirements found = read_all({{"requirements.txt", "-r sub/more.txt\n-c limits.txt\nsix\n"},
                                       {"sub/more.txt", "--requirement=again.txt\ncowsay\n"},
                                       {"sub/again.txt", "tomli\n"},
                                       {"limits.txt", "six<2\n-c sub/limits.txt\n"},
                                       {"sub/limits.txt", "tomli<3\n"}});
  CHECK(found.wanted == "tomli\ncowsay\nsix\n");
  CHECK(found.constraints == "six<2\ntomli<3\n");
}

TEST_CASE("the error for a line that would build a package has the file, the line number and a hint") {
  const std::vector<std::pair<std::string, std::string>> table{
      {"-e .", "is a folder, which would be built"},
      {"-e.", "is a folder, which would be built"},
      {"--editable ./own", "is a folder, which would be built"},
      {"-e git+https://x/own.git#egg=own", "is a folder, which would be built"},
      {".", "is a folder, which would be built"},
      {"./own", "is a folder, which would be built"},
      {"git+https://x/own.git", "is a repository, which would be built"},
      {"own @ git+https://x/own.git@0123abc", "is a repository, which would be built"},
      {"https://x/own-1.tar.gz", "is no wheel: it would be built"},
      {"./own-1.tar.gz", "is no wheel: it would be built"},
      {"--no-binary :all:", "would build a package"},
      {"six --no-binary=six", "would build a package"},
      {"six --global-option=x", "would build a package"},
      {"six --config-settings a=b", "would build a package"},
      {"-C a=b", "would build a package"},
      {"--edit .", "has the option --edit, which mlk does not know"},
      {"-x", "has the option -x, which mlk does not know"},
      {"-r", "ends without a value"},
      {"-r https://x/r.txt", "is not on this machine"},
  };
  for (const auto& [line, part] : table) {
    const mlk::Error error = requirement_refusal({{"requirements.txt", "# one\n\\\nsix\n" + line + "\n"}});
    CHECK_MESSAGE(error.code() == mlk::ExitCode::usage, line);
    CHECK_MESSAGE(std::string(error.what()).find(part) != std::string::npos, std::string(error.what()));
    CHECK(std::string(error.what()).starts_with("code.python: requirements.txt:4: '" + line.substr(0, 3)));
    CHECK_FALSE(error.hint().empty());
  }
  CHECK(std::string(
            requirement_refusal({{"requirements.txt", "-r sub/x.txt"}, {"sub/x.txt", "six\n./own"}}).what())
            .starts_with("code.python: x.txt:2: './own' is a folder"));
  CHECK(requirement_refusal({{"requirements.txt", "-c x.txt"}, {"x.txt", "own @ git+https://x/o"}}).code() ==
        mlk::ExitCode::usage);
  CHECK(requirement_refusal({{"requirements.txt", "-r x.txt"}}).code() == mlk::ExitCode::not_found);
  CHECK(std::string(requirement_refusal({{"requirements.txt", "-r requirements.txt"}}).what())
            .find("name each other") != std::string::npos);
}

TEST_CASE("without_logins() replaces the logins of URLs, and no error shows a login") {
  using mlk::image::without_logins;
  CHECK(without_logins("own @ git+https://me:word@x/own.git@main", "***@") ==
        "own @ git+https://***@x/own.git@main");
  CHECK(without_logins("https://x/a@b", "***@") == "https://x/a@b");
  CHECK(without_logins("https://a@b@x/y http://c@z", "") == "https://x/y http://z");
  CHECK(without_logins("six==1", "***@") == "six==1");
  CHECK(std::string(requirement_refusal({{"requirements.txt", "git+https://me:word@x/own.git"}}).what())
            .find("word") == std::string::npos);
}

TEST_CASE("classify_requirement() knows the endings of archives and the schemes of version control systems") {
  for (const char* ending : {".zip", ".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz", ".tar.xz", ".txz",
                             ".tar.lzma", ".tlz", ".tar.lz"}) {
    for (const char* begin :
         {"own-1", "./own-1", "https://x/own-1", "file:///w/own-1", "own @ file:///w/own-1"})
      CHECK_MESSAGE(classify_requirement(std::string(begin) + ending).kind == Wanted::sources,
                    std::string(begin), std::string(ending));
  }
  for (const char* scheme : {"git", "hg", "svn", "bzr", "ssh", "sftp", "svn+ssh", "x+http"})
    CHECK_MESSAGE(classify_requirement(std::string(scheme) + "://x/own.whl").kind == Wanted::repository,
                  std::string(scheme));
}

TEST_CASE(
    "classify_requirement() finds a URL by its scheme, even if a name with extras comes before the URL") {
  const std::vector<std::pair<std::string, Wanted>> table{
      {"own [a] @ https://x/o.whl", Wanted::wheel_url},
      {"own[a]@https://x/o.whl", Wanted::wheel_url},
      {"own[a,b]  @  https://x/o.whl; os_name == 'posix'", Wanted::wheel_url},
      {"own.a_b-c9 @ https://x/o.whl", Wanted::wheel_url},
      {"  own @ https://x/o.whl  ", Wanted::wheel_url},
      {"HTTPS://x/o.whl", Wanted::wheel_url},
      {"s3.a-b://x/o.whl", Wanted::wheel_url},
      {"FILE:///w/o.whl", Wanted::wheel_file},
      {"https://x/o.whl#a;b.txt", Wanted::wheel_url},
      {"https://x/o.txt#o.whl", Wanted::sources},
      {"https://x/o.txt?o.whl", Wanted::sources},
      {"https://x/a;b.whl", Wanted::wheel_url},
      {"file:///w/own.txt", Wanted::folder},
      {"own[a] >= 1", Wanted::package},
      {"own ; extra == '@'", Wanted::package},
      {"3own:x", Wanted::package},
      {":x", Wanted::package},
      {".hidden", Wanted::folder},
  };
  for (const auto& [line, kind] : table)
    CHECK_MESSAGE(static_cast<int>(classify_requirement(line).kind) == static_cast<int>(kind), line);
  CHECK(classify_requirement("own[a] @ https://x/o.whl; os_name == 'posix'").place == "https://x/o.whl");
  CHECK(classify_requirement("a/own[x] ; os_name == 'posix'").place == "a/own");
}

TEST_CASE(
    "a comment begins at the start of a line or after a blank; a backslash at the end continues the line") {
  CHECK(wanted_of("six#x\n") == "six#x\n");
  CHECK(wanted_of("six\t# x\n") == "six\n");
  CHECK(wanted_of("six # x # y\n") == "six\n");
  CHECK(wanted_of("#six\nsix\n") == "six\n");
  CHECK(wanted_of("a\\\n# c\nb\n") == "a\nb\n");
  CHECK(wanted_of("# c \\\nb\n") == "b\n");
  CHECK(wanted_of("six==\\\r\n1\r\n") == "six==1\n");
  CHECK(wanted_of("six\\") == "six\n");
  CHECK(wanted_of("six\t>=\t1") == "six >= 1\n");
  CHECK(wanted_of("  \n\t\n").empty());
}

TEST_CASE("read_requirements() passes on options for sources, and refuses options for builds") {
  const std::vector<std::pair<std::string, std::string>> kept{
      {"--pypi-url x", "--pypi-url=x"},
      {"-ix", "--index-url=x"},
      {"-i x", "--index-url=x"},
      {"--no-index", "--no-index"},
      {"--pre", "--pre"},
      {"--prefer-binary", "--prefer-binary"},
      {"--require-hashes", "--require-hashes"},
      {"--use-feature=a", "--use-feature=a"},
      {"--trusted-host a", "--trusted-host=a"},
      {"--no-index --pre", "--no-index --pre"},
  };
  for (const auto& [line, pip] : kept) {
    const Requirements found = read_all({{"requirements.txt", line + "\nsix\n"}});
    CHECK_MESSAGE(found.options == pip + "\n", line);
    CHECK_MESSAGE(found.wanted == pip + "\nsix\n", line);
  }
  CHECK(read_all({{"requirements.txt", "six --hash=sha256:aa\n"}}).options.empty());
  for (const char* line : {"--install-option x", "--global-option=x", "--config-setting a=b", "-Ca=b",
                           "-C a=b", "--config-settings=a=b", "--no-binary=x"})
    CHECK_MESSAGE(
        std::string(requirement_refusal({{"requirements.txt", line}}).what()).find("would build a package") !=
            std::string::npos,
        std::string(line));
  for (const char* line : {"-i", "--index-url", "-f", "--hash"})
    CHECK_MESSAGE(
        std::string(requirement_refusal({{"requirements.txt", line}}).what()).find("ends without a value") !=
            std::string::npos,
        std::string(line));
  for (const char* line : {"-", "--", "-z", "--index-urls x", "-r x.txt -z"})
    CHECK_MESSAGE(
        requirement_refusal({{"requirements.txt", line}, {"x.txt", "six"}}).code() == mlk::ExitCode::usage,
        std::string(line));
}

TEST_CASE("files of requirements may include each other to a depth of sixteen") {
  RequirementFiles files{{"requirements.txt", "-r 1.txt\n"}};
  for (int i = 1; i < 16; ++i) files[std::to_string(i) + ".txt"] = "-r " + std::to_string(i + 1) + ".txt\n";
  files["16.txt"] = "six\n";
  CHECK(read_all(files).wanted == "six\n");
  files["16.txt"] = "-r 17.txt\n";
  files["17.txt"] = "six\n";
  CHECK(std::string(requirement_refusal(files).what()) ==
        "code.python: 17.txt is one of more than 16 files that name each other");
}

TEST_CASE("read_requirements() refuses -r and -c if they follow a package or name a URL") {
  const auto told = [](const std::string& line) {
    return std::string(requirement_refusal({{"requirements.txt", line}, {"x.txt", "six"}}).what());
  };
  CHECK(told("six -r x.txt").find("names another file beside a package") != std::string::npos);
  CHECK(told("six -c x.txt").find("names another file beside a package") != std::string::npos);
  CHECK(told("-c https://x/c.txt").find("is not on this machine") != std::string::npos);
  CHECK(told("-r file:///code/x.txt").find("is not on this machine") != std::string::npos);
  CHECK(told("-r x.txt") == "accepted");
}

TEST_CASE("read_requirements() replaces ${NAME} if NAME is in capital letters and the variable has a value") {
  const std::vector<std::pair<std::string, std::string>> table{
      {"${TOKEN}", "word"},
      {"a${TOKEN}b${TOKEN}", "awordbword"},
      {"${NONE}", "${NONE}"},
      {"${token}", "${token}"},
      {"${}", "${}"},
      {"$TOKEN", "$TOKEN"},
      {"${TOKEN", "${TOKEN"},
      {"${NONE}${TOKEN}", "${NONE}word"},
      {"${TOK EN}", "${TOK EN}"},
      {"${TOKEN}}", "word}"},
  };
  for (const auto& [text, value] : table) {
    const Requirements found = read_all({{"requirements.txt", "own @ https://x/" + text + "/o.whl\n"}});
    CHECK_MESSAGE(found.urls == std::vector<std::string>{"https://x/" + value + "/o.whl"}, text);
    CHECK_MESSAGE(found.wanted == "own @ https://x/" + text + "/o.whl\n", text);
  }
  CHECK(read_all({{"requirements.txt", "-r ${TOKEN}.txt"}, {"word.txt", "six"}}).wanted == "six\n");
  CHECK(wanted_of("./${TOKEN}/own.whl") == "/code/word/own.whl\n");
  CHECK(wanted_of("-f ${TOKEN}") == "--find-links=/code/word\n");
}

TEST_CASE(
    "read_requirements() reads options in a -c file, and all wheel paths are relative to the first file") {
  const Requirements found = read_all({{"requirements.txt", "-c sub/c.txt\n-r sub/r.txt\nsix\n"},
                                       {"sub/c.txt", "--no-index\nsix<2\n"},
                                       {"sub/r.txt", "./w/own.whl\n-r ../more.txt\n"},
                                       {"more.txt", "cow\n"}});
  CHECK(found.constraints == "--no-index\nsix<2\n");
  CHECK(found.options == "--no-index\n");
  CHECK(found.wanted == "/code/w/own.whl\ncow\nsix\n");
}

TEST_CASE("`places` has the absolute paths of wheels and of --find-links on this machine") {
  using Places = std::vector<fs::path>;
  const std::vector<std::pair<std::string, Places>> table{
      {"six\nhttps://x/own.whl\n-f https://x/w", {}},
      {"./dist/own.whl[a]", {"/code/dist/own.whl"}},
      {"../own.whl", {"/own.whl"}},
      {"/w/own.whl", {"/w/own.whl"}},
      {"${TOKEN}/own.whl", {"/code/word/own.whl"}},
      {"own @ file:./d/own.whl", {"/code/d/own.whl"}},
      {"own @ file:///w/own.whl#sha256=aa", {"/w/own.whl"}},
      {"own @ file://localhost/w/own.whl", {"/w/own.whl"}},
      {"own @ file:/w/a%20b%2E%2fc.whl?x", {"/w/a b./c.whl"}},
      {"own @ file:///w/%-1%zz%4.whl", {"/w/%-1%zz%4.whl"}},
      {"own @ file:%2Fw/own.whl", {"/code//w/own.whl"}},
      {"FILE:///w/own.whl", {"/w/own.whl"}},
      {"-f wheels\n--find-links=file:///w%41", {"/code/wheels", "/wA"}},
      {"-c c.txt", {"/code/w/own.whl"}},
  };
  for (const auto& [text, places] : table) {
    const Requirements found = read_all({{"requirements.txt", text}, {"c.txt", "w/own.whl"}});
    CHECK_MESSAGE(found.places == places, text);
  }
  CHECK(wanted_of("FILE:///w/own.whl") == "FILE:///w/own.whl\n");
}

TEST_CASE("the error for a long line shows only the beginning of the line") {
  const std::string told = requirement_refusal({{"requirements.txt", "./" + std::string(1000, 'a')}}).what();
  CHECK(told.find("'./" + std::string(150, 'a')) != std::string::npos);
  CHECK(told.find(std::string(201, 'a')) == std::string::npos);
}

TEST_CASE("without_logins() replaces a login before the host of a URL, but no text before an @ elsewhere") {
  using mlk::image::without_logins;
  for (const char* same :
       {"https://x?a@b", "https://x#a@b", "https://x a@b", "https://x", "https://", "a@b", "://x/@y"})
    CHECK_MESSAGE(without_logins(same, "***@") == same, std::string(same));
  CHECK(without_logins("https://me@x", "***@") == "https://***@x");
  CHECK(without_logins("https://@x", "***@") == "https://***@x");
  CHECK(without_logins("a://b@c?d a://e@f#g", "") == "a://c?d a://f#g");
}

TEST_CASE(
    "--find-links looks for its folder beside the file with this option, and then beside the first file") {
  const TemporaryFolder folder;
  folder.write("sub/beside/x", "");
  const auto links = [&](const std::string& value) {
    return mlk::image::read_requirements(
               folder.path() / "requirements.txt",
               [&](const fs::path& path) {
                 return path.filename() == "more.txt" ? "-f " + value + "\n"
                                                      : std::string("-r sub/more.txt\n");
               },
               [](const std::string&) { return ""; })
        .wanted;
  };
  const std::string top = folder.path().string();
  CHECK(links("beside") == "--find-links=" + top + "/sub/beside\n");
  CHECK(links("gone") == "--find-links=" + top + "/gone\n");
  CHECK(links("/w") == "--find-links=/w\n");
  CHECK(links("file:///w") == "--find-links=file:///w\n");
}
