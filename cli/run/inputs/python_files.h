// Checks and identifies the files of this machine that code.python names: lists of packages, and wheels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/run/inputs/user_files.h"

namespace mlk {

// The folder of an experiment's code, and the file `requirements`, which lists the packages that this code
// needs.
struct PythonCode {
  std::filesystem::path folder, requirements;
  const std::vector<std::string>& travelling;  // paths in the folder, in the order of their bytes
};

// The digest of the files that decide about the packages and do not travel with the code: the lists, and the
// wheels on this machine. Empty if there are none. The digest does not depend on the folders that hold the
// files.
//
// A list may come from another person, and may name files by variables of this machine. What pip reads from
// such files can reach package indexes and the image. So a list may name only files that user_files.h allows.
// This rule also applies to the wheels in folders of --find-links. Files that travel with the code are always
// allowed. A wheel that does not exist is no error here, since its line in the list may have a condition that
// excludes it.
// Throws Error: usage, not_found, and the errors of read_requirements().
std::string digest_of_python_files(const UserFiles& from, const PythonCode& code);

}  // namespace mlk
