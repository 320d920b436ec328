// Whether the node of a pod is lost: only when there is a sign of it. A pod that is merely not ready is none:
// one of its containers may be. Pure.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// What the Node object says, where it may be read. The kubelet of one that is not ready answers all the same.
enum class NodeWord { unknown, answers, not_ready, silent, gone };

// What the cluster says of a pod and its node.
struct LossSigns {
  NodeWord node = NodeWord::unknown;
  bool ended = false;  // the pod
  bool scheduled = true;
  bool given_up = false;    // its reason is NodeLost, or its phase Unknown
  bool tainted = false;     // it is to be deleted for a taint of its node (DeletionByTaintManager)
  bool past_grace = false;  // the time that it had for its end is over
  // The node controller marks the pods of a silent node as not ready, although their containers were, and
  // says so in an event.
  bool not_ready = false, containers_ready = false, waits_for_gates = false, told_not_ready = false;
};

// The Node's own word counts more than all that others say of the pod.
bool is_node_lost(const LossSigns& signs);

// Whether the Node's next word may be another one soon. Kubernetes marks the pods of a node that falls silent
// only if it was ready until then: of any other node the Node alone tells.
bool is_doubtful(const LossSigns& signs);

// `node`: null if there is no such node.
NodeWord word_of_node(const nlohmann::json& node);

// The signs that the pod itself shows.
LossSigns signs_of_pod(const nlohmann::json& pod, Time now);

}  // namespace mlk
