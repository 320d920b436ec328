#include "cli/run/stored.h"

#include <stdexcept>

#include "cli/image/code.h"
#include "cli/image/gzip.h"
#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/render/code.h"
#include "cli/run/facts.h"
#include "cli/run/find.h"
#include "cli/run/labels.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using nlohmann::json;

json config_map(kube::Client& client, const std::string& name_space, const std::string& name,
                const StoredRun& run) {
  std::optional<json> map = client.find(kube::resources::config_maps, name_space, name);
  if (!map) throw Error(ExitCode::not_found, "configmap/" + name + " of run " + run.run + " is gone");
  return *std::move(map);
}

}  // namespace

std::map<std::string, std::string> files_in(const json& map) {
  std::map<std::string, std::string> out;
  const json& binary = at_path(map, {"binaryData"});
  if (!binary.is_object()) return out;
  for (const auto& [file, encoded] : binary.items()) {
    try {
      out[file] = base64_decode(encoded.is_string() ? encoded.get<std::string>() : "");
    } catch (const std::invalid_argument&) {
      throw Error(ExitCode::failure, "configmap/" + kube::name_of(map) + ": " + file + " is not base64");
    }
  }
  return out;
}

StoredRun read_stored(const json& owner) {
  StoredRun out;
  out.run = kube::name_of(owner);
  if (!is_label(out.run)) throw Error(ExitCode::failure, "a run cannot have the name " + printable(out.run));
  out.hash = kube::label_of(owner, labels::hash);
  out.experiment = json_or_null(text_of(owner, {"data", "experiment"}));
  if (!out.experiment.is_object() || out.experiment.empty())
    throw Error(ExitCode::failure, "the record of run " + out.run + " does not have its experiment");
  out.digests = json_or_null(text_of(owner, {"data", "digests"}));
  out.code = text_of(out.digests, {code_file});
  out.code_source = text_of(owner, {"data", "code"});
  return out;
}

StoredRun fetch_stored(kube::Client& client, const std::string& name_space, const std::string& run) {
  const json owner = client.get(kube::resources::config_maps, name_space, run);
  if (is_sweep(owner))
    throw Error(ExitCode::usage, run + " is a sweep, which is many experiments",
                "the experiment of its best trial: mlk best " + run + " -o experiment");
  if (is_trial(owner)) throw Error(ExitCode::usage, run + " is a trial: its files are those of its sweep");
  return read_stored(owner);
}

FileContents fetch_stored_files(kube::Client& client, const std::string& name_space, const StoredRun& run) {
  FileContents out;
  for (const json& entry : at_path(run.experiment, {"data"})) {
    if (!entry.contains("files")) continue;
    const std::string name = text_of(entry, {"name"});
    out.folders[name] = files_in(config_map(client, name_space, run.run + "-data-" + name, run));
  }
  if (!run.code.empty())
    out.code = CodeArchive{
        .digest = run.code, .bytes = fetch_code(client, name_space, run), .source = run.code_source};
  return out;
}

std::string fetch_code(kube::Client& client, const std::string& name_space, const StoredRun& run) {
  const std::string name = code_map_name({.digest = run.code, .bytes = ""});
  std::map<std::string, std::string> files = files_in(config_map(client, name_space, name, run));
  if (sha256_hex(image::gunzip(files[code_archive_file], image::longest_tar)) != run.code)
    throw Error(ExitCode::failure,
                "configmap/" + name + " was changed: it is not the code of run " + run.run);
  return std::move(files[code_archive_file]);
}

}  // namespace mlk
