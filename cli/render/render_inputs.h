// The inputs of rendering other than the experiment and the templates.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/render/code.h"
#include "cli/render/identity.h"
#include "cli/render/user.h"

namespace mlk {

// The user's files that are sent with a run; the caller has read them.
struct FileContents {
  std::map<std::string, std::map<std::string, std::string>>
      folders;  // entry of `data:` -> file name -> bytes
  std::optional<CodeArchive> code{};
  std::string image{};  // "repository@digest" that mlk has built or found; replaces the experiment's image
  std::string python_on_machine{};      // with --local: the folder with the packages of code.python
  std::vector<std::string> warnings{};  // for people
  UserFacts user{};                     // the facts that decide the user of the pods
  std::string outputs_claim{};          // of `outputs:` without a volume of its own; empty: none
};

struct RenderOptions {
  std::string name_space;
  std::string version;  // of mlk, for the record
  int attempt = 1;      // --again: the run's name ends in -2, -3 ...
  bool local = false;   // for the embedded cluster, which runs programs of this machine and needs no image
  int local_gpus = 0;   // number of GPUs of this machine
  // The name and the hash of the run, if a sweep has chosen them. nullopt: identify() computes them.
  std::optional<Identity> identity{};
  // The run or sweep that holds the copies of files and code for the pods to mount; empty: the run itself.
  std::string files_of{};
  // Value of the run's key, 64 hexadecimal digits. Empty: the Secret gets a placeholder.
  std::string secret;
};

// The image of an experiment that names no image: on this machine, every image means the machine itself.
inline constexpr char local_image[] = "mlk-runtime:local";

}  // namespace mlk
