#include "cli/render/code.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/hash.h"

namespace mlk {

using nlohmann::json;

namespace {

// The scripts below have no `$(` and no `$$`, because Kubernetes would replace both.

// With this script, a program that cannot write checkpoints fails at once, and not hours later.
constexpr char make_folder[] =
    "said=`mkdir -p \"$MLK_CHECKPOINTS\" 2>&1`; [ -w \"$MLK_CHECKPOINTS\" ] || {\n"
    "  at=$MLK_CHECKPOINTS; [ -d \"$at\" ] || at=${at%/*}\n"
    "  is=`stat -c 'mode %a, owner %u:%g' \"$at\" 2>/dev/null`\n"
    "  echo \"mlk: uid `id -u` cannot write checkpoints in $at ($is)${said:+: ${said##*: }}; "
    "let it write there, or name another with user:\" >&2\n"
    "  exit 126\n"
    "}\n";

constexpr char start[] = "exec \"$@\"";

// $0: the archive; $1: the folder for the code; $2: the subfolder where the command starts; then the command.
constexpr char unpack[] =
    "said=`{ tar -xzof \"$0\" -C \"$1\" || python3 -c "
    "'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \"$0\" \"$1\"; } 2>&1` || {\n"
    "  echo \"mlk: the code of the run cannot be unpacked; the image needs tar with gzip, or python3: "
    "$said\" >&2\n"
    "  exit 126\n"
    "}\n"
    "cd \"$1/$2\" || exit 126\n"
    "shift 2\n";

}  // namespace

std::string code_map_name(const CodeArchive& code) {
  constexpr std::size_t digits = 16;
  return fmt::format("mlk-code-{}", code.digest.substr(0, digits));
}

json code_scope(const CodeArchive& code) {
  return {{"name", code_map_name(code)}, {"digest", code.digest}, {"archive", base64_encode(code.bytes)}};
}

std::vector<std::string> prepared(const Experiment& experiment, const std::optional<CodeArchive>& code,
                                  const std::vector<std::string>& command) {
  const bool unpacks = code && !code->is_layer();
  std::string script;
  if (experiment.effective["checkpoint"].contains("volume")) script += make_folder;
  if (unpacks) script += unpack;
  if (script.empty()) return command;
  std::vector<std::string> out{"/bin/sh", "-c", script + start};
  if (unpacks) {
    const std::string workdir = experiment.effective.value("workdir", ".");
    out.insert(out.end(), {fmt::format("{}/{}", code_mount, code_archive_file), code_folder, workdir});
  } else {
    out.emplace_back("mlk");
  }
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

}  // namespace mlk
