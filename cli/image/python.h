// Packages of Python as a layer of an image. The machine's own pip chooses and unpacks wheels for the Python
// and the platform of the image. pip builds nothing, and executes nothing from the user's folder.
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
  std::filesystem::path cache;                     // the folder for layers
  std::function<bool()> go_on{};                   // false: the user wants to stop
  std::function<void(const std::string&)> note{};  // reports slow steps to the user
};

inline constexpr char scripts_folder[] = "bin";  // for programs, inside the folder of the packages

// A layer with the packages below `prefix` ("mlk/python"). The name of the layer in the cache depends on the
// platform, the Python version, and the names, versions and digests of the packages that pip resolves. Throws
// Error{usage} if wheels cannot satisfy the requirements, if pip would execute code of a package on this
// machine, or if a marker depends on an unknown value. Throws Error{failure} if there is no pip, or if pip
// fails for another reason.
Layer python_layer(const PythonPackages& packages, const std::string& prefix);

// Installs the packages into a folder of the cache, for programs that run on this machine. Throws as
// python_layer().
std::filesystem::path python_folder(const PythonPackages& packages);

// The platform names that wheels for an image may have, as pip writes them, for glibc up to 2.28 or musl up
// to 1.2. Pure.
std::vector<std::string> wheel_platforms(const Platform& platform, Libc libc);

}  // namespace mlk::image
