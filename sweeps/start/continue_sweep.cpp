#include "sweeps/start/continue_sweep.h"

#include <algorithm>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/render/render.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/order.h"
#include "cli/run/facts/owner.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "sweeps/objects/record.h"
#include "sweeps/space/names.h"

namespace mlk::sweeps {

using nlohmann::json;

namespace {

json stored_digests(const json& owner) { return json_or_null(text_of(owner, {"data", "digests"})); }

json without_code(json digests) {
  if (!digests.is_object()) return digests;
  for (const char* of_code : {code_file, python_files_name}) digests.erase(of_code);
  return digests;
}

// The owners of the sweeps with this experiment name, without their data.
std::vector<json> sweeps_named(kube::Client& client, const std::string& name_space, const std::string& name) {
  const kube::ListOptions of_name{
      .label_selector = std::string(labels::sweep) + "," + labels::name + "=" + name,
      .field_selector = "",
      .metadata_only = true};
  std::vector<json> out;
  for (json& map : client.list(kube::resources::config_maps, name_space, of_name).items) {
    if (is_sweep(map)) out.push_back(std::move(map));
  }
  return out;
}

}  // namespace

std::vector<json> of_kin(std::vector<json> owners, const std::string& kin) {
  std::erase_if(owners, [&](const json& owner) {
    return !is_sweep(owner) || read_record(owner).kin != kin ||
           !at_path(owner, {"metadata", "deletionTimestamp"}).is_null();
  });
  std::sort(owners.begin(), owners.end(), [](const json& a, const json& b) { return age_of(b) < age_of(a); });
  return owners;
}

void adopt(Definition& definition, const json& owner) {
  definition.identity = {kube::name_of(owner), kube::label_of(owner, labels::hash)};
  definition.files_of = definition.identity.run;
  // The copies of a sweep's files never change. So if the files have changed, their new copies get another
  // name. This name does not depend on the code, since the copy of the code has its own name.
  constexpr std::size_t suffix = 5;
  const json digests = without_code(digests_of(definition.first, definition.files));
  if (without_code(stored_digests(owner)) != digests)
    definition.files_of += "-" + sha256_base32(digests.dump(), suffix);
}

std::optional<SameSweep> go_on_with_same(kube::Client& client, const std::string& name_space,
                                         Definition& definition) {
  std::vector<json> owners;
  for (const json& map : sweeps_named(client, name_space, definition.name)) {
    if (std::optional<json> owner = client.find(kube::resources::config_maps, name_space, kube::name_of(map)))
      owners.push_back(std::move(*owner));
  }
  owners = of_kin(std::move(owners), definition.kin);
  if (owners.empty()) return std::nullopt;
  const SameSweep out{kube::name_of(owners.front()), read_record(owners.front()).trials,
                      static_cast<int>(owners.size()),
                      kube::name_of(owners.front()) != definition.identity.run};
  if (out.other) adopt(definition, owners.front());
  return out;
}

std::optional<json> find_with_other_code(kube::Client& client, const std::string& name_space,
                                         const Definition& definition) {
  const std::vector<json> all = sweeps_named(client, name_space, definition.name);
  const auto is_this = [&](const json& map) { return kube::name_of(map) == definition.identity.run; };
  if (all.empty() || std::any_of(all.begin(), all.end(), is_this)) return std::nullopt;
  const auto newest = std::min_element(all.begin(), all.end(),
                                       [](const json& a, const json& b) { return age_of(b) < age_of(a); });
  const auto owner = client.find(kube::resources::config_maps, name_space, kube::name_of(*newest));
  if (!owner || of_kin({*owner}, definition.kin).empty()) return std::nullopt;
  const json before = stored_digests(*owner), now = digests_of(definition.first, definition.files);
  const bool only_code = without_code(before) == without_code(now) && before != now;
  return only_code && read_record(*owner).base == json_of_experiment(definition.base) ? owner : std::nullopt;
}

}  // namespace mlk::sweeps
