#include "cli/kube/login/entry_fields.h"

#include <algorithm>

#include "cli/util/files.h"
#include "cli/util/hash.h"

namespace mlk::kube {

namespace fs = std::filesystem;

Error entry_error(const std::string& what, const std::string& hint) {
  return Error(ExitCode::usage, what, hint);
}

bool boolean_field(const KubeconfigEntry& entry, const std::string& field, const std::string& what) {
  std::string value = entry.get(field);
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  if (value.empty() || value == "false" || value == "no" || value == "off" || value == "n") return false;
  if (value == "true" || value == "yes" || value == "on" || value == "y") return true;
  throw entry_error(entry.file.string() + ": " + what + ": " + field + " is neither true nor false");
}

std::string file_or_data(const KubeconfigEntry& entry, const std::string& field, const std::string& what) {
  const std::string file = entry.get(field), data = entry.get(field + "-data");
  const std::string here = entry.file.string() + ": " + what;
  if (!file.empty() && !data.empty())
    throw entry_error(here + " has both " + field + " and " + field + "-data");
  if (!data.empty()) {
    try {
      return base64_decode(data);
    } catch (const std::invalid_argument&) {
      throw entry_error(here + ": " + field + "-data is not base64");
    }
  }
  if (file.empty()) return "";
  const fs::path path = fs::path(file).is_absolute() ? fs::path(file) : entry.file.parent_path() / file;
  try {
    return read_file(path, credential_file_limit);
  } catch (const Error& error) {
    throw entry_error(here + ": " + field + ": " + error.what());
  }
}

bool fits_in_header(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

void check_header_value(const std::string& value, const std::string& what) {
  if (!fits_in_header(value)) throw entry_error(what + " holds control characters");
}

}  // namespace mlk::kube
