#include "cli/views/other_code.h"

#include <fmt/format.h>

#include "cli/code/changes.h"
#include "cli/code/code.h"
#include "cli/image/gzip.h"
#include "cli/kube/objects.h"
#include "cli/run/change/stored_run.h"
#include "cli/session/session.h"
#include "cli/util/error.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"
#include "sweeps/start/continue_sweep.h"

namespace mlk {
namespace {

// The files that differ, as in ": +s.html, train.py". Empty if mlk cannot read the code of both sweeps here,
// for example because an image contains the code.
std::string files_that_differ(kube::Client& client, const nlohmann::json& owner, const CodeArchive& code) {
  StoredRun stored;
  stored.run = kube::name_of(owner);
  stored.code = text_of(json_or_null(text_of(owner, {"data", "digests"})), {code_file});
  stored.code_source = text_of(owner, {"data", "code"});
  const nlohmann::json source = json_or_null(stored.code_source);
  if (code.bytes.empty() || at_path(source, {"layer"}) == true) return "";
  try {
    std::vector<std::string> paths =
        image::changed_paths(fetch_code(client, client.config().name_space, stored, {}),
                             image::gunzip(code.bytes, image::longest_tar));
    constexpr std::size_t most_shown = 4;
    const std::size_t all = paths.size();
    if (all > most_shown) {
      paths.resize(most_shown);
      paths.push_back(fmt::format("{} more", all - most_shown));
    }
    return paths.empty() ? "" : ": " + join(paths, ", ");
  } catch (const Error& error) {
    if (error.code() == ExitCode::interrupted) throw;
    return "";  // the code is gone or cannot be read; the caller still reports that the code differs
  }
}

}  // namespace

void report_other_code(kube::Client& client, const sweeps::Definition& sweep, Session& session) {
  if (!sweep.files.code) return;
  const auto owner = sweeps::find_with_other_code(client, client.config().name_space, sweep);
  if (!owner) return;
  const std::string name = kube::name_of(*owner);
  session.note(fmt::format("this is a new sweep: {} differs only in its code{}; --same continues {}", name,
                           files_that_differ(client, *owner, *sweep.files.code), name));
}

}  // namespace mlk
