#include "cli/run/inputs/prepare.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/code/code.h"
#include "cli/code/repository.h"
#include "cli/code/stays.h"
#include "cli/render/limits.h"
#include "cli/run/inputs/missing_files.h"
#include "cli/run/inputs/python_files.h"
#include "cli/util/error.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "cli/yaml/yaml.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

// Returns the mistake if the folder is missing or is a file; else empty. This early check lets mlk report the
// mistake together with the other mistakes of the experiment file.
std::string wrong_with_folder(const fs::path& beside, const std::string& folder) {
  const fs::path path = beside / folder;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    return "there is no folder " + path.string() + "; it is relative to the experiment file";
  if (fs::is_regular_file(status)) return path.string() + " is a file, not a folder";
  return "";
}

UserFiles user_files(const ExperimentFile& file, const std::vector<std::string>& allowed) {
  return {.folder = file.folder, .allowed = {allowed.begin(), allowed.end()}};
}

// The origin of the code in the record of a run, as JSON. It is not a part of the run's identity.
std::string source_of(const std::string& named, const CodeArchive& code,
                      const std::optional<image::Revision>& revision) {
  nlohmann::json source = {{"path", named}};
  if (code.is_layer()) source["layer"] = true;
  if (!code.on_machine.empty()) source["folder"] = code.on_machine;
  if (revision) {
    source["commit"] = revision->commit;
    source["branch"] = revision->branch;
    source["clean"] = revision->clean;
  }
  return json_text(source);
}

// The path of a file relative to the folder; empty if the file lies elsewhere. `follow`: also follows a
// symbolic link in the last part.
std::string path_in(const fs::path& folder, const fs::path& file, bool follow) {
  std::error_code error;
  const fs::path above = fs::canonical(file.has_parent_path() ? file.parent_path() : ".", error);
  if (error) return "";
  const fs::path real =
      follow ? fs::weakly_canonical(above / file.filename(), error) : above / file.filename();
  const fs::path way = real.lexically_relative(fs::weakly_canonical(folder, error));
  return way.empty() || *way.begin() == ".." ? "" : way.generic_string();
}

image::CodeLayers code_layers(const PrepareOptions& options) {
  return {.cache = image::layer_cache(), .prefix = code_folder + 1, .go_on = options.go_on};
}

// Stores code as a file in the cache if the code is too large for a ConfigMap, or is to be a layer.
void store_large(const PrepareOptions& options, const fs::path& folder, const image::Code& packed,
                 CodeArchive& code) {
  if (options.note && packed.size > image::long_to_compress)
    options.note(fmt::format("code: compressing {} in {} files", human_size(packed.size), code.files.size()));
  if (options.local) {
    const fs::path file = image::layer_cache() / ("code-" + packed.digest) / code_archive_file;
    image::write_archive(folder, packed, file, options.go_on);
    code.on_machine = fs::absolute(file.parent_path()).string();
  } else {
    const image::CodeLayers layers = code_layers(options);
    image::write_code_layer(folder, packed, layers);
    code.layer_file = layers.file_of(packed.digest).string();
  }
  code.bytes.clear();
}

// The folder in which mlk remembers the code that it has packed. Empty without a home folder: then mlk stores
// nothing.
fs::path packed_code_home() {
  const std::optional<fs::path> home = cache_home_if_any();
  return home ? *home / "code" : fs::path();
}

// Refuses the user's home folder as the folder of `code:`, since a home folder holds mail, keys and other
// work.
void refuse_home(const fs::path& folder) {
  const char* home = std::getenv("HOME");
  std::error_code error;
  if (home == nullptr || fs::path(home).relative_path().empty() || !fs::equivalent(folder, home, error))
    return;
  throw Error(ExitCode::usage, fmt::format("code: {} is your home folder", printable(folder.string())),
              "put the program and its experiment file into a folder of their own");
}

// `own_place`: files that are left out of the code, since the identity of a run already includes their
// relevant content. So a new comment in the experiment file does not change the identity of a run, and
// neither does one more point of a sweep.
void add_code(const std::vector<fs::path>& own_place, const UserFiles& from, const PrepareOptions& options,
              const Experiment& experiment, FileContents& files) {
  const nlohmann::json& code = experiment.effective["code"];
  const auto named = code.at("path").get<std::string>();
  const fs::path folder = user_folder(from, named, "code");
  image::TreeRules rules{.include = code.at("include").get<std::vector<std::string>>(),
                         .exclude = code.at("exclude").get<std::vector<std::string>>(),
                         .never = {}};
  for (const fs::path& file : own_place) {
    for (const bool follow : {false, true}) rules.never.push_back(path_in(folder, file, follow));
  }
  const bool shall = (code.value("layer", false) || options.all_code_is_layer) && !options.local;
  const bool can_be_large =
      options.local || options.all_code_is_layer || !registry_of(options, experiment).empty();
  if (shall && !can_be_large)
    throw Error(ExitCode::usage, "code.layer needs a registry for the image",
                "name one: registry: in the file, or export MLK_REGISTRY=registry.example/team");
  // Git reads the same files in parallel. The revision is needed only for the record of a run, so mlk does
  // not ask for it when it builds an image.
  refuse_home(folder);
  std::future<std::optional<image::Revision>> revision;
  if (!options.all_code_is_layer) revision = std::async(std::launch::async, image::revision_of, folder);
  std::future<std::vector<std::string>> tracked =
      std::async(std::launch::async, image::tracked_files, folder);
  image::Code packed = image::pack_code(
      folder, rules,
      {.most_bytes = shall ? 0 : most_config_map_bytes,
       .too_large = can_be_large ? image::TooLarge::has_no_archive : image::TooLarge::is_refused,
       .cache = packed_code_home(),
       .layers = shall ? std::optional(code_layers(options)) : std::nullopt});
  files.code = CodeArchive{
      .digest = packed.digest, .bytes = std::move(packed.archive), .files = std::move(packed.files)};
  files.warnings = std::move(packed.warnings);
  for (std::string& text : image::describe_what_stays(packed.tree, tracked.get()))
    files.warnings.push_back(std::move(text));
  if (code.contains("python")) {
    const auto requirements = code["python"].get<std::string>();
    if (!std::binary_search(files.code->files.begin(), files.code->files.end(),
                            fs::path(requirements).lexically_normal().generic_string()))
      throw Error(ExitCode::not_found, fmt::format("code.python: {} is no file of the code that travels",
                                                   printable(requirements)));
    files.code->requirements = fs::absolute(folder / requirements).lexically_normal().string();
    files.code->python_files =
        digest_of_python_files(from, {folder, files.code->requirements, files.code->files});
  }
  if (shall || files.code->bytes.empty()) store_large(options, folder, packed, *files.code);
  files.code->source = source_of(named, *files.code, revision.valid() ? revision.get() : std::nullopt);
}

void find_yaml_files(const fs::path& folder, std::vector<fs::path>& found) {
  visit_folder(folder, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    const bool is_folder = entry.is_directory(ignored) && !entry.is_symlink(ignored);
    if (is_folder) find_yaml_files(entry.path(), found);
    if (!is_folder && entry.path().extension() == ".yaml") found.push_back(entry.path());
  });
}

// The file that a shell creates for <(command) lies in no folder of the user, so paths in such a file are
// relative to the working folder.
fs::path folder_of_file(const fs::path& file) {
  std::error_code error;
  const std::string text = file.lexically_normal().string();
  const bool is_of_system = text.starts_with("/dev/");
  return is_of_system || fs::is_fifo(fs::status(file, error)) ? fs::path() : file.parent_path();
}

}  // namespace

ExperimentFile read_experiment_file(const std::string& path) {
  // Do not open /dev/stdin by its name: this would fail if standard input is a socket.
  if (path == "-") return {"<stdin>", "", read_descriptor(STDIN_FILENO, "standard input", longest_yaml)};
  return {path, folder_of_file(path), read_file(path, longest_yaml)};
}

ExperimentFile read_file_beside(const ExperimentFile& experiment, const PrepareOptions& options,
                                const std::string& named, const std::string& what, std::size_t limit) {
  const fs::path path = experiment.folder / named;
  if (options.carried) {
    const auto text = options.carried->texts.find(named);
    if (text == options.carried->texts.end())
      throw Error(ExitCode::not_found, what + ": " + named + " was not carried along");
    return {path.string(), path.parent_path(), text->second};
  }
  return {path.string(), path.parent_path(),
          read_user_file(user_files(experiment, options.allow_files), named, what, limit)};
}

FileContext file_context_of(const ExperimentFile& file, const PrepareOptions& options) {
  if (options.carried) return {.wrong_with_folder = {}, .manual = options.manual};
  return {.wrong_with_folder =
              [beside = file.folder](const std::string& folder) { return wrong_with_folder(beside, folder); },
          .manual = options.manual};
}

FileContents read_files(const ExperimentFile& file, const PrepareOptions& options,
                        const Experiment& experiment, const std::string& points) {
  if (options.carried) return options.carried->files;
  std::vector<fs::path> own_place{file.name};
  if (!points.empty()) own_place.push_back(file.folder / points);
  const UserFiles from = user_files(file, options.allow_files);
  FileContents files;
  files.user.on_machine = options.local;
  files.outputs_claim = options.outputs_claim;
  for (const DataEntry& entry : experiment.data) {
    if (!entry.files.empty())
      files.folders[entry.name] = read_user_folder(from, entry.files, "data '" + entry.name + "'");
  }
  if (experiment.effective.contains("code")) add_code(own_place, from, options, experiment, files);
  return files;
}

std::string registry_of(const PrepareOptions& options, const Experiment& experiment) {
  return experiment.effective.value("registry", options.registry);
}

Prepared prepare(const ExperimentFile& file, const PrepareOptions& options, const Templates& templates) {
  Prepared out;
  out.experiment = load_experiment(file.text, file.name, options.overrides, templates.names(),
                                   file_context_of(file, options));
  out.files = read_files(file, options, out.experiment);
  out.warnings = advice_on_program(out.experiment, out.files, file.folder);
  return out;
}

Templates load_templates() {
  Templates templates;
  const std::optional<fs::path> home = config_home_if_any();
  if (!home) return templates;
  const fs::path folder = *home / "templates";
  std::error_code error;
  if (!fs::is_directory(folder, error)) return templates;
  std::vector<fs::path> files;
  find_yaml_files(folder, files);
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    templates.add(path.lexically_relative(folder).string(),
                  Template{read_file(path, longest_yaml), path.string()});
  }
  return templates;
}

}  // namespace mlk
