// Renders the objects of a detached sweep's driver: the Job that runs mlk, and ConfigMaps with the input of
// mlk. With this input the driver makes the same decisions as a driver on the machine where the sweep was
// started. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/render/identity.h"
#include "cli/render/limits.h"
#include "cli/run/inputs/prepare.h"
#include "sweeps/search/definition.h"

namespace mlk::sweeps {

inline constexpr char driver_account[] = "mlk-driver";  // the ServiceAccount
inline constexpr std::size_t longest_input_part = most_config_map_bytes;
inline constexpr int most_input_parts = 32;

// The input of `mlk sweep`: everything that decides the identity and the points of the sweep. Reading the
// input again gives the same sweep.
struct DriverInput {
  std::string version;  // of the mlk that wrote it
  ExperimentFile file;
  Overrides overrides;
  std::vector<std::string> parameters;  // words of the command line
  std::vector<std::string> folders;     // entries of `data:` whose files travel with the sweep
  std::string code{};                   // digest of the code that travels; empty if no code travels
  std::string python_files{};           // CodeArchive::python_files
  std::string image_built{};            // FileContents::image
  UserFacts user{};                     // FileContents::user
  std::string outputs_claim{};          // FileContents::outputs_claim
  bool code_in_image = false;           // CodeArchive::is_layer()
  std::string code_on_machine{}, python_on_machine{};  // as in CodeArchive and FileContents
  std::map<std::string, std::string> texts;            // as in CarriedFiles
  std::map<std::string, std::string> own_templates;    // path -> text, the user's own templates
  std::string image;                                   // of the driver
  bool local = false;                                  // the driver runs on the embedded cluster
  Identity sweep;                                      // of the sweep that the driver drives
  std::string files_of;      // the trials mount the ConfigMaps "<files_of>-data-..." with copies of files
  std::string defined_as{};  // the name that the mlk of `version` computes for the definition
};

std::string to_text(const DriverInput& input);
// Throws Error{failure} if the text is not an input in the format of this mlk.
DriverInput parse_driver_input(std::string_view text);

// Defines the sweep of the input. `templates`: the result of templates_of(); `files`: the contents of the
// entries that the input names, and the sweep's code. Throws Error{failure} if this version of mlk computes
// another name of the sweep than the version that wrote the input.
Definition definition_of(const DriverInput& input, const FileContents& files, const Templates& templates);
// Fills in `defined_as`. Call this function last, directly before to_text().
void fill_defined_as(DriverInput& input, const FileContents& files);

// A short hash of the input. The names of the driver's objects contain it.
std::string key_of_input(std::string_view text);

Templates templates_of(const DriverInput& input);
// `files`: the contents of the entries that the input names, and the sweep's code.
PrepareOptions options_of(const DriverInput& input, FileContents files);

// "digits-abcde-driver-fghij"
std::string driver_name(const std::string& sweep, const std::string& key);
// "digits-abcde-driver-fghij-0"
std::string input_part_name(const std::string& sweep, const std::string& key, int part);

// The ConfigMaps that contain the input, in order. Throws Error{usage} if the input needs too many
// ConfigMaps.
std::vector<nlohmann::json> input_objects(const nlohmann::json& owner, const std::string& text);

struct DriverPlace {
  std::string name_space;
  std::string
      kubeconfig;  // only for the embedded cluster, whose pods have no ServiceAccount; otherwise empty
};

// The driver's Job, still without an owner. Throws Error{usage} if the template does not make this Job.
nlohmann::json render_driver(const Definition& definition, const DriverInput& input,
                             const Templates& templates, const DriverPlace& place);

}  // namespace mlk::sweeps
