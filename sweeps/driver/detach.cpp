#include "sweeps/driver/detach.h"

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/render/own.h"
#include "cli/run/change/delete.h"
#include "cli/run/change/stored_run.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json_path.h"
#include "cli/util/number.h"
#include "sweeps/objects/objects.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

// Removes all objects of the sweep's drivers except those of the driver `name`.
void remove_others(kube::Client& client, const std::string& name_space, const std::string& sweep,
                   const std::string& name) {
  const kube::ListOptions of_drivers{
      .label_selector = std::string(labels::run) + "=" + sweep + "," + labels::role + "=" + labels::driver,
      .metadata_only = true};
  for (const kube::Resource* resource : {&kube::resources::jobs, &kube::resources::config_maps}) {
    for (const json& object : client.list(*resource, name_space, of_drivers).items) {
      const std::string other = kube::name_of(object);
      if (other == name || other.starts_with(name + "-")) continue;
      remove_if_there(client, name_space, *resource, other, kube::uid_of(object));
    }
  }
}

}  // namespace

bool start_driver(kube::Client& client, const std::string& name_space, const std::string& sweep, json job,
                  const std::string& input, const SubmitHooks& hooks) {
  const json owner = client.get(kube::resources::config_maps, name_space, sweep);
  const std::string uid = kube::uid_of(owner), name = kube::name_of(job);
  Creation creation(client, name_space, hooks);
  for (const json& part : input_objects(owner, input)) creation.create_owned(part, uid);
  job["metadata"]["ownerReferences"] = owner_references(sweep, uid);
  const std::optional<json> there = creation.find_owned(job, uid);
  const bool goes_on = there && !has_finished(*there);
  if (!goes_on) {
    if (there) client.remove(kube::resources::jobs, name_space, name, kube::uid_of(*there));
    creation.create_owned(job, uid);
  }
  remove_others(client, name_space, sweep, name);
  return !goes_on;
}

DriverTask read_driver_task(kube::Client& client, const std::string& name_space, const std::string& sweep,
                            const std::string& key) {
  std::string text;
  int parts = 1;
  for (int i = 0; i < parts && i < most_input_parts; ++i) {
    const json map = client.get(kube::resources::config_maps, name_space, input_part_name(sweep, key, i));
    parts = parse_int(text_of(map, {"data", "parts"}), 1);
    text += text_of(map, {"data", "input"});
  }
  if (key_of_input(text) != key) {
    throw Error(ExitCode::failure, "configmap/" + input_part_name(sweep, key, 0) + " was changed",
                "type the sweep's command with --detach again");
  }
  DriverTask out;
  out.input = parse_driver_input(text);
  for (const std::string& entry : out.input.folders)
    out.files.folders[entry] =
        files_in(client.get(kube::resources::config_maps, name_space, out.input.files_of + "-data-" + entry));
  if (!out.input.code.empty())
    out.files.code = CodeArchive{.digest = out.input.code,
                                 .bytes = "",
                                 .layer_file = out.input.code_in_image ? in_image_already : "",
                                 .on_machine = out.input.code_on_machine,
                                 .python_files = out.input.python_files};
  out.files.image = out.input.image_built;
  out.files.user = out.input.user;
  out.files.outputs_claim = out.input.outputs_claim;
  out.files.python_on_machine = out.input.python_on_machine;
  return out;
}

}  // namespace mlk::sweeps
