#include "cli/run/read/node_reads.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <utility>

#include "cli/kube/objects.h"
#include "cli/run/facts/node_loss.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using json = nlohmann::json;

constexpr std::chrono::seconds longest_node_answer{10};
constexpr std::size_t most_nodes = 64;

std::string version_of_node(const json& object) { return text_of(object, {"metadata", "resourceVersion"}); }

// Versions are growing numbers. If a version is not a number, neither object counts as older.
bool is_older(const json& object, const json& than) {
  const std::string a = version_of_node(object), b = version_of_node(than);
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  };
  return is_number(a) && is_number(b) && std::pair(a.size(), a) < std::pair(b.size(), b);
}

void store_newer(std::optional<json>& known, json object) {
  if (!known || !is_older(object, *known)) known = std::move(object);
}

bool is_label_value(const std::string& text) {
  return !text.empty() && text.size() <= 63 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.';
  });
}

// Nearly every Node has its name as the value of this label. So one selector can name several nodes.
kube::ListOptions watch_options(const std::set<std::string>& names) {
  kube::ListOptions options;
  options.label_selector =
      "kubernetes.io/hostname in (" + join(std::vector(names.begin(), names.end()), ",") + ")";
  options.from_cache = true;
  options.transform = [](json& node) {  // most of a Node object is its list of images
    json words = {{"metadata", {{"name", kube::name_of(node)}, {"resourceVersion", version_of_node(node)}}},
                  {"spec", {{"taints", at_path(node, {"spec", "taints"})}}},
                  {"status", {{"conditions", at_path(node, {"status", "conditions"})}}}};
    node = std::move(words);
  };
  return options;
}

// Whether the user may not watch nodes, or the server does not serve Node objects.
bool may_not_watch(const std::exception_ptr& failure) {
  if (!failure) return false;
  try {
    std::rethrow_exception(failure);
  } catch (const kube::ApiError& error) {
    return error.status() == 401 || error.status() == 403 || error.status() == 404;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void NodeReads::poll(const std::vector<const RunObjects*>& runs) {
  collect();
  const Time now = std::chrono::system_clock::now();
  std::set<std::string> used, doubtful;
  for (const RunObjects* run : runs) {
    for (const json& pod : run->pods) {
      const std::string name = text_of(pod, {"spec", "nodeName"});
      LossSigns signs = signs_of_pod(pod, now);
      if (signs.ended || !signs.scheduled) continue;
      used.insert(name);
      const auto node = nodes_.find(name);
      if (node != nodes_.end() && node->second.known) signs.node = word_of_node(*node->second.known);
      if (is_doubtful(signs)) doubtful.insert(name);
    }
  }
  std::erase_if(nodes_, [&](const auto& node) { return used.count(node.first) == 0; });
  watch(used);
  ask(doubtful);
}

void NodeReads::watch(const std::set<std::string>& names) {
  if (!may_watch_) return;
  std::set<std::string> wanted;
  for (const std::string& name : names) {
    if (wanted.size() < most_nodes && is_label_value(name)) wanted.insert(name);
  }
  if (std::includes(watched_.begin(), watched_.end(), wanted.begin(), wanted.end())) return;
  const Clock::time_point now = Clock::now();
  if (reflector_ && now - watched_since_ < ask_again_) return;  // avoids a watch for each pod
  watched_since_ = now;
  watched_ = std::move(wanted);
  reflector_.reset();
  for (auto& [name, node] : nodes_) node.shown.reset();
  reflector_ =
      std::make_unique<kube::Reflector>(client_, kube::resources::nodes, "", watch_options(watched_), [] {});
}

// The nodes that were polled longest ago come first. Otherwise some nodes would never be polled if there are
// more than mlk may poll at once.
void NodeReads::ask(const std::set<std::string>& names) {
  if (!may_ask_) return;
  const Clock::time_point now = Clock::now();
  const auto lately = [&](const Node& node) {
    return node.asked != Clock::time_point{} && now - node.asked < ask_again_;
  };
  std::vector<std::pair<Clock::time_point, std::string>> due;
  for (const std::string& name : names) {
    const Node& node = nodes_[name];
    if (!node.answer.valid() && !lately(node)) due.emplace_back(node.asked, name);
  }
  const auto asked = static_cast<std::size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [&](const auto& node) { return lately(node.second); }));
  std::sort(due.begin(), due.end());
  due.resize(std::min(due.size(), most_nodes - std::min(asked, most_nodes)));
  for (const auto& [when, name] : due) {
    nodes_[name].answer = client_.ask(
        {.path = kube::path_of(kube::resources::nodes, "", name), .timeout = longest_node_answer});
    nodes_[name].asked = now;
  }
}

bool NodeReads::collect() {
  bool all = collect_watched();
  for (auto& [name, node] : nodes_) {
    if (!node.answer.valid()) continue;
    if (node.answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
      collect(node);
    else
      all = false;
  }
  return all;
}

void NodeReads::collect(Node& node) {
  const kube::Answer answer = node.answer.get();
  const int status = answer.unreachable.empty() ? answer.response.status : 0;
  if (status == 401 || status == 403) may_ask_ = false;
  if (status != 200 && status != 404) return;
  json object = json_or_null(answer.response.body);
  // A 404 that does not name nodes is from another program at this path, which knows nothing about nodes.
  if (status == 404 && text_of(object, {"details", "kind"}) == "nodes") node.known = json();
  if (status == 404) return;
  kube::repair(object);
  store_newer(node.known, std::move(object));
}

// Returns whether the first list has arrived or failed. A node that the list lacks may exist: its label may
// have another value, and a proxy may show only some nodes. But a node is gone if an earlier list had it and
// this list lacks it.
bool NodeReads::collect_watched() {
  if (!reflector_) return true;
  const std::exception_ptr failure = reflector_->failure();
  const bool synced = reflector_->synced();
  std::set<std::string> there;
  for (json& object : reflector_->objects()) {
    const std::string name = kube::name_of(object), version = version_of_node(object);
    Node& node = nodes_[name];
    there.insert(name);
    if (node.shown == version) continue;
    node.shown = version;
    store_newer(node.known, std::move(object));
  }
  for (auto& [name, node] : nodes_) {
    if (!node.shown || there.count(name) > 0) continue;
    node.shown.reset();
    node.known = json();
  }
  if (may_not_watch(failure)) {
    may_watch_ = false;
    reflector_.reset();
  }
  return synced || failure;
}

void NodeReads::add(RunObjects& objects) const {
  if (nodes_.empty()) return;
  for (const json& pod : objects.pods) {
    const auto node = nodes_.find(text_of(pod, {"spec", "nodeName"}));
    if (node != nodes_.end() && node->second.known) objects.nodes[node->first] = *node->second.known;
  }
}

}  // namespace mlk
