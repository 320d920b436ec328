#include "cli/render/code.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/hash.h"

namespace mlk {

using nlohmann::json;

namespace {

// $0: the archive; $1: the folder; $2: the folder in it where the command starts; then the command. Without
// `$(` and `$$`, which Kubernetes would replace.
constexpr char unpack[] =
    "said=`{ tar -xzof \"$0\" -C \"$1\" || python3 -c "
    "'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \"$0\" \"$1\"; } 2>&1` || {\n"
    "  echo \"mlk: the code of the run cannot be unpacked; the image needs tar with gzip, or python3: "
    "$said\" >&2\n"
    "  exit 126\n"
    "}\n"
    "cd \"$1/$2\" || exit 126\n"
    "shift 2\n"
    "exec \"$@\"";

}  // namespace

std::string code_map_name(const CodeArchive& code) {
  constexpr std::size_t digits = 16;
  return fmt::format("mlk-code-{}", code.digest.substr(0, digits));
}

json code_scope(const CodeArchive& code) {
  return {{"name", code_map_name(code)}, {"digest", code.digest}, {"archive", base64_encode(code.bytes)}};
}

std::vector<std::string> with_code(const Experiment& experiment, const std::optional<CodeArchive>& code,
                                   const std::vector<std::string>& command) {
  if (!code || code->is_layer()) return command;
  const std::string workdir = experiment.effective.value("workdir", ".");
  std::vector<std::string> out{
      "/bin/sh", "-c", unpack, fmt::format("{}/{}", code_mount, code_archive_file), code_folder, workdir};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

}  // namespace mlk
