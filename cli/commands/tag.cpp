// mlk tag and mlk note: change the tags and the note of a run or sweep that was submitted before.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/kube/objects.h"
#include "cli/run/change/remarks.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/run/read/find.h"
#include "cli/session/session.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

struct TagOptions {
  std::string run;
  std::vector<std::string> changes;
};

struct NoteOptions {
  std::string run;
  std::optional<std::string> text;
};

nlohmann::json owner_of(kube::Client& client, const std::string& run) {
  return client.get(kube::resources::config_maps, client.config().name_space, run);
}

void tag(const TagOptions& options, Session& session) {
  (void)changed_tags({}, options.changes);  // reports mistakes before any request
  const std::unique_ptr<kube::Client> client = session.connect();
  const RunAddress address = session.find_run(*client, options.run);
  require_no_trial(address);
  const std::vector<std::string> tags = options.changes.empty()
                                            ? tags_of(owner_of(*client, address.run))
                                            : change_tags(*client, address.run, options.changes);
  for (const std::string& each : tags) session.out << printable(each) << '\n';
}

void note(const NoteOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const RunAddress address = session.find_run(*client, options.run);
  require_no_trial(address);
  if (options.text) return set_note(*client, address.run, *options.text);
  const std::string text = kube::annotation_of(owner_of(*client, address.run), annotations::note);
  if (!text.empty()) session.out << printable(text) << '\n';
}

}  // namespace

void add_tag(CLI::App& root, Session& session) {
  auto options = std::make_shared<TagOptions>();
  CLI::App* command =
      root.add_subcommand("tag", "Show or change the tags of a run: +WORD adds, -WORD removes");
  command->add_option("RUN", options->run, "A run, or an experiment's name for its newest run")->required();
  command->add_option("TAG", options->changes, "+WORD or +KEY=VALUE adds a tag; -WORD or -KEY removes it");
  command->callback([options, &session] { tag(*options, session); });
}

void add_note(CLI::App& root, Session& session) {
  auto options = std::make_shared<NoteOptions>();
  CLI::App* command = root.add_subcommand("note", "Show or change the note of a run");
  command->add_option("RUN", options->run, "A run, or an experiment's name for its newest run")->required();
  command->add_option("TEXT", options->text, "The new note; '' removes it");
  command->callback([options, &session] { note(*options, session); });
}

}  // namespace mlk
