// A pod that sees the volumes of a run, so that mlk can read the files there.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/render/templates.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

// A running pod among those of the run that has mlk-pod and the volumes with the run's files; nullptr: there
// is none. Pure.
const nlohmann::json* pod_with_helper(const std::vector<nlohmann::json>& pods);

struct ReaderObjects {
  nlohmann::json helper, pod;  // the ConfigMap with mlk-pod, which owns the pod
};

// Renders the reader of a run, after the pod of one of its Jobs. `owner`: the owner of the run. Pure.
ReaderObjects render_reader(const nlohmann::json& owner, const nlohmann::json& pod_of_job,
                            const std::string& name, const Templates& templates);

// Makes the reader, and waits until it runs. The destructor deletes it.
class ReaderPod {
 public:
  // `wait`: sleeps for a moment, and says to the user what the pod waits for; may throw. Throws ApiError, and
  // Error{cannot_start} if the pod does not run within two minutes.
  ReaderPod(kube::Client& client, std::string name_space, ReaderObjects objects,
            const std::function<void(const std::string&)>& wait);
  ~ReaderPod();
  ReaderPod(const ReaderPod&) = delete;
  ReaderPod& operator=(const ReaderPod&) = delete;

  const std::string& name() const { return name_; }

 private:
  void remove();
  void wait_until_it_runs(const std::function<void(const std::string&)>& wait);

  kube::Client& client_;
  const std::string name_space_, name_;
  bool exists_ = false;
};

}  // namespace mlk
