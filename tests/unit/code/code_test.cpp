// Checks which files of a folder of code travel, and that the same files give the same archive.
#include "cli/code/code.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "cli/image/gzip.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "cli/util/own_files.h"
#include "cli/util/process.h"
#include "cli/util/text.h"
#include "tests/unit/code/packed_code.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("code/code");

namespace {

namespace fs = std::filesystem;
using mlk::image::Code;
using mlk::image::TreeRules;
using mlk::test::code::digest_of;
using mlk::test::code::files_of;
using mlk::test::code::layer_of;
using mlk::test::code::Paths;
using mlk::test::code::plenty;
using mlk::test::code::refusal;
using mlk::test::code::write;

}  // namespace

TEST_CASE("pack_code() leaves out .git, virtual environments, caches, most hidden files and ignored files") {
  const TemporaryFolder folder;
  const fs::path& top = folder.path();
  for (const char* file : {"train.py", "src/model.py", "src/__pycache__/model.pyc", ".git/config",
                           "venv/pyvenv.cfg", "venv/lib/x.py", "cache/CACHEDIR.TAG", "cache/x", ".env",
                           "node_modules/x.js", "runs/1/log", "src/local.txt", "a.pt", "keep.pt", ".hidden"})
    write(top / file);
  write(top / ".gitignore", "runs/\n*.pt\n");
  write(top / ".mlkignore", "!keep.pt\n");
  write(top / "src/.gitignore", "local.txt\n");
  CHECK(files_of(top) ==
        Paths{".gitignore", ".mlkignore", "keep.pt", "src/.gitignore", "src/model.py", "train.py"});
  CHECK(files_of(top, {.include = {"runs/1"}, .exclude = {"*.py", ".*", "/keep.pt"}, .never = {}}) ==
        Paths{"runs/1/log"});
}

TEST_CASE("pack_code() leaves out files that mlk, Slurm or Weights & Biases wrote, if no rule keeps them") {
  const TemporaryFolder folder;
  const fs::path& top = folder.path();
  const std::string report = std::string(mlk::sign_of_report) + "<html>",
                    best = std::string(mlk::sign_of_best) + "a: 1\n";
  write(top / "s-abcde.html", report);
  write(top / "kept.html", report);
  write(top / "page.html", "<!doctype html>\n<html>");
  write(top / "notes.txt", report);
  write(top / "empty.html", "");
  write(top / "best.yaml", best);
  write(top / "out/best.yml", best);
  write(top / "other.yaml", "# " + best);
  fs::create_symlink("s-abcde.html", top / "link.html");
  for (const char* file : {"slurm-17.out", "slurm-17_3.out", "slurm-notes.out", "wandb/latest-run/log",
                           "wandb/debug.log", "lib/wandb/model.py"})
    write(top / file);
  write(top / ".mlkignore", "!kept.html\n");
  CHECK(files_of(top) == Paths{".mlkignore", "empty.html", "kept.html", "lib/wandb/model.py", "link.html",
                               "notes.txt", "other.yaml", "page.html", "slurm-notes.out"});
  const Paths brought = files_of(top, {.include = {"best.yaml"}, .exclude = {}, .never = {}});
  CHECK(std::find(brought.begin(), brought.end(), "best.yaml") != brought.end());
}

TEST_CASE("the digest of code depends on names, contents, executable bits and links, not on other metadata") {
  const TemporaryFolder one, two;
  for (const TemporaryFolder* folder : {&one, &two}) {
    const bool first = folder == &one;
    const mode_t before = umask(first ? 0077 : 0);
    for (const char* file : {"b", "a/c", "a.b", "B"})
      if (first) write(folder->path() / file, file);
    for (const char* file : {"B", "a.b", "a/c", "b"})
      if (!first) write(folder->path() / file, file);
    fs::create_directory(folder->path() / "empty");
    fs::create_symlink("a/c", folder->path() / "link");
    umask(before);
  }
  fs::last_write_time(two.path() / "b", fs::file_time_type::clock::now() - std::chrono::hours(100));
  const std::string digest = digest_of(one.path());
  CHECK(digest == digest_of(two.path()));
  // This digest is fixed for all machines and versions. A change would give every run of users another
  // identity.
  CHECK(digest == "3271aefae9fe209e3760b9d2c85bb51a4303984f14bf939dc8b843f6572da1f3");
  fs::permissions(two.path() / "b", fs::perms::owner_exec, fs::perm_options::add);
  CHECK(digest != digest_of(two.path()));
  fs::permissions(two.path() / "b", fs::perms::owner_exec, fs::perm_options::remove);
  CHECK(digest == digest_of(two.path()));
  fs::remove(two.path() / "link");
  CHECK(digest != digest_of(two.path()));
}

TEST_CASE("tar unpacks an archive of pack_code() to the same tree, even if files have unusual names") {
  const TemporaryFolder folder, out;
  const std::string long_name(255, 'n'), deep = "d/" + std::string(90, 'e') + "/" + std::string(90, 'f');
  for (const std::string& file :
       {std::string("new\nline"), std::string("\xc3\xa9\xe2\x82\xac"), long_name, deep + "/g",
        std::string("-rf"), std::string("a b"), std::string("*"), std::string("\xff\xfe")})
    write(folder.path() / file, "content of " + file);
  write(folder.path() / "empty-file", "");
  write(folder.path() / "big", std::string(300'000, 'z'));
  fs::create_symlink(deep + "/g", folder.path() / "a-link");
  fs::create_symlink("nowhere", folder.path() / "dangling");
  fs::create_symlink("loop", folder.path() / "loop");
  fs::create_hard_link(folder.path() / "big", folder.path() / "hard");
  const Code code = mlk::image::pack_code(folder.path(), {}, {plenty});
  CHECK(code.warnings.empty());
  write(out.path() / "code.tar.gz", code.archive);
  fs::create_directory(out.path() / "tree");
  const std::string command = "tar -xzof '" + (out.path() / "code.tar.gz").string() + "' -C '" +
                              (out.path() / "tree").string() + "' && diff -r --no-dereference '" +
                              folder.path().string() + "' '" + (out.path() / "tree").string() + "'";
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("pack_code() refuses a link that leads out of the folder, and names link and target") {
  for (const char* target : {"/etc/passwd", "../x", "a/../../x"}) {
    const TemporaryFolder folder;
    write(folder.path() / "f");
    fs::create_symlink(target, folder.path() / "out");
    const mlk::Error error = refusal(folder.path());
    CHECK(error.code() == mlk::ExitCode::usage);
    CHECK(std::string(error.what())
              .find("out is a link that leads out of the folder, to " + std::string(target)) !=
          std::string::npos);
    CHECK(files_of(folder.path(), {.include = {}, .exclude = {"/out"}, .never = {}}) == Paths{"f"});
  }
}

TEST_CASE("pack_code() leaves out pipes and sockets, and warns of each") {
  const TemporaryFolder folder;
  write(folder.path() / "f");
  REQUIRE(mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = (folder.path() / "sock").string();
  REQUIRE(path.size() < sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const Code code = mlk::image::pack_code(folder.path(), {}, {plenty});
  close(listener);
  CHECK(code.files == Paths{"f"});
  REQUIRE(code.warnings.size() == 2);
  CHECK(code.warnings[0].find("pipe is a socket, a pipe or a device") != std::string::npos);
}

TEST_CASE("if the code is too large, the error names the bound and the largest files") {
  const TemporaryFolder folder;
  write(folder.path() / "small");
  write(folder.path() / "noise", mlk::random_bytes(200'000));
  mlk::Error error = refusal(folder.path(), 100'000);
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what()).find("the largest files are noise (196 KiB), small (1 KiB)") !=
        std::string::npos);
  std::ofstream(folder.path() / "sparse").close();
  fs::resize_file(folder.path() / "sparse", 3ull << 30);
  error = refusal(folder.path());
  CHECK(std::string(error.what()).find("has 3072.2 MiB, but at most 1.0 MiB can travel without an image") !=
        std::string::npos);
  CHECK(error.hint().find(".mlkignore") != std::string::npos);
}

TEST_CASE("pack_code() refuses code without files, and reports not_found for a missing folder") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "a");
  CHECK(std::string(refusal(folder.path()).what()).find("has no files that travel") != std::string::npos);
  CHECK(refusal(folder.path() / "gone").code() == mlk::ExitCode::not_found);
}

TEST_CASE("an archive of a large file, many small files and an empty file unpacks to the same files") {
  const TemporaryFolder folder, out;
  write(folder.path() / "m", mlk::random_bytes(3 << 20));
  for (int i = 0; i < 700; ++i)
    write(folder.path() / ("n" + std::to_string(i)), std::string(static_cast<std::size_t>(i) * 7, 'n'));
  write(folder.path() / "a", "");
  constexpr std::size_t much = 8 << 20;
  write(out.path() / "code.tar.gz", mlk::image::pack_code(folder.path(), {}, {much}).archive);
  const std::string command = "cd '" + out.path().string() +
                              "' && mkdir tree && tar -xzof code.tar.gz -C tree && diff -r '" +
                              folder.path().string() + "' tree";
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("pack_code() still returns the digest if the code is too large for an archive") {
  const TemporaryFolder folder;
  write(folder.path() / "zeros", std::string(1 << 20, '\0'));
  constexpr std::size_t small = 16 << 10;
  const Code whole = mlk::image::pack_code(folder.path(), {}, {small});
  const Code without = mlk::image::pack_code(
      folder.path(), {}, {.most_bytes = small, .too_large = mlk::image::TooLarge::has_no_archive});
  CHECK_FALSE(whole.archive.empty());
  CHECK(without.archive.empty());
  CHECK(without.digest == whole.digest);
}

TEST_CASE("pack_code() packs more files than a process may have open") {
  const TemporaryFolder folder;
  constexpr int files = 3000;  // the usual limit is 1024
  for (int i = 0; i < files; ++i) write(folder.path() / std::to_string(i % 100) / std::to_string(i), "");
  CHECK(files_of(folder.path()).size() == files);
}

TEST_CASE("list_tree() sorts entries by the bytes of their paths, and gives the size of each file") {
  const TemporaryFolder folder;
  constexpr std::size_t many = 1300;
  for (const char* file : {"a/c", "a-b", "a.b/c-d", "a.b/c/d", "a.b/c.d", "a0", "z/z/z/z"})
    write(folder.path() / file, file);
  for (std::size_t i = 0; i < many; ++i)
    write(folder.path() / "flat" / std::to_string(i), std::string(i, 'x'));
  const mlk::image::Tree tree = mlk::image::list_tree(folder.path(), {});
  const auto path_of = [](const mlk::image::TreeEntry& entry) { return entry.of_tar.path; };
  CHECK(std::ranges::is_sorted(tree.entries, {}, path_of));
  std::size_t files = 0;
  for (const mlk::image::TreeEntry& entry : tree.entries) {
    const std::string& path = entry.of_tar.path;
    const bool is_file = entry.of_tar.kind == mlk::image::TarEntry::Kind::file;
    files += is_file ? 1 : 0;
    if (path.starts_with("flat/")) CHECK(entry.size == std::stoul(path.substr(5)));
    if (is_file) CHECK(entry.stamp.inode != 0);
  }
  CHECK(files == many + 7);
  CHECK(tree.entries.size() == files + 7);
}

TEST_CASE("a .gitignore cannot bring back .git or .env, and .mlkignore has priority over every .gitignore") {
  const TemporaryFolder folder;
  const fs::path& top = folder.path();
  for (const char* file : {".git/config", ".env", "src/x", "d/w.bin", "d/v.bin", "e"}) write(top / file);
  write(top / ".gitignore", "/*\n!/.*\n!/src\n!/d\n");
  write(top / ".mlkignore", "!w.bin\n");
  write(top / "d/.gitignore", "*.bin\n");
  CHECK(files_of(top) == Paths{".gitignore", ".mlkignore", "d/.gitignore", "d/w.bin", "src/x"});
  CHECK(files_of(top, {.include = {".env"}, .exclude = {"d", "src"}, .never = {".mlkignore"}}) ==
        Paths{".env", ".gitignore"});
  const Code code = mlk::image::pack_code(top, {.include = {"gone/*"}, .exclude = {}, .never = {}}, {plenty});
  CHECK(code.warnings == Paths{"code.include: nothing matches gone/*"});
  CHECK(mlk::image::pack_code(top, {.include = {"src/x"}, .exclude = {}, .never = {}}, {plenty})
            .warnings.empty());
}

TEST_CASE("the rules of a repository apply to a folder in it if the repository does not ignore this folder") {
  const TemporaryFolder folder;
  write(folder.path() / ".git/HEAD");
  write(folder.path() / ".gitignore", "*.pem\n/sub/a\n/mine/\n");
  for (const char* file : {"sub/key.pem", "sub/a", "sub/b", "mine/key.pem"}) write(folder.path() / file);
  CHECK(files_of(folder.path() / "sub") == Paths{"b"});
  CHECK(files_of(folder.path() / "mine", {.include = {"key.pem"}, .exclude = {}, .never = {}}) ==
        Paths{"key.pem"});
}

TEST_CASE("pack_code() leaves out the same paths as git, for rules in any of git's ignore files") {
  const TemporaryFolder folder;
  const fs::path top = folder.path() / "repository";
  for (const char* file :
       {"train.py", "bin/tool", "a.log", "keep.log", "A.TMP", "sub/b.log", "sub/bin/x", "sub/c.py"})
    write(top / file);
  write(top / ".gitignore", "!keep.log\n");
  write(folder.path() / "of_user", "*.log\n/sub/c.py\n");
  const auto git = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "git");
    mlk::Command command;
    command.argv = words;
    command.folder = top.string();
    return mlk::run_process(command);
  };
  REQUIRE(git({"init", "-q"}).ok());
  write(top / ".git/info/exclude", "/bin/\n*.tmp\n!/sub/c.py\n");
  REQUIRE(git({"config", "core.excludesFile", (folder.path() / "of_user").string()}).ok());
  for (const char* ignores_case : {"false", "true"}) {
    REQUIRE(git({"config", "core.ignoreCase", ignores_case}).ok());
    const std::string known = git({"ls-files", "-co", "--exclude-standard"}).output;
    Paths wanted = mlk::split(known.substr(0, known.size() - 1), '\n');
    std::sort(wanted.begin(), wanted.end());
    CHECK(files_of(top) == wanted);
    CHECK(std::count(wanted.begin(), wanted.end(), "A.TMP") ==
          (ignores_case == std::string("false") ? 1 : 0));
  }
  CHECK(files_of(top / "sub") == Paths{"bin/x", "c.py"});
  CHECK(mlk::image::pack_code(top, {}, {plenty}).tree.ignored ==
        Paths{"A.TMP", "a.log", "bin/", "sub/b.log"});
}

TEST_CASE("pack_code() returns no archive if it would be too large, and refuses code above 16 GiB") {
  const TemporaryFolder folder;
  write(folder.path() / "noise", mlk::random_bytes(200'000));
  const auto packed = [&](std::size_t most) {
    return mlk::image::pack_code(folder.path(), {},
                                 {.most_bytes = most, .too_large = mlk::image::TooLarge::has_no_archive});
  };
  CHECK(packed(100'000).archive.empty());
  CHECK_FALSE(packed(plenty).archive.empty());
  CHECK(packed(100'000).digest == packed(plenty).digest);
  CHECK(packed(100'000).size == 200'000);
  write(folder.path() / "large");
  fs::resize_file(folder.path() / "large", mlk::image::most_unpacked_code + 1);
  const Code code = packed(std::size_t{1} << 30);
  CHECK(code.archive.empty());
  CHECK(code.warnings.size() == 1);
  fs::resize_file(folder.path() / "large", 17ull << 30);
  const mlk::Error error = [&] {
    try {
      (void)packed(plenty);
    } catch (const mlk::Error& caught) {
      return caught;
    }
    return mlk::Error(mlk::ExitCode::ok, "accepted");
  }();
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what()).find("the largest files are large (17408.0 MiB), noise") !=
        std::string::npos);
}

TEST_CASE("write_code_layer() packs folders, files and links, and lets every user write to the files") {
  const TemporaryFolder folder, out;
  write(folder.path() / "src/train.py", "print()");
  write(folder.path() / "run.sh", "#!/bin/sh");
  fs::permissions(folder.path() / "run.sh", fs::perms::owner_all);
  fs::create_symlink("run.sh", folder.path() / "link");
  const Code code = mlk::image::pack_code(folder.path(), {}, {.most_bytes = plenty});
  const mlk::image::Layer layer = layer_of(folder.path(), code, out.path());
  const std::string tar = mlk::image::gunzip(mlk::read_file(layer.file, plenty), plenty);
  CHECK(layer.diff_id == "sha256:" + mlk::sha256_hex(tar));
  const std::string listed = [&] {
    const fs::path text = out.path() / "listed";
    const std::string command = "tar -tzvf '" + layer.file.string() +
                                "' --numeric-owner | awk '{print $1, $2, $6, $7, $8}' > '" + text.string() +
                                "'";
    REQUIRE(std::system(command.c_str()) == 0);
    return mlk::read_file(text, plenty);
  }();
  CHECK(listed ==
        "drwxr-xr-x 0/0 mlk/  \n"
        "drwxrwxrwx 0/0 mlk/code/  \n"
        "lrwxrwxrwx 0/0 mlk/code/link -> run.sh\n"
        "-rwxrwxrwx 0/0 mlk/code/run.sh  \n"
        "drwxrwxrwx 0/0 mlk/code/src/  \n"
        "-rw-rw-rw- 0/0 mlk/code/src/train.py  \n");
}

TEST_CASE("pack_code() can write the same layer as write_code_layer(), and leaves no other file") {
  const TemporaryFolder folder, at_once, later;
  write(folder.path() / "src/train.py", "print()");
  write(folder.path() / "data", std::string(300'000, 'x'));
  const Code code = mlk::image::pack_code(
      folder.path(), {},
      {.most_bytes = 0,
       .too_large = mlk::image::TooLarge::has_no_archive,
       .layers = mlk::image::CodeLayers{.cache = at_once.path(), .prefix = "mlk/code"}});
  CHECK(code.archive.empty());
  CHECK(code.digest == digest_of(folder.path()));
  CHECK(std::distance(fs::directory_iterator(at_once.path()), {}) == 2);  // the layer and its note
  const mlk::image::Layer written = layer_of(folder.path(), code, later.path());
  fs::remove_all(folder.path() / "src");  // so that reading the code again would fail
  CHECK(layer_of(folder.path(), code, at_once.path()).blob.digest == written.blob.digest);
}

TEST_CASE("write_archive() writes an archive that matches the code's digest, and keeps an existing archive") {
  const TemporaryFolder folder, out;
  write(folder.path() / "src/train.py", "print()");
  const Code code = mlk::image::pack_code(folder.path(), {}, {.most_bytes = plenty});
  const fs::path file = out.path() / "archive";
  mlk::image::write_archive(folder.path(), code, file);
  CHECK(mlk::sha256_hex(mlk::image::gunzip(mlk::read_file(file, plenty), plenty)) == code.digest);
  write(folder.path() / "src/train.py", "print");  // so that reading the code again would fail
  mlk::image::write_archive(folder.path(), code, file);
}

TEST_CASE(
    "write_code_layer() and write_archive() refuse code that changed since pack_code(), and leave no file") {
  const TemporaryFolder folder, out;
  write(folder.path() / "train.py", "print(1)");
  const Code code = mlk::image::pack_code(folder.path(), {}, {.most_bytes = plenty});
  for (const std::string& now : Paths{"print(2)", "print()", "print(1)\n", ""}) {
    write(folder.path() / "train.py", now);
    CHECK_THROWS_WITH_AS(
        mlk::image::write_code_layer(folder.path(), code, {.cache = out.path(), .prefix = "mlk/code"}),
        doctest::Contains("changes while it is read"), mlk::Error);
    CHECK_THROWS_WITH_AS(mlk::image::write_archive(folder.path(), code, out.path() / "archive"),
                         doctest::Contains("changes while it is read"), mlk::Error);
    CHECK_MESSAGE(fs::is_empty(out.path()), now);
  }
  fs::remove(folder.path() / "train.py");
  fs::create_symlink("/etc/passwd", folder.path() / "train.py");
  CHECK_THROWS_AS(mlk::image::write_archive(folder.path(), code, out.path() / "archive"), mlk::Error);
  CHECK(fs::is_empty(out.path()));
}

TEST_CASE("a name that begins with .wh. may be in an archive of code, but not in a layer") {
  for (const std::string& name : Paths{".wh.train.py", "src/.wh..wh..opq", ".wh.folder/file"}) {
    const TemporaryFolder folder, out;
    write(folder.path() / "train.py", "print()");
    write(folder.path() / name, "");
    const Code code = mlk::image::pack_code(folder.path(), {.include = {name}, .exclude = {}, .never = {}},
                                            {.most_bytes = plenty});
    CHECK_THROWS_WITH_AS(
        mlk::image::write_code_layer(folder.path(), code, {.cache = out.path(), .prefix = "mlk/code"}),
        doctest::Contains("by which image layers delete files"), mlk::Error);
    CHECK(fs::is_empty(out.path()));
  }
}

TEST_CASE("pack_code() leaves out files that usually hold secrets, unless `include` names them") {
  const TemporaryFolder folder;
  const fs::path& top = folder.path();
  const Paths secrets{".Xauthority",
                      ".azure/x",
                      ".bash_history",
                      ".boto",
                      ".config/gcloud/x",
                      ".docker/config.json",
                      ".env.local",
                      ".envrc",
                      ".git-credentials",
                      ".huggingface/token",
                      ".kaggle/kaggle.json",
                      ".my.cnf",
                      ".npmrc",
                      ".pgpass",
                      ".pypirc",
                      ".python_history",
                      ".s3cfg",
                      ".vault-token",
                      "_netrc",
                      "a/credentials.json",
                      "a/id_ed25519",
                      "id_rsa",
                      "key.pem",
                      "kubeconfig"};
  for (const std::string& secret : secrets) write(top / secret);
  for (const char* file : {"train.py", "id_map.json", "id_rsa.pub", "a/pem", ".gitkeep"}) write(top / file);
  const Code code = mlk::image::pack_code(top, {}, {plenty});
  CHECK(code.files == Paths{".gitkeep", "a/pem", "id_map.json", "id_rsa.pub", "train.py"});
  CHECK(code.tree.secrets.size() == secrets.size());
  CHECK(code.tree.ignored.empty());
  for (const std::string& secret : secrets) {
    const Paths found = files_of(top, {.include = {secret}, .exclude = {}, .never = {}});
    CHECK_MESSAGE(std::find(found.begin(), found.end(), secret) != found.end(), secret);
  }
}

TEST_CASE("`ignored` lists the paths that a .gitignore leaves out, with one entry for a whole folder") {
  const TemporaryFolder folder;
  const fs::path& top = folder.path();
  for (const char* file :
       {"train.py", "data.bin", "runs/1/log", "src/a.bin", "src/m.py", "other", "__pycache__/x"})
    write(top / file);
  write(top / ".gitignore", "*.bin\nruns/\n__pycache__\n");
  write(top / ".mlkignore", "other\n");
  CHECK(mlk::image::pack_code(top, {}, {plenty}).tree.ignored == Paths{"data.bin", "runs/", "src/a.bin"});
  const Code with =
      mlk::image::pack_code(top, {.include = {"data.bin"}, .exclude = {"/src"}, .never = {}}, {plenty});
  CHECK(with.tree.ignored == Paths{"runs/"});
}

TEST_CASE("pointers of Git LFS give a warning if the code has a file .gitattributes") {
  const TemporaryFolder folder;
  write(folder.path() / "model.bin",
        "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 12345\n");
  write(folder.path() / "train.py", std::string(130, '#'));
  CHECK(mlk::image::pack_code(folder.path(), {}, {plenty}).warnings.empty());
  write(folder.path() / ".gitattributes", "*.bin filter=lfs\n");
  CHECK(mlk::image::pack_code(folder.path(), {}, {plenty}).warnings ==
        Paths{"code: 1 pointer of Git LFS travel without their content (model.bin); fetch it first: git lfs "
              "pull"});
}
