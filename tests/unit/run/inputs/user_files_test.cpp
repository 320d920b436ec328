// Tests which of the user's files an experiment file may read.
#include "cli/run/inputs/user_files.h"

#include <filesystem>
#include <functional>
#include <string>
#include <sys/stat.h>

#include <doctest/doctest.h>

#include "cli/render/limits.h"
#include "cli/util/error.h"
#include "tests/unit/util/exchanger.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("run/inputs/user_files");

namespace fs = std::filesystem;

namespace {

struct Home {
  TemporaryFolder folder;
  const fs::path experiment = folder.path() / "experiment";

  Home() {
    write("id_rsa", "secret");
    write("experiment/data/a", "1");
  }
  fs::path write(const std::string& name, const std::string& text) {
    fs::create_directories((folder.path() / name).parent_path());
    return folder.write(name, text);
  }
  // Each file as "name=text ", or "error | hint".
  std::string read(const std::string& named, const std::vector<fs::path>& allowed = {}) const {
    try {
      std::string names;
      for (const auto& [name, text] : mlk::read_user_folder({experiment, allowed}, named, "data 'd'")) {
        names += name + "=" + text + " ";
      }
      return names;
    } catch (const mlk::Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
  }
};

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("the files of a folder beside the experiment file are read") {
  Home home;
  home.write("experiment/data/b", "2");
  CHECK(home.read("data") == "a=1 b=2 ");
  CHECK(home.read("./data/../data") == "a=1 b=2 ");
  fs::create_symlink("data", home.experiment / "link");
  CHECK(home.read("link") == "a=1 b=2 ");
  fs::create_symlink("../data/a", home.experiment / "data" / "c");
  CHECK(home.read("data") == "a=1 b=2 c=1 ");
}

TEST_CASE("a path that leads out of the experiment file's folder is refused") {
  Home home;
  fs::create_symlink("../../id_rsa", home.experiment / "data" / "c");
  const std::string key = fs::canonical(home.folder.path() / "id_rsa").string();
  CHECK(has(home.read("data"), "data 'd': " + (home.experiment / "data/c").string() +
                                   " leads out of the experiment file's folder, to " + key));
  CHECK(has(home.read("data"), "--allow-files " + key));
  CHECK(has(home.read(".."), "leads out of the experiment file's folder"));
  CHECK(has(home.read(home.folder.path().string()), "leads out of the experiment file's folder"));
  fs::create_directory_symlink(home.folder.path(), home.experiment / "up");
  CHECK(has(home.read("up"), "leads out of the experiment file's folder"));
  // A folder whose name only begins with the name of the experiment's folder.
  home.write("experiment2/x", "3");
  CHECK(has(home.read("../experiment2"), "leads out of the experiment file's folder"));
}

TEST_CASE("a hidden folder beside the experiment file is not read") {
  Home home;
  home.write("experiment/.ssh/key", "secret");
  CHECK(has(home.read(".ssh"), ".ssh is hidden"));
  fs::create_symlink("../.ssh/key", home.experiment / "data" / "c");
  CHECK(has(home.read("data"), "data/c is hidden"));
}

TEST_CASE("--allow-files allows a file at any place") {
  Home home;
  home.write("common/x", "3");
  home.write("common/.hidden/y", "4");
  fs::create_symlink("../../common/x", home.experiment / "data" / "c");
  CHECK(home.read("data", {home.folder.path() / "common"}) == "a=1 c=3 ");
  CHECK(home.read("data", {home.folder.path() / "common/x"}) == "a=1 c=3 ");
  CHECK(home.read("../common", {home.folder.path() / "common"}) == "x=3 ");
  CHECK(home.read((home.folder.path() / "common").string(), {home.experiment / "../common"}) == "x=3 ");
  CHECK(home.read("../common/.hidden", {home.folder.path() / "common"}) == "y=4 ");
  CHECK(has(home.read("data", {home.folder.path() / "id_rsa"}), "leads out"));
  CHECK(has(home.read("data", {"/nowhere"}), "--allow-files: there is no /nowhere"));
}

TEST_CASE("hidden files and caches are skipped") {
  Home home;
  for (const char* name :
       {"__pycache__/a.pyc", "old.pyc", ".git/config", ".ipynb_checkpoints/x", ".DS_Store"}) {
    home.write(std::string("experiment/data/") + name, "x");
  }
  CHECK(home.read("data") == "a=1 ");
}

TEST_CASE("a folder is refused if it is empty, is missing or contains another folder") {
  Home home;
  home.write("experiment/deep/sub/x", "1");
  CHECK(has(home.read("deep"), "deep/sub is not a plain file"));
  fs::create_directory(home.experiment / "empty");
  CHECK(has(home.read("empty"), "empty is empty"));
  CHECK(has(home.read("nowhere"), "there is no folder"));
  fs::create_symlink("/nowhere", home.experiment / "data" / "c");
  CHECK(has(home.read("data"), "data/c is not a plain file"));
}

namespace {

mlk::Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

}  // namespace

TEST_CASE("read_user_folder() skips caches, but no files with similar names") {
  Home home;
  for (const char* name : {"a.pyo", "Thumbs.db", "b.py", "thumbs.db", "c.pyc.txt"})
    home.write(std::string("experiment/data/") + name, "");
  CHECK(home.read("data") == "a=1 b.py= c.pyc.txt= thumbs.db= ");
}

TEST_CASE("a folder is refused if its files have more bytes than a ConfigMap may hold") {
  Home home;
  const std::size_t left = mlk::most_config_map_bytes - 1;  // the folder already has a file of one byte
  home.write("experiment/data/b", std::string(left, 'x'));
  CHECK(mlk::read_user_folder({home.experiment, {}}, "data", "data 'd'").at("b").size() == left);
  home.write("experiment/data/b", std::string(left + 1, 'x'));
  const mlk::Error error =
      error_of([&] { (void)mlk::read_user_folder({home.experiment, {}}, "data", "data 'd'"); });
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(error.what() ==
        "data 'd': the files in " + (home.experiment / "data").string() + " are more than 900 KiB");
  CHECK(error.hint() == "files: is for small data sets; put larger ones on a volume (pvc, nfs)");
}

TEST_CASE("the exit code and the hint depend on the reason why a folder is refused") {
  Home home;
  home.write("experiment/deep/sub/x", "1");
  fs::create_directory(home.experiment / "empty");
  const auto refused = [&](const std::string& named) {
    return error_of([&] { (void)mlk::read_user_folder({home.experiment, {}}, named, "data 'd'"); });
  };
  CHECK(refused("deep").code() == mlk::ExitCode::usage);
  CHECK(refused("deep").hint() == "files: takes one flat folder; use a volume for more");
  CHECK(refused("empty").code() == mlk::ExitCode::usage);
  CHECK(refused("nowhere").code() == mlk::ExitCode::not_found);
  CHECK(refused("nowhere").hint() == "files: is relative to the experiment file");
  CHECK(refused("..").code() == mlk::ExitCode::usage);
  CHECK(error_of([&] {
          (void)mlk::read_user_folder({home.experiment, {"/nowhere"}}, "data", "data 'd'");
        }).code() == mlk::ExitCode::not_found);
}

TEST_CASE("read_user_file() refuses a file at a forbidden place or over the size limit") {
  Home home;
  home.write("experiment/points.csv", "12345");
  home.write("experiment/.secret", "s");
  home.write("common/x", "3");
  fs::create_symlink("../id_rsa", home.experiment / "key");
  fs::create_symlink("points.csv", home.experiment / "link");
  const auto read = [&](const std::string& named, std::size_t limit = 5, std::vector<fs::path> allowed = {}) {
    return mlk::read_user_file({home.experiment, std::move(allowed)}, named, "sweep.points", limit);
  };
  const auto refused = [&](const std::string& named, std::size_t limit = 5) {
    return error_of([&] { (void)read(named, limit); });
  };
  CHECK(read("points.csv") == "12345");
  CHECK(read("link") == "12345");
  CHECK(read("data/../points.csv") == "12345");
  CHECK(read("../common/x", 5, {home.folder.path() / "common"}) == "3");
  CHECK(read("../common/x", 5, {home.folder.path() / "common/x"}) ==
        "3");  // a file that the user allows individually
  CHECK(refused("points.csv", 4).code() == mlk::ExitCode::usage);
  for (const char* named : {"key", "../id_rsa", ".secret", "../common/x"}) {
    CAPTURE(named);
    CHECK(refused(named).code() == mlk::ExitCode::usage);
    CHECK(std::string(refused(named).what()).starts_with("sweep.points: " + home.experiment.string()));
    CHECK(refused(named).hint().starts_with("if it may go to the cluster: --allow-files /"));
  }
  CHECK(refused("none").code() == mlk::ExitCode::not_found);
  CHECK(refused("none").hint() == "it is relative to the experiment file");
  CHECK(std::string(refused("none").what()).starts_with("sweep.points: "));
  CHECK(refused("data").code() == mlk::ExitCode::usage);
  CHECK(has(refused("data").what(), "is a folder, not a file"));
  REQUIRE(::mkfifo((home.experiment / "pipe").c_str(), 0600) == 0);
  CHECK(refused("pipe").code() == mlk::ExitCode::usage);  // mlk does not wait for a writer
  CHECK(has(refused("pipe").what(), "is not a plain file"));
}

TEST_CASE("digest_of_user_file() accepts a file of any size if its place is allowed") {
  Home home;
  home.write("experiment/a", "");
  const auto digest = [&](const std::string& named, std::vector<fs::path> allowed = {}) {
    return mlk::digest_of_user_file({home.experiment, std::move(allowed)}, named, "code.python");
  };
  const std::string of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  CHECK(digest("a") == of_nothing);
  home.write("experiment/a", std::string(3 << 20, 'a'));
  CHECK(digest("a").size() == of_nothing.size());
  CHECK(digest("a") != of_nothing);
  CHECK(digest("none").empty());
  CHECK(digest("../id_rsa", {home.folder.path()}).size() == of_nothing.size());
  CHECK(error_of([&] { (void)digest("../id_rsa"); }).code() == mlk::ExitCode::usage);
  CHECK(has(error_of([&] { (void)digest("data"); }).what(), "is not a plain file"));
}

TEST_CASE("user_folder() returns the path that the experiment gives, even if nothing is there") {
  Home home;
  home.write("experiment/.git/x", "1");
  CHECK(mlk::user_folder({home.experiment, {}}, "data", "code") == home.experiment / "data");
  CHECK(mlk::user_folder({home.experiment, {}}, "nowhere", "code") == home.experiment / "nowhere");
  CHECK(mlk::user_folder({home.experiment, {}}, ".", "code") == home.experiment / ".");
  CHECK(error_of([&] { (void)mlk::user_folder({home.experiment, {}}, "..", "code"); }).code() ==
        mlk::ExitCode::usage);
  const mlk::Error hidden = error_of([&] { (void)mlk::user_folder({home.experiment, {}}, ".git", "code"); });
  CHECK(hidden.what() == "code: " + (home.experiment / ".git").string() + " is hidden");
  CHECK(mlk::user_folder({home.experiment, {home.folder.path()}}, "..", "code") == home.experiment / "..");
}

TEST_CASE("a link that replaces a folder during the read is never followed") {
  const Home home;
  home.folder.write("a", "SECRET");
  fs::create_directory_symlink(home.folder.path(), home.experiment / "link");
  const Exchanger exchanger(home.experiment / "data", home.experiment / "link");
  int read = 0;
  for (int i = 0; i < 2000; ++i) {
    try {
      const std::map<std::string, std::string> files =
          mlk::read_user_folder({home.experiment, {}}, "data", "d");
      for (const auto& [name, text] : files) REQUIRE(text == "1");
      REQUIRE(mlk::read_user_file({home.experiment, {}}, "data/a", "d", 99) == "1");
      ++read;
    } catch (const mlk::Error&) {
      // At that moment the path was a link that leads out of the folder.
    }
  }
  CHECK(read > 0);
}
