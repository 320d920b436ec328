#include "sweeps/driver/driver_job.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "cli/experiment/overrides.h"
#include "cli/kube/objects.h"
#include "cli/render/check_objects.h"
#include "cli/render/evaluate.h"
#include "cli/run/facts/labels.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "sweeps/objects/objects.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr int input_schema = 1;
constexpr int driver_user = 65532;  // the user "nonroot" of the image that mlk builds
constexpr std::size_t key_length = 5;
constexpr char shape_of_driver[] = "shapes/driver.yaml";

std::map<std::string, std::string> pairs_in(const json& map) {
  std::map<std::string, std::string> out;
  if (!map.is_object()) return out;
  for (const auto& [key, value] : map.items()) {
    if (value.is_string()) out[key] = value.get<std::string>();
  }
  return out;
}

std::string decoded(const std::string& text) {
  try {
    return base64_decode(text);
  } catch (const std::invalid_argument&) {
    throw Error(ExitCode::failure, "the input of this driver cannot be read: it is not base64");
  }
}

// The end of the part that starts at `begin`. A part never ends inside a UTF-8 character.
std::size_t end_of_part(const std::string& text, std::size_t begin) {
  std::size_t end = std::min(text.size(), begin + longest_input_part);
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return end;
}

}  // namespace

std::string to_text(const DriverInput& input) {
  std::map<std::string, std::string> texts;  // in base64, since the texts may not be UTF-8
  for (const auto& [name, text] : input.texts) texts[name] = base64_encode(text);
  return json_text({{"schema", input_schema},
                    {"version", input.version},
                    {"experiment", {{"name", input.file.name}, {"text", input.file.text}}},
                    {"set", settings_of(input.overrides)},
                    {"env", input.overrides.env},
                    {"arguments", input.overrides.arguments},
                    {"default_image", input.overrides.image},
                    {"parameters", input.parameters},
                    {"folders", input.folders},
                    {"code", input.code},
                    {"python_files", input.python_files},
                    {"image_built", input.image_built},
                    {"user", to_json(input.user)},
                    {"outputs_claim", input.outputs_claim},
                    {"code_in_image", input.code_in_image},
                    {"code_on_machine", input.code_on_machine},
                    {"python_on_machine", input.python_on_machine},
                    {"texts", texts},
                    {"templates", input.own_templates},
                    {"image", input.image},
                    {"local", input.local},
                    {"sweep", {{"name", input.sweep.run}, {"hash", input.sweep.hash}}},
                    {"files_of", input.files_of},
                    {"defined_as", input.defined_as}});
}

DriverInput parse_driver_input(std::string_view text) {
  const json value = json_or_null(text);
  if (number_of(value, {"schema"}, 0) != input_schema)
    throw Error(ExitCode::failure, "the input of this driver was written by another version of mlk",
                "start the driver with an image that holds the same mlk: --driver-image IMAGE");
  DriverInput out;
  out.version = text_of(value, {"version"});
  out.file = {text_of(value, {"experiment", "name"}), "", text_of(value, {"experiment", "text"})};
  out.overrides.set = texts_in(at_path(value, {"set"}));
  out.overrides.env = texts_in(at_path(value, {"env"}));
  out.overrides.arguments = texts_in(at_path(value, {"arguments"}));
  out.overrides.image = text_of(value, {"default_image"});
  out.parameters = texts_in(at_path(value, {"parameters"}));
  out.folders = texts_in(at_path(value, {"folders"}));
  out.code = text_of(value, {"code"});
  out.python_files = text_of(value, {"python_files"});
  out.image_built = text_of(value, {"image_built"});
  out.user = parse_user_facts(at_path(value, {"user"}));
  out.outputs_claim = text_of(value, {"outputs_claim"});
  out.code_in_image = at_path(value, {"code_in_image"}) == true;
  out.code_on_machine = text_of(value, {"code_on_machine"});
  out.python_on_machine = text_of(value, {"python_on_machine"});
  out.texts = pairs_in(at_path(value, {"texts"}));
  for (auto& [name, encoded] : out.texts) encoded = decoded(encoded);
  out.own_templates = pairs_in(at_path(value, {"templates"}));
  out.image = text_of(value, {"image"});
  out.local = at_path(value, {"local"}) == true;
  out.sweep = {text_of(value, {"sweep", "name"}), text_of(value, {"sweep", "hash"})};
  out.files_of = text_of(value, {"files_of"});
  out.defined_as = text_of(value, {"defined_as"});
  return out;
}

std::string key_of_input(std::string_view text) { return sha256_base32(text, key_length); }

Templates templates_of(const DriverInput& input) {
  Templates templates;
  for (const auto& [path, text] : input.own_templates) templates.add(path, {text, path});
  return templates;
}

PrepareOptions options_of(const DriverInput& input, FileContents files) {
  PrepareOptions out;
  out.overrides = input.overrides;
  out.manual = FileContext{}.manual;
  out.carried = CarriedFiles{std::move(files), input.texts};
  return out;
}

Definition definition_of(const DriverInput& input, const FileContents& files, const Templates& templates) {
  Definition out = define_sweep(input.file, options_of(input, files), input.parameters, templates);
  if (out.identity.run != input.defined_as) {
    throw Error(
        ExitCode::failure,
        fmt::format("this mlk derives another name for sweep {}, {}, than the mlk that started the sweep, {}",
                    input.defined_as, out.identity.run, input.version),
        "start the driver with an image that holds the same mlk: --driver-image IMAGE");
  }
  out.identity = input.sweep;
  out.files_of = input.files_of;
  return out;
}

void fill_defined_as(DriverInput& input, const FileContents& files) {
  const Templates templates = templates_of(input);
  input.defined_as =
      define_sweep(input.file, options_of(input, files), input.parameters, templates).identity.run;
}

std::string driver_name(const std::string& sweep, const std::string& key) {
  return fmt::format("{}-driver-{}", sweep, key);
}

std::string input_part_name(const std::string& sweep, const std::string& key, int part) {
  return fmt::format("{}-{}", driver_name(sweep, key), part);
}

std::vector<json> input_objects(const json& owner, const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size(); begin += parts.back().size())
    parts.push_back(text.substr(begin, end_of_part(text, begin) - begin));
  if (parts.size() > static_cast<std::size_t>(most_input_parts)) {
    throw Error(
        ExitCode::usage,
        fmt::format("the files of this sweep take {} MiB, which is too much for a driver in the cluster",
                    text.size() >> 20),
        "drive it from here: leave out --detach");
  }
  std::vector<json> out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    json map =
        config_map_of(owner, input_part_name(kube::name_of(owner), key_of_input(text), static_cast<int>(i)),
                      "input", parts[i]);
    // Commands that read the sweep do not need this ConfigMap. Without the label of the sweep, these commands
    // do not list the ConfigMap.
    map["metadata"]["labels"].erase(labels::sweep);
    map["metadata"]["labels"][labels::role] = labels::driver;
    map["data"]["parts"] = std::to_string(parts.size());
    map["immutable"] = true;
    out.push_back(std::move(map));
  }
  return out;
}

json render_driver(const Definition& definition, const DriverInput& input, const Templates& templates,
                   const DriverPlace& place) {
  const json& effective = definition.first.effective;
  const std::string& sweep = definition.identity.run;
  const std::string key = key_of_input(to_text(input));
  json command = {"mlk", "drive", sweep, key, "-n", place.name_space};
  if (!place.kubeconfig.empty()) command.insert(command.end(), {"--kubeconfig", place.kubeconfig});
  json secrets;
  for (const json& name : effective["image_pull_secrets"]) secrets.push_back({{"name", name}});
  const bool has_account = place.kubeconfig.empty();
  const json scope = {{"run", sweep},
                      {"name", definition.name},
                      {"namespace", place.name_space},
                      {"driver",
                       {{"input", key},
                        {"image", input.image.empty() ? local_image : input.image},
                        {"image_pull_policy", effective["image_pull_policy"]},
                        {"image_pull_secrets", secrets},
                        {"command", command},
                        {"user", input.user.is_assigned ? json() : json(driver_user)},
                        {"account", has_account ? json(driver_account) : json()},
                        {"has_account", has_account}}}};
  json job = evaluate(*parse_template(templates, shape_of_driver), scope);
  const std::string source = name_of_template(templates, shape_of_driver);
  check_head(job, source);
  check_job(job, sweep, source);
  const bool is_one = job["kind"] == "Job" && kube::name_of(job) == driver_name(sweep, key) &&
                      kube::label_of(job, labels::role) == labels::driver &&
                      kube::label_of(job, labels::sweep) == sweep;
  if (!is_one) {
    throw Error(
        ExitCode::usage,
        fmt::format("{}: it must make the Job {} with the labels mlk.dev/sweep: {} and mlk.dev/role: {}",
                    source, driver_name(sweep, key), sweep, labels::driver));
  }
  return job;
}

}  // namespace mlk::sweeps
