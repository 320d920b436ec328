// Builds images: an experiment's image with its code and packages as further layers, and the image of the
// runtime.
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

// The parts of an image before it is pushed. Its layers lie in the cache.
struct Build {
  std::optional<registry::FoundImage> base;
  image::Composed composed;
};

// Whether the run needs its own image: its code is a layer, or it has Python packages.
bool needs_build(const Experiment& experiment, const FileContents& files);

// Finds the base image, to which the code is added. `named`: if not empty, used instead of the experiment's
// image. The other parameters are those of find_image(). Throws Error{usage} if no image is named, and the
// errors of find_image().
registry::FoundImage find_base(const Experiment& experiment, const std::string& named,
                               const std::optional<image::Platform>& platform, const registry::Access& access,
                               const std::function<void(const registry::FoundImage&)>& know_layers = {});

// Composes the layers of the base, the packages and the code. Throws the errors of python_layer(), and
// Error{failure} if the layer of the code is gone from the cache.
Build assemble(const Experiment& experiment, const FileContents& files, registry::FoundImage base,
               const registry::Access& access);

// Adds the PYTHONPATH of the base image to CodeArchive::source, since the pods may have to extend this path.
void note_base(FileContents& files, const Build& build);

// Composes an image from mlk-runtime and mlk, as they are installed here, and from the libraries that they
// need. There is no base image. `mlk`: the file of this program. The other programs lie beside it, or else in
// PATH. Throws Error{failure} if a program is missing.
Build assemble_runtime(const std::filesystem::path& mlk);

// The repository to which the image is pushed: `typed` (-t), with its tag. If `typed` is empty, it is
// the repository in `registry` that has the name of the experiment. Throws Error{usage} if `registry` is
// empty, too.
image::Reference repository_of(const std::string& typed, const std::string& registry,
                               const std::string& name);

// The repository of repository_of(), with a tag. If the user has typed no tag, mlk makes the tag from the
// image's digest.
image::Reference target_of(const std::string& typed, const std::string& registry, const std::string& name,
                           const Build& build);

inline constexpr char built_tag[] = "mlk-";  // the beginning of tags that mlk makes

// Whether this is the tag that target_of() makes from this digest. The beginning "mlk-" does not prove this,
// since users may type such tags. Pure.
bool is_built_tag(const std::string& tag, const std::string& digest);

// The image of the runtime in `registry`: "registry.example/team/mlk-runtime:0.1.0". Throws Error{usage} if
// `registry` is not the name of a registry.
std::string runtime_reference(const std::string& registry, const std::string& version);

// The platform for the pods of an experiment, as the nodes of the cluster report it. nullopt if `nodes` has
// no platform, or several platforms among which the experiment does not choose. Pure.
std::optional<image::Platform> platform_of_nodes(const std::vector<nlohmann::json>& nodes,
                                                 const Experiment& experiment);

// The user as whom an image runs its programs, and this user's home folder.
ImageUser user_of(const image::Configuration& configuration);

// Asks the registry for the user of a named image, without a retry. Returns nullopt if the image could not be
// read, or if `access.go_on` has ended the request; `why` then has the reason. Throws no Error.
std::optional<ImageUser> ask_user_of_image(const std::string& image, registry::Access access,
                                           std::string& why);

// With --local: installs the Python packages in a folder of the cache.
void prepare_on_machine(const Experiment& experiment, FileContents& files, const registry::Access& access);

}  // namespace mlk
