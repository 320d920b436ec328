#include "cli/run/read/mark.h"

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"

namespace mlk {

std::future<kube::Answer> mark_owner(kube::Client& client, const std::string& name_space,
                                     const nlohmann::json& owner, const std::string& annotation,
                                     const std::string& value) {
  return client.ask_to_patch(
      kube::resources::config_maps, name_space, kube::name_of(owner),
      {{"metadata", {{"uid", kube::uid_of(owner)}, {"annotations", {{annotation, value}}}}}});
}

}  // namespace mlk
