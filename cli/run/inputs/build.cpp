#include "cli/run/inputs/build.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/image/python.h"
#include "cli/render/packages.h"
#include "cli/util/error.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/path_list.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using nlohmann::json;

// The PATH that container runtimes use if an image sets no PATH.
constexpr char usual_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

image::PythonPackages packages_of(const FileContents& files, image::PythonTarget target,
                                  const registry::Access& access) {
  return {.requirements = files.code->requirements,
          .target = std::move(target),
          .cache = image::layer_cache(),
          .go_on = access.go_on,
          .note = access.note};
}

std::string tag_made_of(const std::string& digest) {
  constexpr std::size_t algorithm = 7, digits = 12;  // lengths: of "sha256:", and of the digits in the tag
  return built_tag + digest.substr(algorithm, digits);
}

image::PythonTarget python_of(const Experiment& experiment, const registry::FoundImage& base,
                              const registry::Access& access) {
  const std::string by_image = variable_of(base.image.configuration, "PYTHON_VERSION");
  const std::string said = experiment.effective["code"].value("python_version", by_image);
  image::PythonTarget out{base.image.configuration.platform, image::minor_version(said)};
  if (out.version.empty())
    throw Error(ExitCode::usage,
                said.empty()
                    ? fmt::format("code.python: image {} does not say which Python it has", experiment.image)
                    : fmt::format("code.python: '{}' is no version of Python", printable(said)),
                "say it: code: {python_version: \"3.11\"}");
  out.full_version = image::full_version(said);
  if (out.full_version.empty() && image::minor_version(by_image) == out.version)
    out.full_version = image::full_version(by_image);
  const std::optional<image::Libc> libc = registry::libc_of(base);
  if (!libc && access.note)
    access.note(
        fmt::format("code.python: mlk finds no C library in the layers of image {} (it cannot read "
                    "layers of zstd), and takes wheels for glibc",
                    printable(base.reference.name())));
  out.libc = libc.value_or(image::Libc::glibc);
  return out;
}

}  // namespace

void note_base(FileContents& files, const Build& build) {
  if (!files.code || !build.base) return;
  const std::string of_base = variable_of(build.base->image.configuration, "PYTHONPATH");
  if (of_base.empty()) return;
  json source = json_or_null(files.code->source);
  source[base_python_path] = of_base;
  files.code->source = json_text(source);
}

bool needs_build(const Experiment& experiment, const FileContents& files) {
  return files.image.empty() && files.code &&
         (files.code->is_layer() || experiment.effective["code"].contains("python"));
}

registry::FoundImage find_base(const Experiment& experiment, const std::string& named,
                               const std::optional<image::Platform>& platform, const registry::Access& access,
                               const std::function<void(const registry::FoundImage&)>& know_layers) {
  const std::string& image = named.empty() ? experiment.image : named;
  if (image.empty())
    throw Error(ExitCode::usage, "no base image is named for the code",
                "name one that has what the program needs: image: in the file, or --base");
  return find_image(access, image::parse_reference(image), platform, know_layers);
}

Build assemble(const Experiment& experiment, const FileContents& files, registry::FoundImage base,
               const registry::Access& access) {
  Build out;
  out.base = std::move(base);
  std::vector<image::Addition> additions;
  image::Settings settings;
  if (files.code && experiment.effective["code"].contains("python")) {
    additions.push_back({python_layer(packages_of(files, python_of(experiment, *out.base, access), access),
                                      python_folder + 1),
                         "python"});
    const image::Configuration& below = out.base->image.configuration;
    const std::string path = variable_of(below, "PATH");
    settings.env.emplace_back("PYTHONPATH", path_first(python_folder, variable_of(below, "PYTHONPATH")));
    settings.env.emplace_back("PATH", path_first(python_scripts, path.empty() ? usual_path : path));
  }
  if (files.code && files.code->is_layer()) {
    const std::optional<image::Layer> layer = image::find_layer(files.code->layer_file);
    if (!layer)
      throw Error(ExitCode::failure, "the layer of the code is gone from " + files.code->layer_file,
                  "type the command again");
    additions.push_back({*layer, "code"});
    settings.workdir = code_folder;
  }
  out.composed = image::compose(out.base->image, additions, settings);
  return out;
}

image::Reference repository_of(const std::string& typed, const std::string& registry,
                               const std::string& name) {
  if (!typed.empty()) {
    image::Reference out = image::parse_reference(typed);
    if (!out.digest.empty())
      throw Error(ExitCode::usage, "-t names a digest, which the image gives itself", "name a tag, or none");
    return out;
  }
  if (registry.empty())
    throw Error(ExitCode::usage, "no repository is named for the image",
                "name it: -t registry.example/team/trainer:1, registry: in the file, or MLK_REGISTRY");
  return image::parse_repository(registry + "/" + name);
}

image::Reference target_of(const std::string& typed, const std::string& registry, const std::string& name,
                           const Build& build) {
  image::Reference out = repository_of(typed, registry, name);
  if (typed.empty()) out.tag = tag_made_of(build.composed.digest);
  return out;
}

bool is_built_tag(const std::string& tag, const std::string& digest) { return tag == tag_made_of(digest); }

std::string runtime_reference(const std::string& registry, const std::string& version) {
  return image::parse_repository(registry + "/mlk-runtime").name() + ":" + version;
}

std::optional<image::Platform> platform_of_nodes(const std::vector<json>& nodes,
                                                 const Experiment& experiment) {
  constexpr char os_label[] = "kubernetes.io/os", architecture_label[] = "kubernetes.io/arch";
  const json selector = experiment.effective["scheduling"]["node"].value("selector", json::object());
  std::set<std::string> there;
  for (const json& node : nodes) {
    const json& labels = at_path(node, {"metadata", "labels"});
    const auto label = [&](const std::string& name) { return at_path(labels, {name.c_str()}); };
    const bool chosen =
        std::all_of(selector.items().begin(), selector.items().end(),
                    [&](const auto& wanted) { return label(wanted.key()) == wanted.value(); });
    const bool is_linux = !labels.contains(os_label) || label(os_label) == "linux";
    const std::string architecture = text_of(labels, {architecture_label});
    if (chosen && is_linux && !architecture.empty()) there.insert(architecture);
  }
  if (there.size() != 1) return std::nullopt;
  return image::Platform{"linux", *there.begin(), ""};
}

ImageUser user_of(const image::Configuration& configuration) {
  return {text_of(configuration.whole, {"config", "User"}), variable_of(configuration, "HOME")};
}

std::optional<ImageUser> ask_user_of_image(const std::string& image, registry::Access access,
                                           std::string& why) {
  access.is_patient = false;
  access.note = {};
  try {
    const registry::FoundImage found = find_image(access, image::parse_reference(image), std::nullopt);
    return user_of(found.image.configuration);
  } catch (const Error& error) {
    why = error.code() == ExitCode::interrupted ? "its registry is slow" : error.what();
    return std::nullopt;
  }
}

void prepare_on_machine(const Experiment& experiment, FileContents& files, const registry::Access& access) {
  if (!files.code || !experiment.effective["code"].contains("python") || !files.python_on_machine.empty())
    return;
  image::PythonTarget target = image::own_python();
  target.platform = registry::own_platform();
  files.python_on_machine = image::python_folder(packages_of(files, target, access)).string();
  json source = json_or_null(files.code->source);
  source["python"] = files.python_on_machine;
  files.code->source = json_text(source);
}

}  // namespace mlk
