// Linux only: /proc/self/exe names the file. The name in argv[0] may lack the folder of the file.
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
