// A cluster with one run, and commands of mlk on this cluster.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/unit/app/tree.h"
#include "tests/unit/fake_cluster.h"

namespace mlk::test {

// The run has one worker, which runs.
struct ClusterWithRun : FakeCluster {
  explicit ClusterWithRun(const std::string& run = "x-abcde") {
    ask("POST", config_maps_path, owner_of(run));
    ask("POST", jobs_path, job_of(run));
    store.create("pods", pod_of(run, "Running"));
  }
  // Runs the command. Returns its exit code and everything that it printed.
  std::pair<int, std::string> mlk(std::vector<std::string> words) {
    Tree tree;
    words.insert(words.end(), {"--kubeconfig", kubeconfig()});
    const int code = tree.run(words);
    return {code, tree.out.str() + tree.err.str()};
  }
  // The Job and the stop mark of the run x-abcde.
  json job() { return ask("GET", jobs_path + "/x-abcde-worker"); }
  json mark() {
    const json owner = ask("GET", config_maps_path + "/x-abcde");
    return owner.value(json::json_pointer("/metadata/annotations/mlk.dev~1stopped"), json());
  }
};

}  // namespace mlk::test
