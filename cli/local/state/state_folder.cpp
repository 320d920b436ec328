#include "cli/local/state/state_folder.h"

#include <limits>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/json.h"

namespace mlk::local {

using nlohmann::json;

void make_state_folder(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder.parent_path());
  ::mkdir(folder.c_str(), 0700);
  struct stat info{};
  // Does not follow a link: another user may have put it there.
  if (::lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    throw Error(ExitCode::failure, "cannot make the folder " + folder.string());
  }
  if (info.st_uid != ::geteuid()) {
    throw Error(ExitCode::failure, folder.string() + " belongs to another user",
                "set XDG_STATE_HOME to a folder of your own");
  }
  if ((info.st_mode & 0777) != 0700 && ::chmod(folder.c_str(), 0700) != 0) {
    throw Error(ExitCode::failure, "cannot protect " + folder.string());
  }
}

std::optional<Address> read_address(const Paths& paths) {
  json saved;
  try {
    saved = json_or_null(read_file(paths.server(), 1 << 16));
  } catch (const Error&) {  // it does not exist
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

Paths default_paths() { return Paths(state_home() / "local"); }

}  // namespace mlk::local
