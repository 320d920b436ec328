#include "cli/run/inputs/python_files.h"

#include <algorithm>

#include "cli/code/folder.h"
#include "cli/image/requirements.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

constexpr char what[] = "code.python";

// Whether the file travels with the code. A link in the code does not bring its target along.
bool travels(const PythonCode& code, const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) return false;
  const std::string path = real.lexically_relative(fs::canonical(code.folder, error)).generic_string();
  return std::binary_search(code.travelling.begin(), code.travelling.end(), path);
}

// The wheels that pip may take from these places. Links of an HTML page are not followed.
std::vector<fs::path> wheels_in(const std::vector<fs::path>& places) {
  std::vector<fs::path> out;
  for (const fs::path& place : places) {
    std::error_code error;
    if (!fs::is_directory(place, error)) {
      out.push_back(place);
      continue;
    }
    for (const image::NamedEntry& entry : image::read_folder(place, "").entries) {
      const bool is_hidden = entry.name.starts_with('.');  // pip finds no name of a package in it
      if (!is_hidden && entry.name.ends_with(".whl")) out.push_back(place / entry.name);
    }
  }
  return out;
}

}  // namespace

void check_python_files(const UserFiles& from, const PythonCode& code) {
  const auto rules_for = [&](const fs::path& file) {
    return travels(code, file) ? UserFiles{.folder = from.folder, .allowed = {file}} : from;
  };
  const image::Requirements found = image::read_requirements(
      code.requirements,
      [&](const fs::path& file) {
        return read_user_file(rules_for(file), file.string(), what, image::longest_requirements);
      },
      image::own_variable);
  for (const fs::path& wheel : wheels_in(found.places))
    (void)user_folder(rules_for(wheel), wheel.string(), what);
}

}  // namespace mlk
