#include "cli/run/change/write_record.h"

#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/state/record.h"
#include "cli/util/json_path.h"

namespace mlk {

using json = nlohmann::json;

std::optional<std::string> write_record(kube::Client& client, const std::string& name_space,
                                        const json& owner, const RunStatus& status) {
  if (!is_final(status.phase) && status.phase != Phase::stopped) return std::nullopt;
  json patch = record_patch(status);
  if (at_path(owner, {"data", "record"}) == patch.at("data").at("record")) return std::nullopt;
  // Another run of the same name may have replaced this run meanwhile. The patch names the uid, so the server
  // refuses to change another object.
  patch["metadata"]["uid"] = kube::uid_of(owner);
  try {
    client.patch(kube::resources::config_maps, name_space, status.run, patch);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace mlk
