#include "cli/run/facts/node_loss.h"

#include <nlohmann/json.hpp>

#include "cli/util/json_path.h"

namespace mlk {
namespace {

using json = nlohmann::json;

bool has_taint(const json& node, std::string_view key) {
  for (const json& taint : at_path(node, {"spec", "taints"})) {
    if (text_of(taint, {"key"}) == key) return true;
  }
  return false;
}

}  // namespace

bool is_node_lost(const LossSigns& signs) {
  if (signs.ended) return signs.given_up;
  if (!signs.scheduled || signs.node == NodeWord::answers || signs.node == NodeWord::not_ready) return false;
  if (signs.node != NodeWord::unknown || signs.given_up) return true;
  if (signs.tainted && signs.past_grace) return true;
  return signs.not_ready && signs.containers_ready && !signs.waits_for_gates && signs.told_not_ready;
}

bool is_doubtful(const LossSigns& signs) {
  if (signs.ended || !signs.scheduled) return false;
  const bool calm = signs.node == NodeWord::unknown || signs.node == NodeWord::answers;
  return !calm || signs.given_up || signs.not_ready || signs.tainted;
}

NodeWord word_of_node(const json& node) {
  if (!node.is_object()) return NodeWord::gone;
  if (has_taint(node, "node.kubernetes.io/out-of-service")) return NodeWord::silent;
  for (const json& condition : at_path(node, {"status", "conditions"})) {
    if (text_of(condition, {"type"}) != "Ready") continue;
    const std::string status = text_of(condition, {"status"});
    if (status == "Unknown") return NodeWord::silent;
    return status == "False" ? NodeWord::not_ready : NodeWord::answers;
  }
  return NodeWord::unknown;
}

LossSigns signs_of_pod(const json& pod, Time now) {
  LossSigns signs;
  const std::string phase = text_of(pod, {"status", "phase"});
  signs.ended = phase == "Succeeded" || phase == "Failed";
  signs.scheduled = !text_of(pod, {"spec", "nodeName"}).empty();
  signs.given_up = text_of(pod, {"status", "reason"}) == "NodeLost" || phase == "Unknown";
  // The deletionTimestamp is the time at which the grace period ends.
  const std::optional<Time> deadline = time_of(pod, {"metadata", "deletionTimestamp"});
  signs.past_grace = deadline && now > *deadline;
  for (const json& condition : at_path(pod, {"status", "conditions"})) {
    const std::string type = text_of(condition, {"type"}), reason = text_of(condition, {"reason"});
    const bool is_true = text_of(condition, {"status"}) == "True";
    if (type == "DisruptionTarget") signs.tainted = is_true && reason == "DeletionByTaintManager";
    if (type == "ContainersReady") signs.containers_ready = is_true;
    if (type != "Ready") continue;
    // A pod that has not started is not ready either, so only a running pod gives this sign.
    signs.not_ready = !is_true && phase == "Running";
    signs.waits_for_gates = reason == "ReadinessGatesNotReady";
  }
  return signs;
}

}  // namespace mlk
