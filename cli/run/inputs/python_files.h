// Checks and identifies the files of this machine that code.python names: lists of packages, and wheels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/run/inputs/user_files.h"

namespace mlk {

// The folder of code whose packages `requirements` lists.
struct PythonCode {
  std::filesystem::path folder, requirements;
  const std::vector<std::string>& travelling;  // paths in the folder, in the order of their bytes
};

// The digest of the files that decide about the packages and do not travel with the code: the lists, and the
// wheels on this machine. Empty if there are none. The digest does not depend on the folders that hold the
// files.
//
// The list may come from another person, and may name files by variables of this machine. What pip reads goes
// to indexes and into the image. So the rules for places are those of user_files.h, also for the wheels in
// folders of --find-links; files that travel with the code may be named in any case. Throws Error: usage,
// not_found, and as read_requirements(). Wheels that do not exist are no error here, since their condition
// may exclude them.
std::string digest_of_python_files(const UserFiles& from, const PythonCode& code);

}  // namespace mlk
