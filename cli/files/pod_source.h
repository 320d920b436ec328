// The files in a folder that a pod sees, by mlk-pod in the pod.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/files/file_source.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

struct PodFolder {
  std::string name_space, pod, container;
  std::string helper;  // the path of mlk-pod in the container
  std::string folder;
};

class PodSource : public FileSource {
 public:
  // `check` is called at least once a second, and may throw.
  PodSource(kube::Client& client, PodFolder where, std::function<void()> check)
      : client_(client), where_(std::move(where)), check_(std::move(check)) {}
  // Both throw kube::ApiError, and Error{failure} for an answer that is none of mlk-pod.
  Listing list() override;
  void read(const std::vector<WantedFile>& wanted, const FileSink& sink) override;

 private:
  void send(const std::string& request, const std::function<void(std::string_view)>& out);

  kube::Client& client_;
  const PodFolder where_;
  const std::function<void()> check_;
};

}  // namespace mlk
