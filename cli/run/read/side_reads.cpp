#include "cli/run/read/side_reads.h"

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/logs.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/at_fault.h"
#include "cli/run/facts/facts.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/run/facts/read_facts.h"
#include "cli/run/read/late_lines.h"
#include "cli/run/read/node_reads.h"
#include "cli/run/state/status.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr seconds ask_service_again{30}, ask_words_again{1};
constexpr seconds longest_answer{10};
constexpr std::size_t most_words_of_run = 8;
constexpr int lines_of_words = 10;
constexpr std::size_t bytes_of_words = 16 * 1024;

// Whether ranks of the run may look up each other by the names that its Service gives them.
bool has_peers(const json& owner) {
  const std::optional<Phase> recorded = parse_phase(kube::annotation_of(owner, annotations::phase));
  const bool deleting = at_path(owner, {"metadata", "deletionTimestamp"}).is_string();
  if (deleting || (recorded && is_final(*recorded))) return false;
  int ranks = 0;
  for (const auto& [role, count] : roles_of(owner)) ranks += count;
  return ranks > 1;
}

bool goes_on(const json& owner, const Facts& facts) {
  const JobFacts* decider = facts.decider();
  if (decider == nullptr || decider->end != JobFacts::End::none || decider->ending) return false;
  return decider->resumed || kube::annotation_of(owner, annotations::stopped).empty();
}

bool all_run(const Facts& facts) {
  return std::all_of(facts.pods.begin(), facts.pods.end(),
                     [](const PodFacts& pod) { return pod.program_runs() && !pod.deleting; });
}

}  // namespace

struct SideReads::State {
  struct Words {
    std::future<kube::Answer> answer;
    Clock::time_point asked{};
    int restarts = 0;
    std::string known;

    // Whether the answer belongs to an earlier end of the container, or may lack the last lines of the log.
    bool is_outdated(const Container& container) const {
      const std::optional<ContainerEnd>& end = container.end ? container.end : container.last_end;
      const bool may_grow = end && may_have_late_lines(end->finished, std::chrono::system_clock::now());
      return restarts != container.restarts || (may_grow && Clock::now() - asked >= ask_words_again);
    }
  };
  struct Service {
    std::future<kube::Answer> answer;
    Clock::time_point looked{};
    bool gone = false;
  };

  kube::Client& client;
  const std::string name_space;
  const Scope scope;
  NodeReads nodes;
  std::map<std::string, Words> words;       // by last_words_key()
  std::map<std::string, Service> services;  // by the run's name

  void ask_words(const RunObjects& objects) {
    std::size_t asked = 0;
    const Facts facts = read_facts(std::vector<json>(), objects.pods);
    for (auto pod = facts.pods.rbegin(); pod != facts.pods.rend() && asked < most_words_of_run;
         ++pod) {  // newest first
      const Container* other = at_fault(*pod);
      if (other == nullptr) continue;
      ++asked;
      const auto [found, is_new] = words.try_emplace(last_words_key(pod->uid, other->name));
      Words& its = found->second;
      if (!is_new && (its.answer.valid() || !its.is_outdated(*other))) continue;
      kube::Request request = kube::log_request(
          name_space, pod->name,
          {.container = other->name, .tail_lines = lines_of_words, .limit_bytes = bytes_of_words});
      request.timeout = longest_answer;
      its.restarts = other->restarts;
      its.asked = Clock::now();
      its.answer = client.ask(request);
    }
  }

  void ask_service(const RunObjects& objects) {
    if (scope == Scope::runs || !has_peers(objects.owner)) return;
    const std::string name = kube::name_of(objects.owner);
    Service& service = services[name];
    const bool first = service.looked == Clock::time_point{};
    if (service.answer.valid() || (!first && Clock::now() - service.looked < ask_service_again)) return;
    const Facts facts = read_facts(objects);
    if (!goes_on(objects.owner, facts)) return;
    service.looked = Clock::now();
    if (!first && !service.gone && all_run(facts)) return;
    service.answer = client.ask(
        {.path = kube::path_of(kube::resources::services, name_space, name), .timeout = longest_answer});
  }

  static void collect(Words& of) {
    const kube::Answer answer = of.answer.get();
    if (!answer.unreachable.empty() || answer.response.status != 200) return;
    std::string text;
    for (const kube::LogLine& line : kube::parse_log(answer.response.body)) text += line.text + '\n';
    if (!text.empty()) of.known = std::move(text);
  }

  // If the user may not read the Service, the state of the Service is unknown.
  static void collect(Service& service) {
    const kube::Answer answer = service.answer.get();
    if (!answer.unreachable.empty()) return;
    service.gone = answer.response.status == 404 &&
                   text_of(json_or_null(answer.response.body), {"reason"}) == "NotFound";
  }

  // Reads the answers. Returns whether all requests were answered.
  bool collect_answers() {
    bool all = nodes.collect();
    const auto collect_from = [&](auto& asked) {
      for (auto& [name, one] : asked) {
        if (!one.answer.valid()) continue;
        if (one.answer.wait_for(milliseconds(0)) == std::future_status::ready)
          collect(one);
        else
          all = false;
      }
    };
    collect_from(words);
    collect_from(services);
    return all;
  }

  void add(RunObjects& objects) const {
    const auto service = services.find(kube::name_of(objects.owner));
    objects.service_is_gone = service != services.end() && service->second.gone;
    nodes.add(objects);
    if (words.empty()) return;
    for (const json& pod : objects.pods) {
      for (auto of = words.lower_bound(last_words_key(kube::uid_of(pod), "")); of != words.end(); ++of) {
        if (!of->first.starts_with(last_words_key(kube::uid_of(pod), ""))) break;
        if (!of->second.known.empty()) objects.last_words[of->first] = of->second.known;
      }
    }
  }
};

SideReads::SideReads(kube::Client& client, std::string name_space, Scope scope, milliseconds ask_node_again)
    : state_(new State{client, std::move(name_space), scope, NodeReads(client, ask_node_again), {}, {}}) {}

SideReads::~SideReads() = default;

void SideReads::poll(RunObjects& objects) {
  state_->collect_answers();
  state_->nodes.poll({&objects});
  state_->ask_words(objects);
  state_->ask_service(objects);
  state_->add(objects);
}

void SideReads::wait(const std::vector<RunObjects*>& runs, milliseconds budget) {
  const Clock::time_point deadline = Clock::now() + budget;
  state_->collect_answers();
  state_->nodes.poll({runs.begin(), runs.end()});
  for (const RunObjects* run : runs) {
    state_->ask_words(*run);
    state_->ask_service(*run);
  }
  while (!state_->collect_answers() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  for (RunObjects* run : runs) state_->add(*run);
}

}  // namespace mlk
