// Calls the pip of this machine. pip runs in a folder of mlk's own, ignores the settings that users have for
// their own installations, and chooses packages for a PythonTarget, usually the Python of an image.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/image/libc.h"
#include "cli/image/manifest.h"

namespace mlk::image {

// The Python for which pip chooses packages.
struct PythonTarget {
  Platform platform;
  std::string version;         // "3.11"
  std::string full_version{};  // "3.11.4"; empty: unknown
  // The marker values of this machine, if this machine runs the packages. Empty: marker_environment()
  // computes the values for an image.
  std::map<std::string, std::string> markers{};
  Libc libc = Libc::glibc;
};

// The values for which markers of requirements (PEP 508) are evaluated.
struct MarkerEnvironment {
  std::map<std::string, std::string> known;
  // Values that mlk does not know for an image. mlk refuses a marker whose result depends on such a value.
  // `begins`: the known beginning of the value. `samples`: values with which mlk evaluates a marker.
  struct Unknown {
    std::string begins;
    std::vector<std::string> samples;
  };
  std::map<std::string, Unknown> unknown;
};
MarkerEnvironment marker_environment(const PythonTarget& target);

// "x86_64" for amd64: the name that Linux and the names of wheels use.
std::string machine_name(const std::string& architecture);

// The settings of the user that mlk passes to pip, as variables: the sources of packages and the access to
// the network. `listed`: the settings in pip's files, one per line, such as global.index-url='...'.
// `variables`: PIP_... of this process, which win over `listed`. Relative paths are below `folder`.
using PipSettings = std::map<std::string, std::string>;
PipSettings allowed_settings(const std::string& listed, const PipSettings& variables,
                             const std::filesystem::path& folder);

// Reads the variables of this process and pip's settings files, and returns their allowed_settings().
// `folder`: an empty folder of mlk's own. This function starts Python, so callers call it once for all calls
// of pip. `go_on` and errors are as for run_pip().
PipSettings settings_of_user(const std::filesystem::path& folder, const std::function<bool()>& go_on);

struct PipCall {
  std::filesystem::path folder;    // an empty folder of mlk's own; also for temporary files of pip
  std::vector<std::string> words;  // arguments after "pip"
  PipSettings settings;            // settings_of_user()
  std::function<bool()> go_on{};   // false: the user wants to stop
};

// The result of one call that has ended, with pip's own output.
struct PipResult {
  int exit_code = 0;
  std::string output, error;
  std::string refused_marker{};  // a marker whose result depends on an unknown value; empty: none
  bool would_build = false;      // pip tried to start git or a build, and mlk prevented it
};

// Runs pip for the target, for at most one hour. Throws Error{interrupted} if `go_on` returns false, and
// Error{failure} if there is no python3.
PipResult run_pip(const PipCall& call, const PythonTarget& target);

// This machine's python3 as a target, without a platform. Throws Error{failure} if there is no python3, or if
// it does not print its version.
PythonTarget own_python();

// "3.11" for "3.11.9"; empty if `version` is no version.
std::string minor_version(const std::string& version);

// `version` itself if it has three numbers, as in "3.11.9"; otherwise empty.
std::string full_version(const std::string& version);

}  // namespace mlk::image
