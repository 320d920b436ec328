// Linux only, since the name that a program was started by does not contain its folder.
#include <filesystem>

#include "cli/local/local.h"
#include "cli/util/error.h"

namespace mlk::local {

std::filesystem::path own_program() {
  std::error_code error;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw Error(ExitCode::failure, "cannot find the file of this program: " + error.message());
  return program;
}

}  // namespace mlk::local
