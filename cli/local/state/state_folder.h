// The state folder of the embedded cluster: only its owner may use it.
#pragma once

#include <filesystem>
#include <optional>
#include <sys/types.h>
#include <utility>

namespace mlk::local {

// The paths of everything that the embedded cluster keeps: one folder, mode 0700.
struct Paths {
  explicit Paths(std::filesystem::path folder) : root(std::move(folder)) {}

  std::filesystem::path root;
  std::filesystem::path objects() const { return root / "objects"; }  // one JSON file for each object
  std::filesystem::path pods() const { return root / "pods"; }        // one folder for each pod, by uid
  std::filesystem::path claims() const {
    return root / "claims";
  }  // <namespace>/<claim>; a claim that --volume names has another folder
  std::filesystem::path kubeconfig() const { return root / "kubeconfig"; }
  std::filesystem::path server() const { return root / "server.json"; }    // address of the server
  std::filesystem::path lock() const { return root / "lock"; }             // held while a server runs
  std::filesystem::path volumes() const { return root / "volumes.json"; }  // --volume NAME=DIR
  std::filesystem::path fifo() const {
    return root / "notices";
  }  // a named pipe: supervisors notify the server of new records
  std::filesystem::path log() const { return root / "server.log"; }
};

// $XDG_STATE_HOME/mlk/local. Throws Error{failure} if the folder belongs to another user, or is a link.
Paths default_paths();

// Creates the folder with mode 0700, or sets this mode. Throws Error{failure} if it belongs to another user,
// or is a link or a file.
void make_state_folder(const std::filesystem::path& folder);

struct Address {
  pid_t pid;  // 0: the server was stopped and has not crashed
  int port;
};
std::optional<Address> read_address(const Paths& paths);  // the address of the last server
void write_address(const Paths& paths, const Address& address);

}  // namespace mlk::local
