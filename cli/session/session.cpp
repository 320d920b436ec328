#include "cli/session/session.h"

#include <pwd.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/local/local.h"
#include "cli/render/pod.h"
#include "cli/run/change/ownerless.h"
#include "cli/run/read/find.h"
#include "cli/run/state/status.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "cli/util/unicode.h"

namespace mlk {
namespace {

bool wants_color(const std::string& choice, bool terminal, const std::string& no_color,
                 const std::string& term) {
  if (choice == "always") return true;
  if (choice == "never") return false;
  return terminal && no_color.empty() && term != "dumb";
}

// If LC_ALL, LC_CTYPE and LANG are all unset, as in many containers and in CI, mlk assumes a terminal with
// Unicode.
bool wants_ascii(const std::function<std::string(const std::string&)>& env) {
  if (env("TERM") == "dumb") return true;
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = env(variable);
    if (!locale.empty()) return locale == "C" || locale == "POSIX";
  }
  return false;
}

}  // namespace

bool Session::local() const {
  if (global.local) return true;
  const std::string value = env("MLK_LOCAL");
  if (!value.empty() && value != "0" && value != "1")
    throw Error(ExitCode::usage, "MLK_LOCAL must be 1 or 0, not '" + value + "'", "unset MLK_LOCAL");
  return value == "1" && global.cluster.kubeconfig.empty() && global.cluster.context.empty();
}

std::unique_ptr<kube::Client> Session::connect(Attended attended, Patience patience) {
  kube::ConfigFlags flags = global.cluster;
  if (local()) {
    if (!flags.kubeconfig.empty() || !flags.context.empty()) {
      throw Error(ExitCode::usage, "--local and --kubeconfig or --context name two clusters",
                  "give one of them");
    }
    flags.kubeconfig = local::up(local_up_options(*this)).kubeconfig.string();
  } else if (!global.volumes.empty()) {
    throw Error(ExitCode::usage, "--volume is for --local alone",
                "on a cluster, name the claim in the experiment file");
  }
  kube::Config config = kube::load_config(flags);
  if (local() && !global.local) config.source += " (MLK_LOCAL)";  // users easily forget this variable
  if (attended == Attended::no || patience == Patience::none) config.longest_trying = {};
  kube::PluginHost host;
  if (attended == Attended::yes) {
    host.say = [this](const std::string& text) { note(text); };
  } else {
    host.may_ask = false;
    host.patience = std::chrono::seconds(2);
  }
  host.interrupted = [this] { return interrupted.load() != 0; };
  auto client = std::make_unique<kube::Client>(std::move(config), std::move(host));
  client->on_warning = [this](const std::string& text) { warn(text); };
  return client;
}

RunAddress Session::find_run(kube::Client& client, const std::string& typed) {
  return find_run(client, typed, Prefer::newest);
}

RunAddress Session::find_run(kube::Client& client, const std::string& typed, Prefer prefer) {
  try {
    ask_who_i_am(client);
    RunAddress found =
        mlk::find_run(client, client.config().name_space, typed, prefer, [&] { return me(client); });
    if (typed != found.run && is_of_another(found.submitter, me(client)))
      note(found.run + " is " + (found.is_sweep ? "a sweep of " : "a run of ") +
           called(found.submitter, me(client)) + "; none of this name is yours");
    return found;
  } catch (const kube::ApiError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != ExitCode::not_found) throw;
    if (!find_ownerless(client, client.config().name_space, typed).empty())
      throw Error(
          error.code(),
          std::string(error.what()) + ", but objects of this run are left: only its ConfigMap was deleted",
          "delete them with: " + command("delete " + typed));
    const std::string list = "list them with: " + command("ls");
    throw Error(error.code(), error.what(), error.hint().empty() ? list : error.hint() + " " + list);
  }
}

void require_sweep(const RunAddress& address, const Session& session) {
  if (address.is_sweep) return;
  throw Error(ExitCode::usage, address.run + " is a run, not a sweep",
              "see its result with: " + session.command("status " + address.run));
}

void require_no_trial(const RunAddress& address) {
  if (!address.trial) return;
  const std::string trial = address.run + "/" + std::to_string(*address.trial);
  throw Error(ExitCode::usage, trial + " is one trial of a sweep, not a run of its own",
              "name the sweep: " + address.run + ", or read the log of the trial: mlk logs -f " + trial);
}

namespace {

std::string name_on_machine(const std::function<std::string(const std::string&)>& env) {
  if (std::string name = env("USER"); !name.empty()) return name;
  const passwd* const entry = getpwuid(geteuid());
  return entry == nullptr ? "" : entry->pw_name;
}

}  // namespace

void Session::ask_who_i_am(kube::Client& client) {
  if (!known_me && !identity.valid()) identity = kube::ask_whoami(client);
}

const Me& Session::me(kube::Client& client) {
  if (known_me) return *known_me;
  ask_who_i_am(client);
  std::string user;
  try {
    user = identity.get().name;
  } catch (const kube::ApiError&) {
    // A server before Kubernetes 1.28 has no such review. After any other failure, the next request fails,
    // too, and says more.
  }
  known_me = Me{.self = {.user = user, .name = name_on_machine(env)}, .also = global.mine_as};
  return *known_me;
}

void Session::find_folders(RunStatus& run, const std::string& name_space) const {
  if (run.checkpoint) find_folder(*run.checkpoint, name_space);
  if (run.outputs) find_folder(*run.outputs, name_space);
}

void Session::find_folder(VolumeFolder& place, const std::string& name_space) const {
  if (!local()) return;
  const std::filesystem::path volume = local::volume_folder(name_space, place.volume_name, place.volume);
  if (volume.empty()) return;
  place.folder = (volume / place.path).string();
  std::error_code error;
  const bool is_empty = std::filesystem::is_empty(place.folder, error);
  place.has_files = !error && !is_empty;
}

void Session::warn(const std::string& message) {
  err << "mlk: warning: " << printable(message) << '\n' << std::flush;
}
void Session::note(const std::string& message) {
  err << printable(with_flags(message)) << '\n' << std::flush;
}

ChangeHooks Session::change_hooks() {
  return {.note = [this](const std::string& text) { note(text); },
          .warn = [this](const std::string& text) { warn(text); },
          .interrupted = [this] { return interrupted != 0; },
          .command = [this](const std::string& words) { return command(words); }};
}

namespace {

// The variables by which an active environment of Python is found.
std::string variables_of_shell(const std::function<std::string(const std::string&)>& env) {
  nlohmann::json out = nlohmann::json::object();
  for (const char* name : {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string value = env(name); is_utf8(value)) out[name] = value;
  }
  return json_text(out);
}

}  // namespace

SubmitHooks Session::submit_hooks(kube::Client& client) {
  ask_who_i_am(client);
  return {.note = [this](const std::string& text) { note(text); },
          .check_interrupted = [this] { check_interrupted(); },
          .submitter = [this, &client] { return annotation_text(me(client).self); },
          .shell = local() ? variables_of_shell(env) : ""};
}

std::string Session::command(const std::string& words) const {
  std::string text = "mlk " + words;
  if (local()) text += " --local";
  if (!global.cluster.kubeconfig.empty()) text += " --kubeconfig " + shell_word(global.cluster.kubeconfig);
  if (!global.cluster.context.empty()) text += " --context " + shell_word(global.cluster.context);
  if (!global.cluster.name_space.empty()) text += " -n " + global.cluster.name_space;
  return text;
}

std::string Session::with_flags(const std::string& hint) const {
  std::string flags;
  try {
    flags = command("").substr(4);  // without "mlk "
  } catch (const Error&) {
    return hint;  // the value of MLK_LOCAL is wrong
  }
  const std::size_t at = hint.rfind(": mlk ");
  if (flags.empty() || at == std::string::npos || hint.find(flags) != std::string::npos) return hint;
  const std::string words = hint.substr(at + 6);
  const bool of_cluster = !words.starts_with("local") && !words.starts_with("templates") &&
                          words.find("--help") == std::string::npos &&
                          (words + " ").find(" --local ") == std::string::npos;
  const std::size_t end = std::min(hint.find_first_of(";,", at), hint.size());
  return of_cluster ? hint.substr(0, end) + flags + hint.substr(end) : hint;
}

void Session::set_way_back(const std::string& hint) {
  way_back = ways_back.emplace_back(printable(with_flags(hint))).c_str();
}

void Session::print_bytes(const std::string& bytes) {
  out.flush();
  all_bytes_out = !out_is_terminal;
  out << bytes << std::flush;
  all_bytes_out = false;
}

bool Session::is_agreed(const std::string& what) {
  if (!read_answer)
    throw Error(ExitCode::usage, "mlk needs a terminal to ask whether to " + what,
                "add --yes to skip the question");
  err << printable(what) << "? [y/N] " << std::flush;
  const std::string answer(trim(read_answer()));
  check_interrupted();
  return answer == "y" || answer == "Y" || answer == "yes";
}

void Session::check_interrupted() const {
  if (interrupted.load() != 0) throw Error(ExitCode::interrupted, "interrupted");
}

bool Session::color_out() const {
  return wants_color(global.color, out_is_terminal, env("NO_COLOR"), env("TERM"));
}
bool Session::color_err() const {
  return wants_color(global.color, err_is_terminal, env("NO_COLOR"), env("TERM"));
}

bool Session::live_err() const { return err_is_terminal && env("TERM") != "dumb"; }

ui::Style Session::style_out() const { return ui::Style(color_out(), wants_ascii(env)); }
ui::Style Session::style_err() const { return ui::Style(color_err(), wants_ascii(env)); }

local::UpOptions local_up_options(const Session& session) {
  local::UpOptions options;
  options.program = local::own_program();
  for (const std::string& volume : session.global.volumes) {
    const std::size_t equals = volume.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == volume.size()) {
      throw Error(ExitCode::usage, "--volume must be CLAIM=DIR, not '" + volume + "'",
                  "for example: --volume datasets=/data");
    }
    options.volumes[volume.substr(0, equals)] = std::filesystem::absolute(volume.substr(equals + 1)).string();
  }
  return options;
}

}  // namespace mlk
