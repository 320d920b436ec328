// What every command may use of the world: streams, the user's wishes about cluster and colour, interruption.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/kube/client.h"
#include "cli/kube/kubeconfig.h"
#include "cli/util/error.h"

namespace mlk {

struct CheckpointPlace;
struct RunAddress;

namespace local {
struct UpOptions;
}

// Filled from the flags that stand before or after any command.
struct GlobalOptions {
  kube::ConfigFlags cluster;
  bool local = false;                // --local: the embedded cluster, started when it is not up
  std::vector<std::string> volumes;  // --volume claim=DIR, for --local
  std::string color = "auto";        // auto | always | never
};

struct Session {
  std::ostream& out;  // results: what a script reads
  std::ostream& err;  // everything else
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  std::string version;
  const std::atomic<int>& interrupted;                 // signal that asked us to stop; 0: none
  std::function<std::string(const std::string&)> env;  // value of a variable, "" when unset
  std::function<std::string()> read_answer{};  // a line that somebody types; empty: nobody can be asked
  GlobalOptions global;
  ExitCode exit_code = ExitCode::ok;  // set by commands that end well and still have something to tell

  // Whether the cluster on this machine is meant: by --local, or by MLK_LOCAL=1 unless a flag names another
  // one. Throws Error{usage} for a value of MLK_LOCAL that is none.
  bool local() const;
  // Connects to the cluster that the flags mean. Unattended, as for a key that is pressed, nobody can be
  // asked to log in, and a credential plugin has two seconds. Throws Error.
  enum class Attended { yes, no };
  std::unique_ptr<kube::Client> connect(Attended attended = Attended::yes);
  // What `typed` means (run/find.h), and a hint on how to list runs when there is none.
  RunAddress find_run(kube::Client& client, const std::string& typed);
  // Says where on this machine the place is, with --local.
  void find_folder(CheckpointPlace& place, const std::string& name_space) const;
  void warn(const std::string& message);  // "mlk: warning: ..." on err
  void note(const std::string& message);  // plain talk on err
  // `hint` in which the command at the end, ": mlk WORDS", has those flags: rooms below do not know them.
  std::string with_flags(const std::string& hint) const;
  // "mlk WORDS" with the flags that mean the same cluster again, for hints.
  std::string command(const std::string& words) const;
  void check_interrupted() const;  // throws Error{interrupted}
  bool color_out() const;
  bool color_err() const;
};

// Throws Error{usage} for a run that is no sweep.
void require_sweep(const RunAddress& address, const Session& session);
// Throws Error{usage} for a single trial of a sweep.
void require_no_trial(const RunAddress& address);

// Standard output cannot be written: ends a command that would go on for long. Whoever runs the command says
// why, and nothing about a reader that has gone.
struct OutputFailed {};

// The embedded cluster as --local and --volume want it. Throws Error{usage} for a --volume that is none.
local::UpOptions local_up_options(const Session& session);

// Milliseconds that waiting loops sleep between looks at Session::interrupted.
inline constexpr std::chrono::milliseconds interrupt_poll{100};

}  // namespace mlk
