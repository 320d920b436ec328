// What is rendered beside the experiment and the templates.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/render/code.h"
#include "cli/render/identity.h"
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

}  // namespace mlk
