// Experiment + templates -> the Kubernetes objects of a run, in the order of their creation. Pure. They
// belong to nobody yet: own() (own.h) gives them to the owner.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/experiment/experiment.h"
#include "cli/render/code.h"
#include "cli/render/identity.h"
#include "cli/render/templates.h"
#include "cli/render/user.h"

namespace mlk {

// The user's files that travel with a run, read by the caller.
struct FileContents {
  std::map<std::string, std::map<std::string, std::string>>
      folders;  // entry of `data:` -> file name -> bytes
  std::optional<CodeArchive> code{};
  std::string image{};  // built for them, "repository@digest": it stands in place of the experiment's
  std::string python_on_machine{};      // with --local: the folder with the packages of code.python
  std::vector<std::string> warnings{};  // for people
  UserFacts user{};                     // as whom the pods can run
};

struct RenderOptions {
  std::string name_space;
  std::string version;  // of mlk, for the record
  int attempt = 1;      // --again: 2, 3 ... are appended to the run's name
  bool local = false;   // for the embedded cluster, which runs programs of this machine and needs no image
  int local_gpus = 0;   // of this machine
  // Name and hash, if the experiment alone does not decide them: those of a sweep.
  std::optional<Identity> identity{};
  // The run or sweep whose copies of the files the pods mount, its code too; empty: its own.
  std::string files_of{};
  // Value of the run's key, 64 hexadecimal digits. Empty: a placeholder that says so.
  std::string secret;
};

// The image of an experiment that names none: on this machine every image is the machine itself.
inline constexpr char local_image[] = "mlk-runtime:local";

struct Rendered {
  std::string run;       // "<name>-<5>"
  std::string hash;      // sha256 of the identity of the run; label mlk.dev/hash holds its first 16 digits
  nlohmann::json owner;  // ConfigMap <run>
  std::vector<nlohmann::json> objects;  // the rest, in order
  std::vector<std::string> warnings;    // for people: "no checkpoint volume: ..."
};

Rendered render(const Experiment& experiment, const FileContents& files, const Templates& templates,
                const RenderOptions& options);

// sha256 of each file that travels with the run: {"<entry>": {"<file>": "<digest>"}}, and of the code, as
// {"code.tar": "<digest>"}: no entry has a dot in its name. Throws Error{usage} for files that cannot travel.
nlohmann::json digests_of(const Experiment& experiment, const FileContents& files);

// The configuration of the bundled runtime (runtime/CONTRACT.md), of an experiment with `train:`.
nlohmann::json runtime_config(const Experiment& experiment);

}  // namespace mlk
