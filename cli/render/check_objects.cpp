#include "cli/render/check_objects.h"

#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/json_path.h"

namespace mlk {

using nlohmann::json;

namespace {

bool is_name(const json& value) { return value.is_string() && !value.get_ref<const std::string&>().empty(); }

Error broken_head(const std::string& source, std::string_view what) {
  return Error(ExitCode::usage, fmt::format("{}: {}", source, what));
}

void check_label(const json& object, std::string_view what, const std::string& run,
                 const std::string& source) {
  if (at_path(object, {"metadata", "labels", "mlk.dev/run"}) == run) return;
  throw broken_head(
      source,
      fmt::format("the label mlk.dev/run of {} must be {}: mlk finds the object by this label", what, run));
}

}  // namespace

void check_head(const json& object, const std::string& source) {
  if (!object.is_object()) throw broken_head(source, "an object must be a map");
  if (!is_name(at_path(object, {"kind"}))) throw broken_head(source, "kind must be text");
  if (!is_name(at_path(object, {"apiVersion"}))) throw broken_head(source, "apiVersion must be text");
  if (!is_name(at_path(object, {"metadata", "name"})))
    throw broken_head(source, "metadata.name must be text");
  for (const char* key : {"labels", "annotations"}) {
    const json& pairs = at_path(object, {"metadata", key});
    if (!pairs.is_null() && !pairs.is_object())
      throw broken_head(source, fmt::format("metadata.{} must be a map", key));
  }
}

void check_owner(const json& owner, const std::string& run, const std::string& source) {
  check_head(owner, source);
  if (owner["kind"] == "ConfigMap" && owner["metadata"]["name"] == run) return;
  throw broken_head(source,
                    fmt::format("the owner must be the ConfigMap {}: mlk finds the run by this name", run));
}

void check_pod(const json& pod, const std::string& run, const std::string& source) {
  check_label(pod, "the pod", run, source);
}

void check_job(const json& job, const std::string& run, const std::string& source) {
  check_head(job, source);
  check_label(job, "the Job", run, source);
  check_pod(at_path(job, {"spec", "template"}), run, source);
}

void check_distinct(const json& owner, const std::vector<json>& objects) {
  std::set<std::pair<json, json>> known{{owner["kind"], owner["metadata"]["name"]}};
  for (const json& object : objects) {
    const json &kind = object["kind"], &name = object["metadata"]["name"];
    if (known.emplace(kind, name).second) continue;
    throw Error(ExitCode::usage, fmt::format("patches and templates make two objects {} {}",
                                             kind.get<std::string>(), name.get<std::string>()));
  }
}

}  // namespace mlk
