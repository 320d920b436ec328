#include "cli/run/change/end_pods_left.h"

#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/change/delete.h"
#include "cli/run/change/hooks.h"
#include "cli/run/facts/owner.h"
#include "cli/run/facts/pods_left.h"
#include "cli/run/facts/read_facts.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds longest_end{120};
constexpr std::chrono::milliseconds between_looks{250};

[[noreturn]] void give_up(const std::string& what, const std::vector<const PodFacts*>& pods) {
  constexpr std::size_t most = 5;
  std::vector<std::string> names;
  for (const PodFacts* pod : pods) {
    if (names.size() < most) names.push_back("pod/" + pod->name);
  }
  if (pods.size() > most) names.push_back(fmt::format("{} more", pods.size() - most));
  throw Error(ExitCode::timed_out, "pods of " + what + " have not ended: " + printable(join(names, ", ")),
              "the pods were asked to end; pods of a lost node stay until the node is back or deleted");
}

}  // namespace

void end_pods_left(kube::Client& client, const std::string& name_space, const nlohmann::json& owner,
                   const SubmitHooks& hooks) {
  RunObjects run;
  run.owner = owner;
  const kube::ListOptions of_owner{.label_selector = label_of_owner(owner) + "=" + kube::name_of(owner)};
  kube::ListOptions not_ended = of_owner;
  not_ended.field_selector = "status.phase!=Succeeded,status.phase!=Failed";
  const std::string what = (is_sweep(owner) ? "sweep " : "run ") + kube::name_of(owner);
  const steady_clock::time_point deadline = steady_clock::now() + longest_end;
  for (bool told = false;; told = true) {
    run.pods = client.list(kube::resources::pods, name_space, not_ended).items;
    if (run.pods.empty()) return;
    // List the Jobs after the pods: then the list has the Job of each listed pod, if that Job exists.
    run.jobs = client.list(kube::resources::jobs, name_space, of_owner).items;
    const Facts facts = read_facts(run);
    const std::vector<const PodFacts*> pods = pods_left(facts);
    if (pods.empty()) return;
    if (!told) {
      hooks.note(pods.size() == 1
                     ? "ending a pod of " + what + ", whose Job is gone, and waiting for its end"
                     : fmt::format("ending {} pods of {}, whose Job is gone, and waiting for their end",
                                   pods.size(), what));
    }
    for (const PodFacts* pod : pods) {
      if (!pod->deleting) remove_if_there(client, name_space, kube::resources::pods, pod->name, pod->uid);
    }
    if (steady_clock::now() > deadline) give_up(what, pods);
    hooks.check_interrupted();
    std::this_thread::sleep_for(between_looks);
  }
}

}  // namespace mlk
