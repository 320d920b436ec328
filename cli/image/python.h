// Packages of Python as a layer of an image: the machine's own pip chooses and unpacks wheels for the Python
// and the platform of the image; nothing is built, and nothing of the user's folder is executed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/image/layer.h"
#include "cli/image/manifest.h"
#include "cli/image/pip.h"

namespace mlk::image {

struct PythonPackages {
  std::filesystem::path requirements;
  PythonTarget target;
  std::filesystem::path cache;                     // a folder
  std::function<bool()> go_on{};                   // false: the user wants to stop
  std::function<void(const std::string&)> note{};  // what takes long, for people
};

inline constexpr char scripts_folder[] = "bin";  // in the folder of the packages: their programs

// The packages below `prefix` ("mlk/python"). The list that pip resolves, with a digest of each package,
// names the layer in the cache. Throws Error: usage for requirements that cannot be satisfied by wheels or
// would execute something here, failure without pip.
Layer python_layer(const PythonPackages& packages, const std::string& prefix);

// The same as a folder of the cache, for programs of this machine.
std::filesystem::path python_folder(const PythonPackages& packages);

// The names of platforms that wheels may have, in pip's words, for glibc up to 2.28 or musl up to 1.2. Pure.
std::vector<std::string> wheel_platforms(const Platform& platform, Libc libc);

}  // namespace mlk::image
