// Helpers for tests that write folders of code and pack the code.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/code/code.h"
#include "cli/util/error.h"

namespace mlk::test::code {

namespace fs = std::filesystem;
using mlk::image::Code;
using mlk::image::TreeRules;
using Paths = std::vector<std::string>;

inline constexpr std::size_t plenty = 1 << 20;

inline void write(const fs::path& file, const std::string& text = "x") {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

inline Paths files_of(const fs::path& folder, const TreeRules& rules = {}) {
  return mlk::image::pack_code(folder, rules, {plenty}).files;
}

inline std::string digest_of(const fs::path& folder) {
  return mlk::image::pack_code(folder, {}, {plenty}).digest;
}

// The layer of the code, written now or found in the cache.
inline mlk::image::Layer layer_of(const fs::path& folder, const Code& code, const fs::path& cache) {
  const mlk::image::CodeLayers layers{.cache = cache, .prefix = "mlk/code"};
  mlk::image::write_code_layer(folder, code, layers);
  return mlk::image::find_layer(layers.file_of(code.digest)).value();
}

inline mlk::Error refusal(const fs::path& folder, std::size_t most = plenty) {
  try {
    (void)mlk::image::pack_code(folder, {}, {most});
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

}  // namespace mlk::test::code
