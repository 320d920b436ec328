// A home folder for commands that store files on this machine, so that tests read and write no files of the
// user.
#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "tests/unit/util/temporary_folder.h"

namespace mlk::test {

class HomeFolder {
 public:
  HomeFolder() {
    for (const char* name : names) {
      if (const char* value = std::getenv(name)) before_[name] = value;
      const std::filesystem::path place = folder_.path() / name;
      std::filesystem::create_directory(place);
      ::setenv(name, place.c_str(), 1);
    }
  }
  ~HomeFolder() {
    for (const char* name : names) {
      const auto found = before_.find(name);
      if (found == before_.end()) {
        ::unsetenv(name);
      } else {
        ::setenv(name, found->second.c_str(), 1);
      }
    }
  }
  HomeFolder(const HomeFolder&) = delete;
  HomeFolder& operator=(const HomeFolder&) = delete;

  std::filesystem::path place(const char* name) const { return folder_.path() / name; }

 private:
  static constexpr const char* names[] = {"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME",
                                          "TMPDIR"};
  std::map<std::string, std::string> before_;
  TemporaryFolder folder_;
};

}  // namespace mlk::test
