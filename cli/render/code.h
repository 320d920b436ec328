// How the user's code reaches the pods of a run: a ConfigMap holds it, named by its digest, and each pod
// unpacks it into a folder of its own before its program starts; and what else is done before that. Pure.
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
  std::string bytes;                 // tar, gzip; empty where the ConfigMap is known to be there
  std::string source{};              // what is known of its origin, as JSON, for the record; empty: nothing
  std::vector<std::string> files{};  // their paths, in the order of their bytes
  // Where it is too large for a ConfigMap, or the experiment asks for it. At most one of them is set.
  std::string layer_file{};    // a layer of the image, in this file, or in the image already if that is "-"
  std::string on_machine{};    // with --local: the folder that holds its archive
  std::string requirements{};  // the file of code.python, on this machine

  bool is_layer() const { return !layer_file.empty(); }
};

// "mlk-code-<16 digits of the digest>": runs with the same code share it.
std::string code_map_name(const CodeArchive& code);

// The values of ${code...} in its template: name, digest and archive, which is base64.
nlohmann::json code_scope(const CodeArchive& code);

inline constexpr char code_file[] = "code.tar";             // what the record of a run calls it
inline constexpr char code_archive_file[] = "code.tar.gz";  // in its ConfigMap
inline constexpr char code_mount[] = "/etc/mlk/code";       // of the ConfigMap
inline constexpr char code_folder[] = "/mlk/code";          // in which the program starts; it may write there
inline constexpr char python_folder[] = "/mlk/python";      // packages of Python

// The words that a container executes for `command`, a program of `run:`. The image's sh does before what the
// program finds done: with `checkpoint.volume` it makes the folder for checkpoints; with an archive it
// unpacks the code by tar, or else python3, and executes the command in its folder or in `workdir`, a folder
// in that. Where there is nothing to do, no sh is needed.
std::vector<std::string> prepared(const Experiment& experiment, const std::optional<CodeArchive>& code,
                                  const std::vector<std::string>& command);

}  // namespace mlk
