// Decides whether the node of a pod is lost. A node counts as lost only if there is a sign of the loss. A pod
// that is not ready is not enough as a sign, since one of its containers may be the reason. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// What the Node object reports, if mlk may read it. The kubelet of a node that is not ready still answers.
enum class NodeWord { unknown, answers, not_ready, silent, gone };

// What the cluster reports about a pod and its node.
struct LossSigns {
  NodeWord node = NodeWord::unknown;
  bool ended = false;  // the pod has ended
  bool scheduled = true;
  bool given_up = false;    // the pod's reason is NodeLost, or its phase is Unknown
  bool tainted = false;     // a taint of the node causes the deletion of the pod (DeletionByTaintManager)
  bool past_grace = false;  // the pod's grace period is over
  // The node controller marks the pods of a silent node as not ready, although their containers were ready,
  // and reports this in an event.
  bool not_ready = false, containers_ready = false, waits_for_gates = false, told_not_ready = false;
};

// Whether the node is lost. If the pod has not ended, the state in the Node object overrides all other signs.
bool is_node_lost(const LossSigns& signs);

// Whether a sign makes the state of the node doubtful, so that mlk has to read the Node object. When a node
// becomes silent, Kubernetes marks its pods only if the node was ready until then. Otherwise only the Node
// object shows the silence.
bool is_doubtful(const LossSigns& signs);

// Reads the state in a Node object. `node`: null if the node does not exist.
NodeWord word_of_node(const nlohmann::json& node);

// Reads those signs that the pod itself shows.
LossSigns signs_of_pod(const nlohmann::json& pod, Time now);

}  // namespace mlk
