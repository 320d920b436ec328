#include "cli/run/change/stored_run.h"

#include <filesystem>
#include <stdexcept>

#include "cli/code/code.h"
#include "cli/image/gzip.h"
#include "cli/image/open_file.h"
#include "cli/image/reference.h"
#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/registry/base.h"
#include "cli/render/code.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/path_part.h"
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

// Reads the archive of the run's code from its ConfigMap, and checks the digest.
std::string fetch_archive(kube::Client& client, const std::string& name_space, const StoredRun& run) {
  const std::string name = code_map_name({.digest = run.code, .bytes = ""});
  std::map<std::string, std::string> files = files_in(config_map(client, name_space, name, run));
  if (sha256_hex(image::gunzip(files[code_archive_file], image::longest_tar)) != run.code)
    throw Error(ExitCode::failure,
                "configmap/" + name + " was changed: it is not the code of run " + run.run);
  return std::move(files[code_archive_file]);
}

bool is_digest_of(const std::string& reference) {
  const std::size_t at = reference.find('@');
  return at != reference.npos && image::is_digest(std::string_view(reference).substr(at + 1));
}

// Reads the archive of the code that --local stores on this machine.
std::string read_kept(const std::filesystem::path& file, const StoredRun& run) {
  const std::optional<image::Layer> kept = image::find_layer(file);
  if (!kept) throw Error(ExitCode::not_found, file.string() + ", the code of run " + run.run + ", is gone");
  std::string out;
  image::read_whole(file, kept->blob.size, [&](std::string_view part) { out += part; });
  return out;
}

std::string code_in_image(const StoredRun& run, const registry::Access& access) {
  const registry::FoundImage found = find_image(access, image::parse_reference(run.image), std::nullopt);
  for (const image::Descriptor& layer : found.image.manifest.layers) {
    if (layer.purpose != "code") continue;
    const std::string bytes = found.registry->blob(found.reference.repository, layer, image::longest_tar);
    return image::archive_of_layer(image::gunzip(bytes, image::longest_tar), code_folder + 1);
  }
  throw Error(ExitCode::failure, "image " + run.image + " has no layer of code");
}

// Checks the folder and file names in a recorded experiment, since another user of the cluster may have
// written the record. Returns the mistake; empty if there is none.
std::string wrong_with_places(const json& experiment) {
  if (experiment.contains("code")) {
    if (text_of(experiment, {"code", "path"}).empty()) return "code.path is not the name of a folder";
  }
  if (!experiment.contains("data")) return "";
  if (!experiment["data"].is_array()) return "data is not a list";
  for (const json& entry : experiment["data"]) {
    if (!entry.is_object()) return "an entry of data is not an object";
    const json name = entry.value("name", json());
    if (!name.is_string() || !is_label(name.get<std::string>())) return "an entry of data has no name";
    if (entry.contains("files") && text_of(entry, {"files"}).empty())
      return "data '" + name.get<std::string>() + "': files is not the name of a folder";
  }
  return "";
}

bool is_code_digest(const std::string& text) { return image::is_digest("sha256:" + text); }

}  // namespace

std::map<std::string, std::string> files_in(const json& map) {
  std::map<std::string, std::string> out;
  const json& binary = at_path(map, {"binaryData"});
  if (!binary.is_object()) return out;
  for (const auto& [file, encoded] : binary.items()) {
    if (!is_path_part(file))
      throw Error(ExitCode::failure, "configmap/" + printable(kube::name_of(map)) + ": " + printable(file) +
                                         " is not the name of a file");
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
  if (const std::string wrong = wrong_with_places(out.experiment); !wrong.empty())
    throw Error(ExitCode::failure, "the record of run " + out.run + " was changed: " + wrong);
  out.digests = json_or_null(text_of(owner, {"data", "digests"}));
  out.code = text_of(out.digests, {code_file});
  if (!out.code.empty() && !is_code_digest(out.code))
    throw Error(ExitCode::failure, "the record of run " + out.run + " was changed: its code has no digest");
  if (!out.code.empty() && !out.experiment.contains("code"))
    throw Error(ExitCode::failure, "the record of run " + out.run + " was changed: it has no code");
  out.code_source = text_of(owner, {"data", "code"});
  out.image = kube::annotation_of(owner, "mlk.dev/image");
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
  if (is_digest_of(run.image)) out.image = run.image;  // a tag may name another image by now
  if (run.code.empty()) return out;
  const json source = json_or_null(run.code_source);
  out.code = CodeArchive{.digest = run.code,
                         .bytes = "",
                         .source = run.code_source,
                         .python_files = text_of(run.digests, {python_files_name})};
  out.python_on_machine = text_of(source, {"python"});
  if (at_path(source, {"layer"}) == true) {
    out.code->layer_file = in_image_already;
  } else if (out.code->on_machine = text_of(source, {"folder"}); out.code->on_machine.empty()) {
    out.code->bytes = fetch_archive(client, name_space, run);
  }
  for (const std::string& folder : {out.code->on_machine, out.python_on_machine}) {
    std::error_code error;
    if (!folder.empty() && !std::filesystem::is_directory(folder, error))
      throw Error(ExitCode::not_found,
                  folder + ", which run " + run.run + " needs, is gone from this machine",
                  "submit the folder of its code again");
  }
  return out;
}

std::string fetch_code(kube::Client& client, const std::string& name_space, const StoredRun& run,
                       const registry::Access& access) {
  const json source = json_or_null(run.code_source);
  std::string tar;
  if (at_path(source, {"layer"}) == true) {
    tar = code_in_image(run, access);
  } else if (const std::string folder = text_of(source, {"folder"}); !folder.empty()) {
    tar =
        image::gunzip(read_kept(std::filesystem::path(folder) / code_archive_file, run), image::longest_tar);
  } else {
    return image::gunzip(fetch_archive(client, name_space, run), image::longest_tar);
  }
  if (sha256_hex(tar) != run.code)
    throw Error(ExitCode::failure, "the stored code of run " + run.run + " was changed");
  return tar;
}

}  // namespace mlk
