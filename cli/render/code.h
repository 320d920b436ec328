// Brings the user's code into the pods of a run. Small code is in a ConfigMap, whose name has the digest of
// the code; larger code is in a layer of the image or, with --local, on this machine. If the code is not in
// the image, each pod unpacks it into a folder of the pod before the program starts. This file also has the
// other preparations before the start of a program. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/experiment/experiment.h"

namespace mlk {

inline constexpr char in_image_already[] = "-";

// The folder of `code:`, packed by the caller.
struct CodeArchive {
  std::string digest;                // sha256 of the files, hexadecimal
  std::string bytes;                 // tar, gzip; empty if no ConfigMap has to be created for the code
  std::string source{};              // the origin of the code, as JSON, for the record; empty: unknown
  std::vector<std::string> files{};  // the paths of the files, sorted by their bytes
  // `layer_file` and `on_machine` are used if the code is too large for a ConfigMap, or if the experiment
  // asks for a layer. At most one of `layer_file` and `on_machine` is set.
  std::string layer_file{};    // file of the image layer with the code; "-": the image has the layer already
  std::string on_machine{};    // with --local: the folder that holds the archive
  std::string requirements{};  // the file of code.python, on this machine
  std::string python_files{};  // digest of the files that `requirements` names outside of the code, or empty

  bool is_layer() const { return !layer_file.empty(); }
};

// The name of the ConfigMap, "mlk-code-<16 digits of the digest>". Runs with the same code share the
// ConfigMap.
std::string code_map_name(const CodeArchive& code);

// The values of ${code...} in the template of the ConfigMap: the name, the digest, and the archive in base64.
nlohmann::json code_scope(const CodeArchive& code);

inline constexpr char code_file[] = "code.tar";             // name of the code in the record of a run
inline constexpr char python_files_name[] = "code.python";  // name of python_files in the record
inline constexpr char code_archive_file[] = "code.tar.gz";  // name of the archive in the ConfigMap
inline constexpr char code_mount[] = "/etc/mlk/code";       // mount path of the ConfigMap
inline constexpr char code_folder[] = "/mlk/code";          // the program starts here and may write here
inline constexpr char python_folder[] = "/mlk/python";      // folder of the packages from code.python

// The words that a container executes for `command`, a program of `run:`. First the image's sh prepares the
// container. With `checkpoint.volume`, sh makes the folder for checkpoints. With an archive, sh unpacks the
// code with tar, or else python3, and executes the command in the folder of the code or in its subfolder
// `workdir`. If nothing must be prepared, the container executes the command directly, without sh.
std::vector<std::string> prepared(const Experiment& experiment, const std::optional<CodeArchive>& code,
                                  const std::vector<std::string>& command);

}  // namespace mlk
