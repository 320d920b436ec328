// The state folder of the embedded cluster: for its owner alone.
#pragma once

#include <filesystem>
#include <optional>
#include <sys/types.h>

#include "cli/local/local.h"

namespace mlk::local {

// Creates it with mode 0700, or makes sure that it has it. Throws Error{failure} when it belongs to somebody
// else.
void make_state_folder(const std::filesystem::path& folder);

struct Address {
  pid_t pid;  // 0: it was stopped, not lost
  int port;
};
std::optional<Address> read_address(const Paths& paths);  // of the last server
void write_address(const Paths& paths, const Address& address);

}  // namespace mlk::local
