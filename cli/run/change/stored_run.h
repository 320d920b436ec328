// Reads the stored experiment, files and code of a run, which are enough to submit the run again.
#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/registry/registry.h"
#include "cli/render/render.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

struct StoredRun {
  std::string run;
  std::string hash;           // the label mlk.dev/hash
  nlohmann::json experiment;  // as Experiment::effective
  nlohmann::json digests;     // of the files that travelled, as digests_of() returns them
  std::string code;           // digest; empty: the run has no code
  std::string code_source;    // CodeArchive::source
  std::string image;          // of its pods
};

// Reads the stored run from its owner. Throws Error{failure} if the owner does not describe the run.
StoredRun read_stored(const nlohmann::json& owner);

// Fetches the owner and reads it. Throws Error{not_found}, Error{usage} for a sweep or a trial, and the
// errors of read_stored().
StoredRun fetch_stored(kube::Client& client, const std::string& name_space, const std::string& run);

// Fetches the files that travelled with the run, including its code, in the form that a new submit needs.
// Code in a layer stays in the image. Throws Error{not_found} if a file is gone, and Error{failure} if the
// code was changed.
FileContents fetch_stored_files(kube::Client& client, const std::string& name_space, const StoredRun& run);

// Fetches the code of a run as a tar archive: from its ConfigMap, its image, or the cache of this machine.
// Throws the errors of fetch_stored_files() and of Registry.
std::string fetch_code(kube::Client& client, const std::string& name_space, const StoredRun& run,
                       const registry::Access& access);

// Decodes the files in the binaryData of a ConfigMap. Throws Error{failure} if a value is not base64, or if a
// name is not a file name.
std::map<std::string, std::string> files_in(const nlohmann::json& config_map);

}  // namespace mlk
