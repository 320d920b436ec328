#include "cli/local/node/kubelet.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <sys/wait.h>

#include "cli/local/node/gpus.h"
#include "cli/local/node/pod_status.h"
#include "cli/local/node/spawn.h"
#include "cli/local/state/events.h"
#include "cli/local/state/metadata.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::local {
namespace {

constexpr std::size_t message_limit = 4096;  // bytes of a termination message, as in Kubernetes

std::string pod_uid_of(const json& pod) { return text_of(pod, {"metadata", "uid"}); }
bool is_deleted(const json& pod) { return pod.at("metadata").contains("deletionTimestamp"); }
std::string host_of(const json& pod) { return pod.at("spec").value("hostname", name_of(pod)); }

// Whether other pods find this pod by its host name. If so, the kubelet keeps the address of the pod while
// the pod or its Job exists.
bool has_name_in_service(const json& pod_spec) { return !text_of(pod_spec, {"subdomain"}).empty(); }

bool is_past_deadline(const json& pod, Time now) {
  const auto deadline = deadline_of(pod);
  return deadline && now >= *deadline;
}

// The variables of the shell in which the user submitted the run or the sweep of this pod. Null if mlk did
// not record them.
json shell_of(const Store& store, const json& pod) {
  for (const char* label : {"mlk.dev/run", "mlk.dev/sweep"}) {
    const std::string name = text_of(pod, {"metadata", "labels", label});
    const Object owner = name.empty() ? nullptr : store.find("configmaps", namespace_of(pod), name);
    if (owner == nullptr) continue;
    const json shell = json_or_null(text_of(*owner, {"metadata", "annotations", "mlk.dev/shell"}));
    if (shell.is_object()) return shell;
  }
  return nullptr;
}

// The variables that a pod gets from the shell in which the user submitted it or, if mlk did not record them,
// from the shell in which the cluster was started. So the pod's program finds other programs and libraries.
// Other variables may contain keys, so the pod does not get them.
std::vector<std::pair<std::string, std::string>> inherited_environment(const std::filesystem::path& program,
                                                                       const json& shell) {
  std::vector<std::pair<std::string, std::string>> env;
  const auto value_of = [&](const char* name) {
    if (shell.is_object() && shell.contains(name)) return text_of(shell, {name});
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  for (const char* name : {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
                           "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"}) {
    if (const std::string value = value_of(name); !value.empty()) env.emplace_back(name, value);
  }
  const std::string path = value_of("PATH");
  env.emplace_back(
      "PATH", program.parent_path().string() + ":" + (path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path));
  return env;
}

// How a supervisor ended: "exit code 127: ...", with the last line of its log.
std::string how_it_ended(int status, const std::filesystem::path& log) {
  std::string text = WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status))
                                         : "exit code " + std::to_string(WEXITSTATUS(status));
  std::string last;
  try {
    for (const std::string& line : split(read_file(log, 1 << 20), '\n')) {
      if (!trim(line).empty()) last = line;
    }
  } catch (const Error&) {
    last.clear();  // the log is missing or far too long
  }
  return last.empty() ? text : text + ": " + last;
}

}  // namespace

Kubelet::Kubelet(Store& store, PodLogs& logs, const Paths& paths, std::filesystem::path program,
                 std::vector<std::string> gpus)
    : store_(store),
      logs_(logs),
      paths_(paths),
      program_(std::move(program)),
      gpus_(std::move(gpus)),
      addresses_(paths.root / "addresses.json") {
  std::filesystem::create_directories(paths_.pods());
}

void Kubelet::notice(const std::string& uid) {
  logs_.announce(uid);
  const auto found = pods_.find(uid);
  if (found != pods_.end()) found->second.has_news = true;
}

void Kubelet::step(Time now, bool sweep) {
  reap();
  for (const Object& pod : store_.list("pods")) {
    if (has_ended(*pod) && !is_deleted(*pod)) continue;  // there may be thousands of ended pods
    try {
      if (!pod->at("spec").contains("nodeName")) {
        schedule(*pod, now);
      } else {
        step_pod(*pod, now, sweep);
      }
    } catch (const StatusError&) {
      continue;                              // the pod has changed meanwhile: the next step reads it again
    } catch (const std::exception& error) {  // for example a full disk; the loop continues
      std::cerr << name_of(*pod) << ": " << error.what() << '\n';
    }
  }
  if (sweep) clear_up();
}

void Kubelet::clear_up() {
  std::set<std::string> known, hosts;
  for (const Object& pod : store_.list("pods")) {
    known.insert(pod_uid_of(*pod));
    if (!has_ended(*pod) || has_name_in_service(pod->at("spec")))
      hosts.insert(namespace_of(*pod) + "/" + host_of(*pod));
  }
  remove_strays(known);
  for (const Object& job : store_.list("jobs")) {
    if (has_name_in_service(at_path(job->at("spec"), {"template", "spec"})))
      hosts.insert(namespace_of(*job) + "/" + name_of(*job));
  }
  addresses_.forget_unless([&](const std::string& host) {
    return hosts.contains(host) || hosts.contains(host.substr(0, host.rfind('-')));
  });
}

void Kubelet::schedule(const json& pod, Time now) {
  if (is_deleted(pod) || !pod.at("spec").value("schedulingGates", json::array()).empty()) return;
  const auto free = wanted_gpus(pod) > 0 ? free_gpus(gpus_, store_.list("pods")) : std::vector<std::string>();
  const auto why = why_unschedulable(pod, free.size());
  if (why) {
    const json status = unschedulable_status(pod, *why, now);
    if (pod.value("status", json()) == status) return;
    set_status(pod, status);
    return event(pod, "Warning", "FailedScheduling", *why, now);
  }
  store_.modify("pods", pod, [&](json& current) {
    current["spec"]["nodeName"] = "local";
    give_gpus(current, free);
    current["status"] = pod_status(current, PodState{}, now);
  });
  event(pod, "Normal", "Scheduled",
        "Successfully assigned " + namespace_of(pod) + "/" + name_of(pod) + " to local", now);
}

void Kubelet::step_pod(const json& pod, Time now, bool sweep) {
  Local& local = pods_[pod_uid_of(pod)];
  if (has_ended(pod)) {
    local.stage = Local::Stage::ended;
    if (is_deleted(pod)) finish_deleted(pod);
    return;
  }
  const PodFolder folder(paths_.pods() / pod_uid_of(pod));
  if (local.stage == Local::Stage::waiting && std::filesystem::exists(folder.path() / "process.json")) {
    local.stage = Local::Stage::starting;  // an earlier server has started this pod
  }
  if (local.stage == Local::Stage::waiting) {
    if (!is_deleted(pod) && is_past_deadline(pod, now)) return enforce_deadline(pod, local, now);
    if (!is_deleted(pod)) return start(pod, local, now);
    // This pod was deleted before its start, so it never runs.
    json status = pod.value("status", json::object());
    status["phase"] = "Failed";
    set_status(pod, status);
    return finish_deleted(pod);
  }
  if (local.has_news || sweep) sync(pod, local, now);
  if (local.stage == Local::Stage::ended) return;
  if (is_deleted(pod)) {
    stop(pod, local, {pod.at("metadata").value("deletionGracePeriodSeconds", 30L), ""}, now);
  } else if (is_past_deadline(pod, now)) {
    enforce_deadline(pod, local, now);
  }
}

void Kubelet::enforce_deadline(const json& pod, Local& local, Time now) {
  if (local.stop_grace < 0) event(pod, "Normal", deadline_reason, deadline_message, now);
  if (local.stage != Local::Stage::waiting) {
    const long grace = pod.at("spec").value("terminationGracePeriodSeconds", 30L);
    return stop(pod, local, {grace, deadline_reason}, now);
  }
  // The container of the pod could not be created so far, so the pod has no process to stop. The pod fails
  // here.
  const std::string at = format_time(now);
  PodState state;
  state.exit = Exit{128 + SIGKILL, SIGKILL, at, at, deadline_reason, ""};
  set_status(pod, pod_status(pod, state, now));
  local.stage = Local::Stage::ended;
}

Process Kubelet::localised(const json& pod) {
  PodContext around;
  around.pod_folder = paths_.pods() / pod_uid_of(pod);
  around.claims = paths_.claims();
  if (std::filesystem::exists(paths_.volumes())) {
    around.volumes = parse_json(read_file(paths_.volumes(), 1 << 20), "volumes.json")
                         .get<std::map<std::string, std::string>>();
  }
  const std::string name_space = namespace_of(pod);
  for (const Object& service : store_.list("services", name_space)) around.services.insert(name_of(*service));
  around.inherited = inherited_environment(program_, shell_of(store_, pod));
  around.inherited.emplace_back("CUDA_VISIBLE_DEVICES", gpus_of(pod));
  std::vector<Object> found;  // keeps the objects alive as long as the pointers into them are used
  around.find = [&](const std::string& plural, const std::string& name) -> const json* {
    found.push_back(store_.find(plural, name_space, name));
    return found.back().get();
  };
  around.address_of = [&](const std::string& host) { return addresses_.address_of(name_space, host); };
  const json annotations = pod.at("metadata").value("annotations", json::object());
  const std::string port_by_variables = annotations.value("mlk.dev/port-by-variables", "");
  around.port_of = [&](const std::string& service, const std::string& host, int port) {
    if (std::to_string(port) == port_by_variables)
      return addresses_.own_port_of(name_space, service, host, port);
    return addresses_.port_of(name_space, service, host, port);
  };
  // If no other pod of the service runs or starts, chooses new ports, since another program may use the old
  // ports now.
  const std::string service = pod.at("spec").value("subdomain", "");
  if (!service.empty() && !has_other_pods(pod, service)) addresses_.forget_ports(name_space, service);
  return localise(pod, around);
}

bool Kubelet::has_other_pods(const json& pod, const std::string& service) const {
  const std::vector<Object> all = store_.list("pods", namespace_of(pod));
  return std::any_of(all.begin(), all.end(), [&](const Object& other) {
    const auto found = pods_.find(pod_uid_of(*other));
    const bool runs =
        !has_ended(*other) && found != pods_.end() &&
        (found->second.stage == Local::Stage::starting || found->second.stage == Local::Stage::running);
    return runs && pod_uid_of(*other) != pod_uid_of(pod) &&
           other->at("spec").value("subdomain", "") == service;
  });
}

void Kubelet::write_files(const json& pod, const Process& process) {
  const PodFolder folder(paths_.pods() / pod_uid_of(pod));
  std::filesystem::create_directories(folder.path());
  for (const std::filesystem::path& wanted : process.folders) std::filesystem::create_directories(wanted);
  for (const LocalFile& file : process.files) {
    std::filesystem::create_directories(file.path.parent_path());
    write_file_atomically(file.path, file.content, static_cast<mode_t>(file.mode));
  }
  write_file_atomically(process.termination_message, "", 0600);
}

void Kubelet::start(const json& pod, Local& local, Time now) {
  try {
    const Process process = localised(pod);
    addresses_.save();
    write_files(pod, process);
    const PodFolder folder(paths_.pods() / pod_uid_of(pod));
    const long grace = pod.at("spec").value("terminationGracePeriodSeconds", 30L);
    folder.write(Start{namespace_of(pod) + "/" + name_of(pod), grace, process.argv, process.env,
                       process.working_folder});
    start_supervisor(pod, local, now);
  } catch (const WaitingReason& waiting) {
    hold_up(pod, waiting.reason(), waiting.what(), now);
  } catch (const json::exception& error) {
    hold_up(pod, "CreateContainerConfigError", error.what(), now);
  } catch (const std::filesystem::filesystem_error& error) {  // the folder of a volume cannot be made
    hold_up(pod, "CreateContainerError", error.what(), now);
  }
}

// Starts a supervisor for the pod, or does nothing while the pause after a failed start lasts. The pauses
// grow, and the attempts have no limit, since the cause may be a full disk or too many processes.
void Kubelet::start_supervisor(const json& pod, Local& local, Time now) {
  const PodFolder folder(paths_.pods() / pod_uid_of(pod));
  local.stage = Local::Stage::starting;
  local.has_news = false;  // the supervisor will send a notice
  if (!local.trouble.empty() && now < local.retry) return;
  if (!local.trouble.empty())
    hold_up(pod, "CreateContainerError", "the supervisor of the pod did not start: " + local.trouble, now);
  local.retry = later(now, std::min(1L << std::min(local.attempts++, 6), 60L));
  try {
    local.child = spawn_detached({program_.string(), "local", "supervise", folder.path().string()},
                                 folder.path() / "supervisor.log");
  } catch (const Error& error) {
    local.trouble = error.what();
  }
}

// Sets the container to waiting, with this reason. A later step tries to start the pod again.
void Kubelet::hold_up(const json& pod, const std::string& reason, const std::string& message, Time now) {
  PodState state;
  state.waiting = {reason, clean_text(message, message_limit)};
  const json status = pod_status(pod, state, now);
  if (status == pod.value("status", json())) return;
  set_status(pod, status);
  event(pod, "Warning", reason == "ContainerCreating" ? "FailedMount" : "Failed", state.waiting->second, now);
}

// Reads the records of the supervisor in the folder, and detects that the supervisor has died.
void Kubelet::sync(const json& pod, Local& local, Time now) {
  local.has_news = false;
  const PodFolder folder(paths_.pods() / pod_uid_of(pod));
  auto exit = folder.exit();
  const auto started = folder.started();
  if (!exit && local.child == 0 && !folder.supervisor().held) {
    // The supervisor has ended before the start of the program, or does not hold the lock yet. So the kubelet
    // starts another supervisor, and only one of the two supervisors gets the lock.
    if (!started && !is_deleted(pod)) return start_supervisor(pod, local, now);
    if (!declare_lost(folder)) {
      local.has_news = true;  // the supervisor has just ended regularly
      return;
    }
    exit = folder.exit();
  }
  PodState state;
  state.address = addresses_.address_of(namespace_of(pod), host_of(pod));
  if (exit) {
    state.exit = exit;
    state.termination_message = termination_message(pod, *exit);
    // As in Kubernetes, the volumes inside the pod's folder are removed when the pod ends. They include the
    // pod's copies of ConfigMaps.
    std::error_code ignored;
    std::filesystem::remove_all(folder.path() / "volumes", ignored);
    local.stage = Local::Stage::ended;
  } else if (started && started->group > 0) {
    state.running_since = started->at;
    if (local.stage == Local::Stage::running) return;
    local.stage = Local::Stage::running;
  } else {
    return;
  }
  const bool was_running = text_of(pod, {"status", "phase"}) == "Running";
  set_status(pod, pod_status(pod, state, now));
  const std::string container = pod.at("/spec/containers/0/name"_json_pointer).get<std::string>();
  if (state.running_since && !was_running)
    event(pod, "Normal", "Started", "Started container " + container, now);
  if (exit && exit->reason == "StartError")
    event(pod, "Warning", "Failed", "Error: failed to start container " + container + ": " + exit->message,
          now);
  if (exit) logs_.announce(pod_uid_of(pod));
}

bool Kubelet::declare_lost(const PodFolder& folder) {
  const FileLock lock(folder.path() / "lock");
  if (!lock.held() || folder.exit()) return false;
  const auto started = folder.started();
  if (started) end_orphans(started->supervisor, folder.mark());
  const std::string at = format_time(std::chrono::system_clock::now());
  folder.write(Exit{137, SIGKILL, at, started ? started->at : at, "Lost",
                    "The container could not be located when the pod was terminated"});
  return true;
}

std::string Kubelet::termination_message(const json& pod, const Exit& exit) const {
  if (exit.reason == "StartError" || exit.reason == "Lost") return exit.message;
  std::string message;
  try {
    message = read_file(paths_.pods() / pod_uid_of(pod) / "termination-log", 1 << 20);
  } catch (const Error&) {
    message.clear();  // the program has removed the file, or has made it too large
  }
  const json& container = pod.at("/spec/containers/0"_json_pointer);
  if (message.empty() && exit.code != 0 &&
      container.value("terminationMessagePolicy", "") == "FallbackToLogsOnError") {
    return clean_text(logs_.tail(pod_uid_of(pod), 80, 2048), 2048);
  }
  return clean_text(message, message_limit);
}

void Kubelet::stop(const json& pod, Local& local, const Stop& how, Time now) {
  const PodFolder folder(paths_.pods() / pod_uid_of(pod));
  if (local.stop_grace >= 0 && local.stop_grace <= how.grace_seconds) return;
  if (local.stop_grace < 0)
    event(pod, "Normal", "Killing",
          "Stopping container " + pod.at("/spec/containers/0/name"_json_pointer).get<std::string>(), now);
  folder.ask_to_stop(how);
  local.stop_grace = how.grace_seconds;
}

// For a deleted pod that has ended: ends its grace period, so that only finalizers keep the pod.
void Kubelet::finish_deleted(const json& pod) {
  if (pod.at("metadata").value("deletionGracePeriodSeconds", 0) == 0 &&
      pod.at("metadata").contains("finalizers"))
    return;
  store_.modify("pods", pod, [](json& current) { current["metadata"]["deletionGracePeriodSeconds"] = 0; });
}

// Removes the folders of pods that are gone. If a supervisor of such a pod still runs, for example because
// the pod was deleted by force, first asks the supervisor to stop.
void Kubelet::remove_strays(const std::set<std::string>& known) {
  for (const auto& entry : std::filesystem::directory_iterator(paths_.pods())) {
    const PodFolder folder(entry.path());
    if (known.contains(folder.uid())) continue;
    if (folder.supervisor().held) {
      folder.ask_to_stop({0, ""});
      continue;  // the next sweep removes the folder
    }
    if (folder.started() && !folder.exit()) declare_lost(folder);
    std::error_code ignored;
    std::filesystem::remove_all(folder.path(), ignored);
  }
  std::erase_if(pods_, [&](const auto& entry) {
    if (known.contains(entry.first)) return false;
    if (entry.second.child > 0) strays_.insert(entry.second.child);
    return true;
  });
}

void Kubelet::reap() {
  for (auto& [uid, local] : pods_) {
    int status = 0;
    if (local.child > 0 && ::waitpid(local.child, &status, WNOHANG) != 0) {
      local.child = 0;
      local.has_news = true;
      local.trouble = how_it_ended(status, paths_.pods() / uid / "supervisor.log");
    }
  }
  std::erase_if(strays_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

void Kubelet::set_status(const json& pod, const json& status) {
  store_.modify("pods", pod, [&](json& current) { current["status"] = status; });
}

void Kubelet::event(const json& pod, const std::string& type, const std::string& reason,
                    const std::string& message, Time now) {
  record_event(store_, pod,
               type == "Warning" && reason == "FailedScheduling" ? "default-scheduler" : "kubelet", type,
               reason, message, now);
}

}  // namespace mlk::local
