// Writes an image to the disk of this machine, for tools that read it there.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "cli/image/compose.h"
#include "cli/registry/base.h"

namespace mlk::registry {

// Writes an OCI image layout (specification 1.1) into a folder that is empty or does not exist. `name`: the
// annotation ref.name of the image. `go_on`: returns false when the user wants to stop. Throws Error{usage}
// for a folder that is not empty, Error{failure} for a full disk, Error{interrupted}, and the errors of
// Registry.
void save_oci(const std::filesystem::path& folder, const std::string& name, const image::Composed& composed,
              const std::optional<FoundImage>& base, const std::function<bool()>& go_on = {});

// Writes an archive for `docker load` and `ctr images import`. Uses OutputFile. `name`: the tag of the image;
// empty: no tag.
void save_docker_archive(const std::filesystem::path& file, const std::string& name,
                         const image::Composed& composed, const std::optional<FoundImage>& base,
                         const std::function<bool()>& go_on = {});

}  // namespace mlk::registry
