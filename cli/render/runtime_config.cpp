#include "cli/render/runtime_config.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/util/time.h"

namespace mlk {

using nlohmann::json;

json runtime_config(const Experiment& experiment) {
  const json& train = experiment.effective["train"];
  const json& checkpoint = experiment.effective["checkpoint"];
  json out = {{"schema", 1}, {"mode", experiment.mode}};
  for (const char* key : {"model", "precision", "optimizer", "consistency", "seed", "report_every",
                          "evaluate_every", "step_delay_ms"}) {
    out[key] = train[key];
  }
  if (train.contains("sample")) out["sample"] = train["sample"];
  const char* length = train.contains("epochs") ? "epochs" : "steps";
  out[length] = train[length];
  out["data"] = train["data"];
  out["data"].erase("path");  // the pod's variables have the path and the weights
  out["model"].erase("weights");
  const Role& workers = experiment.roles.at("worker");
  const auto servers = experiment.roles.find("server");
  const int processes = std::max(1, workers.gpu);  // processes of a worker: one for each GPU
  out["workers"] = {{"count", workers.count * processes}, {"min", workers.min * processes}};
  out["servers"] = {{"count", servers == experiment.roles.end() ? 0 : servers->second.count}};
  out["checkpoint"] = {{"every", checkpoint["every"]}, {"keep", checkpoint["keep"]}};
  out["patience_seconds"] = parse_duration(train["patience"].get<std::string>()).value().count();
  out["offline_seconds"] = parse_duration(train["offline_time"].get<std::string>()).value().count();
  return out;
}

}  // namespace mlk
