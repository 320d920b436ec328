#include "cli/local/state/state_folder.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "cli/util/own_folder.h"

namespace mlk::local {

using nlohmann::json;

namespace {
constexpr char advice[] = "set XDG_STATE_HOME to a folder of your own";
}  // namespace

void make_state_folder(const std::filesystem::path& folder) { make_own_folder(folder, advice); }

std::optional<Address> read_address(const Paths& paths) {
  json saved;
  try {
    saved = json_or_null(read_file(paths.server(), 1 << 16));
  } catch (const Error&) {  // the file does not exist
    return std::nullopt;
  }
  const auto number = [&](const char* field, std::int64_t most) {
    const json value = saved.value(field, json());
    const auto given = value.is_number_integer() ? value.get<std::int64_t>() : 0;
    return given < 0 || given > most ? 0 : static_cast<int>(given);
  };
  if (!saved.is_object()) return std::nullopt;
  return Address{number("pid", std::numeric_limits<pid_t>::max()), number("port", 65535)};
}

void write_address(const Paths& paths, const Address& address) {
  write_file_atomically(paths.server(), json{{"pid", address.pid}, {"port", address.port}}.dump(), 0600);
}

Paths default_paths() {
  Paths out(state_home() / "local");
  require_own_folder(out.root, advice);
  return out;
}

}  // namespace mlk::local
