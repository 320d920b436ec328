// Writes an image to the disk of this machine, for tools that take it from there.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "cli/image/compose.h"
#include "cli/registry/base.h"

namespace mlk::registry {

// An OCI image layout (specification 1.1) in a folder that is empty or not there; `name` becomes its
// ref.name. `go_on`: false when the user wants to stop. Throws Error: usage for a folder that holds
// something, failure for a disk that is full, interrupted.
void save_oci(const std::filesystem::path& folder, const std::string& name, const image::Composed& composed,
              const std::optional<FoundImage>& base, const std::function<bool()>& go_on = {});

// What `docker load` and `ctr images import` read; the file is written as OutputFile does.
void save_docker_archive(const std::filesystem::path& file, const std::string& name,
                         const image::Composed& composed, const std::optional<FoundImage>& base,
                         const std::function<bool()>& go_on = {});

}  // namespace mlk::registry
