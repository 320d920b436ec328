// What an experiment file may read of the user's, and what it may not.
#include "cli/run/user_files.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/util/temporary_folder.h"

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
  // The names of the files, or "error | hint".
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

TEST_CASE(
    "neither a symbolic link, nor '..', nor an absolute path leads out of the experiment file's folder") {
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
  // A folder whose name only begins with that of the experiment's.
  home.write("experiment2/x", "3");
  CHECK(has(home.read("../experiment2"), "leads out of the experiment file's folder"));
}

TEST_CASE("a hidden folder beside the experiment file is not read, which may lie in the user's home") {
  Home home;
  home.write("experiment/.ssh/key", "secret");
  CHECK(has(home.read(".ssh"), ".ssh is hidden"));
  fs::create_symlink("../.ssh/key", home.experiment / "data" / "c");
  CHECK(has(home.read("data"), "data/c is hidden"));
}

TEST_CASE("a file that the user allows by a flag is read wherever it is") {
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

TEST_CASE("hidden files and caches are passed over") {
  Home home;
  for (const char* name :
       {"__pycache__/a.pyc", "old.pyc", ".git/config", ".ipynb_checkpoints/x", ".DS_Store"}) {
    home.write(std::string("experiment/data/") + name, "x");
  }
  CHECK(home.read("data") == "a=1 ");
}

TEST_CASE("a folder within the folder, an empty one and one that is not there are refused") {
  Home home;
  home.write("experiment/deep/sub/x", "1");
  CHECK(has(home.read("deep"), "deep/sub is not a plain file"));
  fs::create_directory(home.experiment / "empty");
  CHECK(has(home.read("empty"), "empty is empty"));
  CHECK(has(home.read("nowhere"), "there is no folder"));
  fs::create_symlink("/nowhere", home.experiment / "data" / "c");
  CHECK(has(home.read("data"), "data/c is not a plain file"));
}
