// Builds images: an experiment's image with its code and its packages above it, and the image of the runtime.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/experiment.h"
#include "cli/image/compose.h"
#include "cli/registry/base.h"
#include "cli/registry/push.h"
#include "cli/render/render.h"

namespace mlk {

// What an image is made of, before it is sent anywhere. Its layers lie in the cache.
struct Build {
  std::optional<registry::FoundImage> base;
  image::Composed composed;
};

// Whether the run needs an image of its own: its code is a layer, or it has packages of Python.
bool needs_build(const Experiment& experiment, const FileContents& files);

// The image below the code. `named`: instead of the experiment's; the rest is that of find_image(). Throws
// Error: usage if none is named; and as find_image().
registry::FoundImage find_base(const Experiment& experiment, const std::string& named,
                               const std::optional<image::Platform>& platform, const registry::Access& access,
                               const std::function<void(const registry::FoundImage&)>& know_layers = {});

// Its layers, and those of the packages and the code. Throws as python_layer().
Build assemble(const Experiment& experiment, const FileContents& files, registry::FoundImage base,
               const registry::Access& access);

// Keeps with the code what the pods have to know of the image below it: they may extend its PYTHONPATH.
void note_base(FileContents& files, const Build& build);

// mlk-runtime and mlk as they are installed here, with the libraries that they need, on no base. `mlk`: the
// file of this program, beside which the others lie, or else in PATH. Throws Error{failure} if one is
// missing.
Build assemble_runtime(const std::filesystem::path& mlk);

// The repository to which the image goes: `typed` (-t), with its tag, or else one of the experiment's name in
// `registry`. Throws Error{usage} if neither is given.
image::Reference repository_of(const std::string& typed, const std::string& registry,
                               const std::string& name);

// The same with a tag: if none is typed, one that the digest of the image makes.
image::Reference target_of(const std::string& typed, const std::string& registry, const std::string& name,
                           const Build& build);

inline constexpr char built_tag[] = "mlk-";  // how tags begin that nobody has typed

// Whether the tag is the one that target_of() makes of this digest: one that people typed is none, even if it
// begins so. Pure.
bool is_built_tag(const std::string& tag, const std::string& digest);

// "registry.example/team/mlk-runtime:0.1.0". Throws Error{usage} for a registry that is none.
std::string runtime_reference(const std::string& registry, const std::string& version);

// The platform on which the pods of an experiment run, from the nodes of the cluster; nullopt: there are
// none, they differ without the experiment choosing among them, or the user may not see them. Pure.
std::optional<image::Platform> platform_of_nodes(const std::vector<nlohmann::json>& nodes,
                                                 const Experiment& experiment);

// As whom an image runs its programs.
ImageUser user_of(const image::Configuration& configuration);

// The same of a named image, from its registry: once, and within `access.go_on`. nullopt and `why`: it did
// not say. Throws no Error.
std::optional<ImageUser> ask_user_of_image(const std::string& image, registry::Access access,
                                           std::string& why);

// With --local: has the packages of Python in a folder of the cache.
void prepare_on_machine(const Experiment& experiment, FileContents& files, const registry::Access& access);

}  // namespace mlk
