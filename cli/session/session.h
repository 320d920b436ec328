// The environment of a command: streams, the user's choice of cluster and colour, interruption.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/kube/access.h"
#include "cli/kube/client.h"
#include "cli/kube/login/kubeconfig.h"
#include "cli/run/change/hooks.h"
#include "cli/run/facts/submitter.h"
#include "cli/ui/style.h"
#include "cli/util/error.h"

namespace mlk {

struct RunStatus;
struct VolumeFolder;
struct RunAddress;
enum class Prefer;

namespace local {
struct UpOptions;
}

// The values of the flags that may stand before or after the name of any command.
struct GlobalOptions {
  kube::ConfigFlags cluster;
  bool local = false;                // --local: the embedded cluster, which mlk starts if it is not up
  std::vector<std::string> volumes;  // --volume claim=DIR, for --local
  std::string color = "auto";        // auto | always | never
  std::string mine_as;               // --mine-as: the runs of this user are the user's own, too
};

struct Session {
  std::ostream& out;  // results: what a script reads
  std::ostream& err;  // everything else
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  std::string version;
  const std::atomic<int>& interrupted;                 // the signal that interrupted mlk; 0: none
  std::function<std::string(const std::string&)> env;  // value of a variable, "" when unset
  std::function<std::string()>
      read_answer{};  // reads a line that the user types; empty if mlk cannot ask a user
  GlobalOptions global;
  std::vector<std::string> program_words{};  // after "--": arguments of the program of the experiment
  ExitCode exit_code = ExitCode::ok;         // set by commands that succeed but have something to report

  // Whether mlk uses the cluster on this machine: with --local, or with MLK_LOCAL=1 if no flag names another
  // cluster. Throws Error{usage} for an invalid value of MLK_LOCAL.
  bool local() const;
  // Connects to the cluster that the flags name. Attended::no is for the completion of words in a shell: mlk
  // does not ask the user to log in, and waits at most two seconds for a credential plugin. Throws Error.
  enum class Attended { yes, no };
  // Whether mlk retries an unreachable cluster for some seconds, since the cluster may be restarting.
  enum class Patience { usual, none };
  std::unique_ptr<kube::Client> connect(Attended attended = Attended::yes,
                                        Patience patience = Patience::usual);
  // Who the user is, for the cluster and on this machine. ask_who_i_am() sends the question and does not
  // wait. The first call of me() waits for the answer, or sends the question. If the cluster gives no answer,
  // the user's name on this machine is all that is known.
  void ask_who_i_am(kube::Client& client);
  const Me& me(kube::Client& client);
  // The run that `typed` names (run/read/find.h). Reports whose run it is if `typed` is no full name and the
  // user has no such run. If there is no such run, the error has a hint: how to list runs, or how to delete
  // the objects of a run whose ConfigMap was deleted.
  RunAddress find_run(kube::Client& client, const std::string& typed);
  RunAddress find_run(kube::Client& client, const std::string& typed, Prefer prefer);
  // If mlk uses the cluster on this machine, stores in `place` the folder of the checkpoints on this machine,
  // and whether this folder has files.
  void find_folder(VolumeFolder& place, const std::string& name_space) const;
  void find_folders(RunStatus& run, const std::string& name_space) const;  // all of a run
  void warn(const std::string& message);                                   // "mlk: warning: ..." on err
  void note(const std::string& message);                                   // any other message, on err
  // Returns `hint` with the flags that select the cluster. They are added to its last command (": mlk
  // WORDS"), since lower layers do not know these flags. Commands that use no cluster stay as they are.
  std::string with_flags(const std::string& hint) const;
  // For hints: "mlk WORDS" with the flags that select the cluster of this session.
  std::string command(const std::string& words) const;
  // Prints `bytes` unchanged for other programs, for example a patch. On a terminal, prints only printable
  // text, as for all other output.
  void print_bytes(const std::string& bytes);
  // Asks the user on err: "WHAT? [y/N]". Throws Error{usage} if there is no terminal to ask on.
  bool is_agreed(const std::string& what);
  // Sets the hint of the error "interrupted": how the user continues if Ctrl-C cuts this command off, also in
  // the middle of a request. Only the thread of the command calls it.
  void set_way_back(const std::string& hint);
  // The text of the last set_way_back(), or nullptr. A handler of a signal may read it at any time.
  std::atomic<const char*> way_back{nullptr};
  std::deque<std::string> ways_back{};     // the texts stay, since a handler may still read an earlier one
  bool all_bytes_out = false;              // true while print_bytes() prints
  std::future<kube::Identity> identity{};  // the answer of the cluster to ask_who_i_am()
  std::optional<Me> known_me{};
  void check_interrupted() const;  // throws Error{interrupted}
  // Through these hooks, functions of lower layers show messages to the user, and learn whether the user has
  // interrupted mlk. The hooks refer to the session, which must outlive them.
  ChangeHooks change_hooks();
  SubmitHooks submit_hooks(kube::Client& client);
  bool color_out() const;
  bool color_err() const;
  // Whether a line on err can be rewritten in place.
  bool live_err() const;
  // With TERM=dumb, and in the locales C and POSIX, these styles have only ASCII glyphs.
  ui::Style style_out() const;
  ui::Style style_err() const;
};

// Throws Error{usage} for a run that is not a sweep.
void require_sweep(const RunAddress& address, const Session& session);
// Throws Error{usage} for a single trial of a sweep.
void require_no_trial(const RunAddress& address);

// Thrown if mlk cannot write to standard output: it ends a command that would otherwise continue for a
// long time. The caller of the command prints the reason, except if the reader of the output has closed the
// output.
struct OutputFailed {};

// The options of the embedded cluster from --local and --volume. Throws Error{usage} for an invalid --volume.
local::UpOptions local_up_options(const Session& session);

// How long waiting loops sleep between checks of Session::interrupted.
inline constexpr std::chrono::milliseconds interrupt_poll{100};

}  // namespace mlk
