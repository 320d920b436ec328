#include "cli/run/change/ownerless.h"

#include <set>
#include <string>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using json = nlohmann::json;

// Adds nothing if the server refuses the list: a user who may delete a run may lack the right to list.
void add_ownerless(kube::Client& client, const std::string& name_space, const kube::Resource& resource,
                   const std::string& selector, std::vector<Ownerless>& found) {
  try {
    const kube::ListOptions options{.label_selector = selector, .metadata_only = true};
    for (json& object : client.list(resource, name_space, options).items) {
      if (at_path(object, {"metadata", "ownerReferences"}).empty())
        found.push_back({&resource, std::move(object)});
    }
  } catch (const kube::ApiError& error) {
    if (error.status() != 403) throw;
  }
}

}  // namespace

std::vector<Ownerless> find_ownerless_pods(kube::Client& client, const std::string& name_space,
                                           const json& owner) {
  std::vector<Ownerless> found;
  add_ownerless(client, name_space, kube::resources::pods, label_of_owner(owner) + "=" + kube::name_of(owner),
                found);
  return found;
}

std::vector<Ownerless> find_ownerless(kube::Client& client, const std::string& name_space,
                                      const std::string& run) {
  using namespace kube::resources;
  std::vector<Ownerless> found;
  if (!is_label(run)) return found;
  // The label mlk.dev/run of a trial has the name of the trial, so only the label mlk.dev/sweep finds the
  // owners of the trials of a sweep.
  for (const char* label : {labels::run, labels::sweep}) {
    const std::string selector = std::string(label) + "=" + run + "," + labels::managed_by + "=mlk";
    for (const kube::Resource* resource : {&jobs, &pods, &services, &config_maps, &secrets})
      add_ownerless(client, name_space, *resource, selector, found);
  }
  std::set<std::string> seen;
  std::erase_if(found, [&](const Ownerless& each) {
    return at_path(each.object, {"metadata", "deletionTimestamp"}).is_string() ||
           !seen.insert(kube::uid_of(each.object)).second;
  });
  return found;
}

}  // namespace mlk
