// Programs in PATH that a test plays.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/unit/util/temporary_folder.h"

// While this object exists, PATH is the folder of the played programs and the folders of the shell's
// programs.
class PlayedPrograms {
 public:
  PlayedPrograms() : before_(std::getenv("PATH")) {
    ::setenv("PATH", (folder_.path().string() + ":/usr/bin:/bin").c_str(), 1);
  }
  ~PlayedPrograms() { ::setenv("PATH", before_.c_str(), 1); }
  PlayedPrograms(const PlayedPrograms&) = delete;
  PlayedPrograms& operator=(const PlayedPrograms&) = delete;

  void add(const std::string& name, const std::string& script) const {
    add_file(name, "#!/bin/sh\n" + script + "\n");
  }
  // Adds a file with this content and with permission to execute.
  void add_file(const std::string& name, const std::string& content) const {
    const std::filesystem::path file = folder_.write(name, content);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

 private:
  const std::string before_;
  TemporaryFolder folder_;
};
