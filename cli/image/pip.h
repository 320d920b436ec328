// The pip of this machine, as mlk calls it: in a folder of its own, with none of the settings that people
// have for their own installations, and with the environment of the image in place of this machine's.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/image/libc.h"
#include "cli/image/manifest.h"

namespace mlk::image {

// For whom packages are chosen.
struct PythonTarget {
  Platform platform;
  std::string version;         // "3.11"
  std::string full_version{};  // "3.11.4"; empty: not known
  // The values of markers where programs of this machine run them; empty: those of marker_environment().
  std::map<std::string, std::string> markers{};
  Libc libc = Libc::glibc;
};

// What markers of requirements (PEP 508) compare.
struct MarkerEnvironment {
  std::map<std::string, std::string> known;
  // Not known of an image: a marker is refused if its answer depends on one. Of each: how its value begins,
  // and values that it may have.
  struct Unknown {
    std::string begins;
    std::vector<std::string> samples;
  };
  std::map<std::string, Unknown> unknown;
};
MarkerEnvironment marker_environment(const PythonTarget& target);

// "x86_64" for amd64: what Linux and the names of wheels call it.
std::string machine_name(const std::string& architecture);

// The settings of pip that stay, as variables for it: where packages come from and how the network is
// reached. `listed`: what files of settings say, a line each: global.index-url='...'. `variables`:
// PIP_... of this process, which win. Relative paths are below `folder`.
using PipSettings = std::map<std::string, std::string>;
PipSettings kept_settings(const std::string& listed, const PipSettings& variables,
                          const std::filesystem::path& folder);

// Those of this user, of this process and of the files that pip reads. `folder`: of mlk's own, empty. Starts
// Python, so once is enough for all calls of pip. `go_on`, and throws: as run_pip().
PipSettings settings_of_user(const std::filesystem::path& folder, const std::function<bool()>& go_on);

struct PipCall {
  std::filesystem::path folder;    // of mlk's own, empty; also for its temporary files
  std::vector<std::string> words;  // after "pip"
  PipSettings settings;            // settings_of_user()
  std::function<bool()> go_on{};   // false: the user wants to stop
};

// Of one call that ended; what it said in pip's words.
struct PipResult {
  int exit_code = 0;
  std::string output, error;
  std::string refused_marker{};  // that decides by what is not known of the image
  bool would_build = false;      // it wanted to start git or a build: it was stopped before that
};

// Runs `pip` for the target, at most an hour. Throws Error: interrupted; failure if there is no python3.
PipResult run_pip(const PipCall& call, const PythonTarget& target);

// The target that is this machine's python3, but for the platform. Throws Error{failure} if there is none.
PythonTarget own_python();

// "3.11" of "3.11.9"; empty if it is no version.
std::string minor_version(const std::string& version);

// "3.11.9" itself; empty if it is not three numbers.
std::string full_version(const std::string& version);

}  // namespace mlk::image
