#include "cli/run/inputs/python_files.h"

#include <algorithm>
#include <set>

#include "cli/code/folder.h"
#include "cli/image/requirements.h"
#include "cli/util/hash.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

constexpr char naming_key[] = "code.python";

// Whether the file travels with the code. A link in the code does not bring its target along.
bool travels_as_code(const PythonCode& code, const fs::path& file) {
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
      const bool is_hidden = entry.name.starts_with('.');  // pip cannot parse such a name
      const bool is_folder = entry.kind == image::NamedEntry::Kind::folder;
      if (!is_hidden && !is_folder && entry.name.ends_with(".whl")) out.push_back(place / entry.name);
    }
  }
  return out;
}

// Rules that allow this file wherever it is.
UserFiles only(const fs::path& file) { return {.folder = file.parent_path(), .allowed = {file}}; }

}  // namespace

std::string digest_of_python_files(const UserFiles& from, const PythonCode& code) {
  std::set<std::string> lines;  // the digest and the name of each file: a wheel is identified by both
  const auto add = [&](const std::string& digest, const fs::path& file) {
    if (!digest.empty()) lines.insert(digest + " " + file.filename().string());
  };
  const auto read = [&](const fs::path& file) {
    const bool is_code = travels_as_code(code, file);
    std::string text =
        read_user_file(is_code ? only(file) : from, file.string(), naming_key, image::longest_requirements);
    if (!is_code) add(sha256_hex(text), file);
    return text;
  };
  const image::Requirements found = image::read_requirements(code.requirements, read, image::own_variable);
  for (const fs::path& wheel : wheels_in(found.places)) {
    if (!travels_as_code(code, wheel)) add(digest_of_user_file(from, wheel.string(), naming_key), wheel);
  }
  return lines.empty() ? "" : sha256_hex(join({lines.begin(), lines.end()}, "\n"));
}

}  // namespace mlk
