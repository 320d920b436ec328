// Checks what mlk reads from pip's reports of the packages that pip would install, and what mlk refuses.
#include "cli/image/pip_report.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/image/pip_reports.h"

TEST_SUITE_BEGIN("image/pip_report");

namespace {

using mlk::image::MarkerEnvironment;
using mlk::image::parse_pip_report;
using mlk::image::samples::report_of;
using mlk::image::samples::report_with;
using Lines = std::vector<std::string>;

const MarkerEnvironment of_image = mlk::image::marker_environment({{"linux", "amd64", ""}, "3.11"});

mlk::Error report_error(const std::string& report) {
  try {
    (void)parse_pip_report(report, of_image);
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

}  // namespace

TEST_CASE("parse_pip_report() sorts the packages, and finds digests in both places where pip writes them") {
  const auto resolved = parse_pip_report(report_with(R"(
    {"download_info":{"url":"https://x/torch.whl","archive_info":{"hash":"sha256=bb","hashes":{"sha256":"bb"}}},
     "is_direct":false,"requested":true,"metadata":{"metadata_version":"2.1","name":"torch","version":"2.1.0+cpu"}},
    {"download_info":{"archive_info":{"hash":"sha256=aa"}},"metadata":{"name":"Jinja2","version":"3.1"}},
    {"download_info":{"url":"https://x/old.whl","archive_info":{"hashes":{"md5":"dd"}}},"metadata":{"name":"old","version":"3"}},
    {"download_info":{"url":"file:///w/own-0-py3-none-any.whl","archive_info":{"hashes":{"sha256":"cc"}}},
     "is_direct":true,"metadata":{"name":"own","version":"0"}})"),
                                         of_image);
  Lines shown;
  for (const auto& one : resolved)
    shown.push_back(one.name + "==" + one.version + " " + one.digest + " " + one.url);
  CHECK(shown == Lines{"Jinja2==3.1 sha256=aa ", "old==3 md5=dd ",
                       "own==0 sha256=cc file:///w/own-0-py3-none-any.whl", "torch==2.1.0+cpu sha256=bb "});
  CHECK(parse_pip_report(report_with(""), of_image).empty());
}

TEST_CASE("parse_pip_report() refuses a package without a wheel or a digest, and names the package") {
  const std::string metadata = R"(,"metadata":{"name":"own","version":"0.1"}})";
  for (const std::string& source : Lines{
           R"({"download_info":{"url":"file:///home/me/own","dir_info":{}})",
           R"({"download_info":{"url":"file:///home/me/own","dir_info":{"editable":true}})",
           R"({"download_info":{"url":"https://x/own.git","vcs_info":{"vcs":"git","commit_id":"aa"}})",
           R"({"download_info":{"url":"https://x/own-0.1.whl","archive_info":{}})",
           R"({"download_info":{"url":"https://x/own-0.1.tar.gz","archive_info":{"hashes":{"sha256":"aa"}}})",
           R"({"download_info":{})", R"({"is_direct":true)"}) {
    const mlk::Error error = report_error(report_with(source + metadata));
    CHECK_MESSAGE(error.code() == mlk::ExitCode::usage, source);
    CHECK(std::string(error.what()).find("own 0.1 is not from a wheel") != std::string::npos);
  }
}

TEST_CASE("parse_pip_report() treats a package as a wheel if the path of its URL ends with .whl") {
  const auto report = [](const std::string& url) {
    return report_with(R"({"download_info":{"url":")" + url +
                       R"(","archive_info":{"hash":"sha256=aa"}},"is_direct":true,)"
                       R"("metadata":{"name":"own","version":"0.1"}})");
  };
  for (const std::string& wheel : Lines{"https://x/own-0.1.whl?token=a", "https://x/own-0.1.whl#egg=own.zip"})
    CHECK(parse_pip_report(report(wheel), of_image).at(0).url == wheel);
  for (const std::string& source : Lines{"https://x/own-0.1.zip?as=own.whl", "https://x/get?own.whl",
                                         "https://x/own-0.1.zip#own.whl", "https://x/own.whl/"})
    CHECK_MESSAGE(report_error(report(source)).code() == mlk::ExitCode::usage, source);
}

TEST_CASE("parse_pip_report() refuses a report for another Python than the Python of the image") {
  mlk::Error error = report_error(report_of("six", "1", "aa", "3.12"));
  CHECK(error.code() == mlk::ExitCode::failure);
  CHECK(std::string(error.what())
            .find("does not choose for the image's Python: its implementation_version is "
                  "'3.12.0' in place of '3.11.0'") != std::string::npos);
  error = report_error(R"({"install":[]})");
  CHECK(std::string(error.what()).find("does not choose for the image's Python") != std::string::npos);
}

TEST_CASE("pinned() writes exact versions, digests, and URLs with their logins") {
  const std::vector<mlk::image::ResolvedPackage> two{{"own", "0", "sha256=cc", "https://x/own.whl"},
                                                     {"six", "1.16.0", "sha512=aa", ""}};
  CHECK(mlk::image::pinned(two, {"https://me:word@x/own.whl#egg=own", "https://y/own.whl"}) ==
        "own @ https://me:word@x/own.whl --hash=sha256:cc\nsix==1.16.0 --hash=sha512:aa\n");
  CHECK(mlk::image::pinned({{"a", "1", "sha256=aa", ""}, {"b", "2", "md5=bb", ""}}, {}) == "a==1\nb==2\n");
  CHECK(mlk::image::pinned({}, {}).empty());
}

TEST_CASE("entry_scripts() makes a script for each valid entry point of a package") {
  const auto scripts = mlk::image::entry_scripts(
      "[other]\nx = a:b\n[console_scripts]\n# y = a:b\ntorchrun = torch.distributed.run:main\n"
      "own-tool=own.cli:App.run [extra]\n../bad = a:b\n.hidden = a:b\nspaced out = a:b\nnone = a\ninjected = "
      "a:b()\n"
      "[gui_scripts]\nwindow = own:w\n");
  Lines names;
  for (const auto& [name, text] : scripts) names.push_back(name);
  CHECK(names == Lines{"torchrun", "own-tool", "window"});
  CHECK(scripts[0].second ==
        "#!/usr/bin/env python3\nimport sys\nfrom torch.distributed.run import main\n"
        "if __name__ == \"__main__\":\n    sys.exit(main())\n");
  CHECK(scripts[1].second.find("from own.cli import App\n") != std::string::npos);
  CHECK(scripts[1].second.find("sys.exit(App.run())") != std::string::npos);
}

TEST_CASE("last_collected() returns the last package, without logins and without mlk's own files") {
  using mlk::image::last_collected;
  CHECK(last_collected("").empty());
  CHECK(last_collected(
            "Collecting a\nCollecting b==1 (from -r /x/requirements.txt (line 4))\n  Downloading\n") ==
        "b==1");
  CHECK(
      last_collected("Collecting own@ git+https://me:word@h/o.git (from a->b==1->-r /x/r.txt (line 2))\n") ==
      "own@ git+https://***@h/o.git (from a->b==1)");
  CHECK(last_collected("Collecting a\nProcessing /x/own (from a->-r /x/r.txt (line 2))") ==
        "/x/own (from a)");
}

TEST_CASE("without_secrets() hides the logins and queries of URLs, and does not change other text") {
  using mlk::image::without_secrets;
  CHECK(without_secrets("own@ https://me:word@h/o.whl?a=word&b=c (from a)") ==
        "own@ https://***@h/o.whl?*** (from a)");
  CHECK(without_secrets("HTTP error 403 while getting https://h/o.whl?word") ==
        "HTTP error 403 while getting https://h/o.whl?***");
  CHECK(without_secrets("'https://h/a?b', https://h/c?d#e\nwhy? https://h/f is gone?") ==
        "'https://h/a?***', https://h/c?***\nwhy? https://h/f is gone?");
  CHECK(mlk::image::last_collected("Collecting o@ https://h/o.whl?word\n") == "o@ https://h/o.whl?***");
}

TEST_CASE("parse_pip_report() refuses a text that is no report, and a report with a malformed package") {
  for (const std::string& bad : Lines{"", "pip 23", "null", "[]", "{}", R"({"install":null})",
                                      R"({"install":{}})", std::string(300, '[')})
    CHECK_MESSAGE(
        std::string(report_error(bad).what()) == "code.python: pip gave no report of what it would install",
        bad);
  for (const std::string& bad : Lines{"5", "{}", R"({"metadata":{"name":"x"}})",
                                      R"({"metadata":{"name":"x","version":5}})", R"({"metadata":"x"})"}) {
    const mlk::Error error = report_error(report_with(bad));
    CHECK_MESSAGE(error.code() == mlk::ExitCode::failure, bad);
    CHECK(std::string(error.what()) == "code.python: pip's report names a package without its version");
  }
}

TEST_CASE(
    "parse_pip_report() takes the digest of sha256 if there is one, or else of sha384, sha512, md5 or sha1") {
  const auto digest = [](const std::string& archive) {
    return parse_pip_report(report_with(R"({"download_info":{"archive_info":)" + archive +
                                        R"(},"metadata":{"name":"a","version":"1"}})"),
                            of_image)
        .at(0)
        .digest;
  };
  CHECK(digest(R"({"hashes":{"sha256":"1","sha384":"2","sha512":"3","md5":"4","sha1":"5"},"hash":"x=6"})") ==
        "sha256=1");
  CHECK(digest(R"({"hashes":{"sha384":"2","sha512":"3","md5":"4","sha1":"5"}})") == "sha384=2");
  CHECK(digest(R"({"hashes":{"sha512":"3","md5":"4","sha1":"5"}})") == "sha512=3");
  CHECK(digest(R"({"hashes":{"md5":"4","sha1":"5"}})") == "md5=4");
  CHECK(digest(R"({"hashes":{"sha1":"5"},"hash":"sha256=6"})") == "sha1=5");
  CHECK(digest(R"({"hashes":{"sha256":5},"hash":"sha256=6"})") == "sha256=6");
  CHECK(digest(R"({"hashes":{},"hash":"sha256=6"})") == "sha256=6");
}

TEST_CASE("parse_pip_report() sorts packages of one name by version, then by digest") {
  const auto entry = [](const std::string& name, const std::string& version, const std::string& digest) {
    return R"({"download_info":{"archive_info":{"hash":")" + digest + R"("}},"metadata":{"name":")" + name +
           R"(","version":")" + version + R"("}})";
  };
  std::string shown;
  for (const auto& one :
       parse_pip_report(report_with(entry("b", "1", "x=1") + "," + entry("a", "2", "x=1") + "," +
                                    entry("a", "1", "x=2") + "," + entry("a", "1", "x=1")),
                        of_image))
    shown += one.name + one.version + one.digest + " ";
  CHECK(shown == "a1x=1 a1x=2 a2x=1 b1x=1 ");
}

TEST_CASE("parse_pip_report() returns the URL of a package if a requirement named this URL") {
  const auto url = [](const std::string& is_direct) {
    return parse_pip_report(
               report_with(
                   R"({"download_info":{"url":"https://x/a.whl","archive_info":{"hash":"sha256=a"}},)" +
                   is_direct + R"("metadata":{"name":"a","version":"1"}})"),
               of_image)
        .at(0)
        .url;
  };
  CHECK(url(R"("is_direct":true,)") == "https://x/a.whl");
  CHECK(url(R"("is_direct":false,)").empty());
  CHECK(url(R"("is_direct":"true",)").empty());
  CHECK(url("").empty());
}

TEST_CASE("pinned() writes digests of sha256, sha384 and sha512, but not of sha1 or md5") {
  using mlk::image::pinned;
  CHECK(pinned({{"a", "1", "sha256=aa", ""}}, {}) == "a==1 --hash=sha256:aa\n");
  CHECK(pinned({{"a", "1", "sha384=aa", ""}}, {}) == "a==1 --hash=sha384:aa\n");
  CHECK(pinned({{"a", "1", "sha512=aa", ""}}, {}) == "a==1 --hash=sha512:aa\n");
  CHECK(pinned({{"a", "1", "sha1=aa", ""}}, {}) == "a==1\n");
  CHECK(pinned({{"a", "1", "md5=aa", "https://x/a.whl"}}, {}) == "a @ https://x/a.whl\n");
  CHECK(pinned({{"a", "1", "md5=aa", "https://x/a.whl"}}, {"https://me@x/a.whl#sha256=bb"}) ==
        "a @ https://me@x/a.whl\n");
  CHECK(pinned({{"a", "1", "md5=aa", ""}}, {"https://me@x/a.whl"}) == "a==1\n");
}

TEST_CASE("entry_scripts() reads only well-formed lines of the sections console_scripts and gui_scripts") {
  const auto names = [](const std::string& text) {
    Lines out;
    for (const auto& [name, script] : mlk::image::entry_scripts(text)) out.push_back(name);
    return out;
  };
  CHECK(names("a = b:c\n[console_scripts]\nd = b:c\n[other]\ne = b:c\n[gui_scripts]\nf = b:c") ==
        Lines{"d", "f"});
  CHECK(names("[console_scripts]\r\n  a_b.c-9=b.c:d.e\r\n") == Lines{"a_b.c-9"});
  for (const char* bad : {"a b:c", "a = b", "a : b = c", "= b:c", "a = :c", "a = b:", "a/b = c:d",
                          "a = b c:d", "a = .b:c", "a = b:.c", "#a = b:c", "a = b:c;d", "a = b:[x]"})
    CHECK_MESSAGE(names(std::string("[console_scripts]\n") + bad).empty(), std::string(bad));
  CHECK(mlk::image::entry_scripts("[gui_scripts]\na = b:c [x]").at(0).second ==
        "#!/usr/bin/env python3\nimport sys\nfrom b import c\nif __name__ == \"__main__\":\n"
        "    sys.exit(c())\n");
}

TEST_CASE("last_collected() shortens a long name and replaces control characters") {
  using mlk::image::last_collected;
  const std::string told = last_collected("Collecting " + std::string(1000, 'a'));
  CHECK(told.starts_with(std::string(250, 'a')));
  CHECK(told.size() < 320);
  CHECK(last_collected("Collecting a\x1b[2J").find('\x1b') == std::string::npos);
  CHECK(last_collected("  Collecting a\nProcessing b\nCollected c").starts_with("b"));
}

TEST_CASE("the error for a wrong marker value shows this value and the version of pip") {
  const mlk::Error error = report_error(R"({"pip_version":"23.1","environment":{},"install":[]})");
  CHECK(
      std::string(error.what()) ==
      "code.python: pip 23.1 does not choose for the image's Python: its implementation_name is '' in place "
      "of 'cpython'");
  CHECK(error.hint() == "take another version of pip, 22.2 or newer, or an image that has the packages");
}
