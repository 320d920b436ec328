#include "cli/image/repository.h"

#include <string_view>

#include "cli/util/error.h"
#include "cli/util/process.h"
#include "cli/util/text.h"

namespace mlk::image {

Revision parse_revision(const std::string& status) {
  constexpr std::string_view commit = "# branch.oid ", branch = "# branch.head ";
  Revision out;
  out.clean = true;
  for (const std::string& line : split(status, '\n')) {
    if (line.starts_with(commit)) {
      out.commit = line.substr(commit.size());
    } else if (line.starts_with(branch)) {
      out.branch = line.substr(branch.size());
    } else if (!line.empty() && !line.starts_with('#')) {
      out.clean = false;
    }
  }
  if (out.commit == "(initial)") out.commit.clear();
  if (out.branch == "(detached)") out.branch.clear();
  return out;
}

std::optional<Revision> revision_of(const std::filesystem::path& folder) {
  Command command;
  // Otherwise status would start a program that the repository may name.
  command.argv = {"git", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch", "--", "."};
  command.env = {{"GIT_OPTIONAL_LOCKS", "0"}, {"LC_ALL", "C"}};
  command.folder = folder.string();
  command.timeout = std::chrono::seconds(10);
  try {
    const ProcessResult result = run_process(command);
    if (result.ok()) return parse_revision(result.output);
  } catch (const Error&) {
    // There is no git, or it tells too much: the record of a run then says nothing of it.
  }
  return std::nullopt;
}

}  // namespace mlk::image
