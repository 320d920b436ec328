#include "cli/render/warnings.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/experiment/values.h"

namespace mlk {
namespace {

using nlohmann::json;

// Warns of memory below 4 MiB, in which no container starts. The user may have forgotten the suffix of the
// quantity: without a suffix, the quantity is in bytes.
void warn_of_little_memory(const Experiment& experiment, std::vector<std::string>& warnings) {
  constexpr long long least = 4LL << 20;
  for (const auto& [name, role] : experiment.roles) {
    const long long bytes = memory_bytes(role.memory).value_or(least);
    if (bytes >= least) continue;
    const bool plain = role.memory.find_first_not_of("0123456789") == std::string::npos;
    warnings.push_back(fmt::format("memory of role {}: {} is {} bytes, in which no container starts{}", name,
                                   role.memory, bytes, plain ? "; " + role.memory + "Mi?" : ""));
  }
}

void warn_of_missing_gpus(int there, const std::vector<RoleInRun>& roles,
                          std::vector<std::string>& warnings) {
  int largest = 0, sum = 0;
  for (const RoleInRun& role : roles) {
    largest = std::max(largest, role.size.gpu);
    sum += role.size.gpu * role.size.count;
  }
  if (sum <= there) return;
  const std::string machine = there == 0 ? "no GPU" : there == 1 ? "1 GPU" : fmt::format("{} GPUs", there);
  if (largest > there) {
    warnings.push_back(
        fmt::format("gpu: this machine has {}, so pods that ask for {} wait; with `gpu: 0` "
                    "they compute on its processors",
                    machine, largest));
  } else {
    warnings.push_back(
        fmt::format("gpu: this machine has {}, and the pods ask for {}: some of them wait "
                    "until others have ended",
                    machine, sum));
  }
}

void warn_unless_mounted(const Experiment& experiment, const char* key, const std::string& path,
                         std::vector<std::string>& warnings) {
  const bool mounted = std::any_of(
      experiment.data.begin(), experiment.data.end(),
      [&](const DataEntry& entry) { return path == entry.mount || path.starts_with(entry.mount + "/"); });
  if (!mounted)
    warnings.push_back(fmt::format("{} {} is on no volume of `data:`: the image must hold it", key, path));
}

}  // namespace

std::vector<std::string> warnings_of(const Experiment& experiment, const FileContents& files,
                                     const RenderOptions& options, const std::vector<RoleInRun>& roles) {
  std::vector<std::string> warnings;
  if (needs_image(experiment) && files.image.empty() && !options.local) {
    warnings.push_back(
        fmt::format("no image is named: {} stands in its place, and a cluster cannot run it", local_image));
  }
  if (options.local) warn_of_missing_gpus(options.local_gpus, roles, warnings);
  warn_of_little_memory(experiment, warnings);
  if (!experiment.has_train) return warnings;
  const json& checkpoint = experiment.effective["checkpoint"];
  if (!checkpoint.contains("volume")) {
    warnings.push_back("no checkpoint volume: if all pods are lost at once, training starts again at step 0");
  } else if (checkpoint["volume"].contains("emptyDir")) {
    warnings.push_back("checkpoint.volume is an emptyDir: its checkpoints are lost with each pod");
  }
  warn_unless_mounted(experiment, "train.data.path", experiment.effective["train"]["data"]["path"], warnings);
  const json& model = experiment.effective["train"]["model"];
  if (model.contains("weights"))
    warn_unless_mounted(experiment, "train.model.weights", model["weights"], warnings);
  return warnings;
}

}  // namespace mlk
