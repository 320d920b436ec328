// Packages of Python as a layer of an image: the machine's own pip chooses and unpacks wheels for the
// platform of the image, and nothing is compiled.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/image/layer.h"
#include "cli/image/manifest.h"

namespace mlk::image {

struct PythonTarget {
  Platform platform;
  std::string version;  // "3.11"
};

struct PythonPackages {
  std::filesystem::path requirements;
  PythonTarget target;
  std::filesystem::path cache;                     // a folder
  std::function<bool()> go_on{};                   // false: the user wants to stop
  std::function<void(const std::string&)> note{};  // what takes long, for people
};

// The packages below `prefix` ("mlk/python"). The list that pip resolves names the layer in the cache. Throws
// Error: usage for a file of requirements that cannot be satisfied by wheels, failure without pip.
Layer python_layer(const PythonPackages& packages, const std::string& prefix);

// The same as a folder of the cache, for programs of this machine.
std::filesystem::path python_folder(const PythonPackages& packages);

// The version of this machine's python3. Throws Error{failure} if there is none.
std::string own_python_version();

// Pure parts.

// What pip would install, sorted, from the report of `pip install --dry-run`. Throws Error{failure}.
struct Resolved {
  std::vector<std::string> packages;     // "name==version sha256:...": the name of the layer is made of these
  std::vector<std::string> constraints;  // "name==version", for pip
};
Resolved parse_pip_report(const std::string& report);

// The names of platforms that wheels may have, in pip's words, for glibc up to 2.28.
std::vector<std::string> wheel_platforms(const Platform& platform);

// "3.11" of "3.11.9"; empty if it is no version.
std::string minor_version(const std::string& version);

}  // namespace mlk::image
