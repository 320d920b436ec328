// mlk completion: the script for a shell. The scripts ask `mlk __complete WORDS...`, which walks the command
// tree, so that they cannot drift from it.

#include <CLI/CLI.hpp>

#include "cli/commands/command_tree.h"
#include "cli/commands/commands.h"
#include "cli/commands/completion_scripts.h"
#include "cli/commands/session.h"
#include "cli/kube/objects.h"
#include "cli/render/templates.h"
#include "cli/run/labels.h"

namespace mlk {
namespace {

struct CompletionOptions {
  std::string shell;
};

void completion(const CompletionOptions& options, Session& session) {
  for (const CompletionScript& script : completion_scripts()) {
    if (script.shell == options.shell) session.out << script.text;
  }
}

// Runs of the namespace, newest knowledge of the cluster; nothing when it does not answer at once.
std::vector<std::string> run_names(Session& session) {
  try {
    session.global.local = session.global.local && session.env("MLK_COMPLETE_LOCAL") != "0";
    const std::unique_ptr<kube::Client> client = session.connect();
    kube::Request request;
    request.path = kube::path_of(kube::resources::config_maps, client->config().name_space);
    request.query = {{"labelSelector", std::string(labels::managed_by) + "=mlk," + labels::run},
                     {"limit", "500"}};
    request.accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    request.timeout = std::chrono::seconds(2);
    std::vector<std::string> names;
    for (const auto& item : kube::parse_response(client->send(request), "runs").at("items")) {
      const std::string run = kube::label_of(item, labels::run);
      if (run == kube::name_of(item)) names.push_back(run);
    }
    return names;
  } catch (const std::exception&) {
    return {};  // a completion has nobody to tell
  }
}

// What may stand where the last of `words` stands.
std::vector<std::string> candidates(const CLI::App& root, const std::vector<std::string>& words,
                                    Session& session) {
  const CLI::App* command = &root;
  const CLI::Option* value_of = nullptr;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (value_of != nullptr) {
      value_of = nullptr;
    } else if (word.starts_with("-")) {
      const CLI::Option* option = option_of(*command, root, word);
      if (option != nullptr && option->get_items_expected_max() > 0) value_of = option;
      if (word == "--local") session.global.local = true;
    } else if (const CLI::App* next = find_command(*command, word); next != nullptr) {
      command = next;
    }
  }
  const std::string last = words.empty() ? "" : words.back();
  if (value_of != nullptr) {
    const std::string type = value_of->get_type_name();  // IsMember shows as "...:{a,b}"
    const std::size_t open = type.find('{');
    if (open == std::string::npos) return {":files"};
    std::vector<std::string> values;
    std::string inner = type.substr(open + 1, type.find('}') - open - 1);
    for (std::size_t start = 0; start <= inner.size();) {
      const std::size_t comma = std::min(inner.find(',', start), inner.size());
      values.push_back(inner.substr(start, comma - start));
      start = comma + 1;
    }
    return values;
  }
  if (last.starts_with("-")) return option_names(*command, root);
  std::vector<std::string> names;
  for (const CLI::App* sub : visible_commands(*command)) names.push_back(sub->get_name());
  if (!names.empty()) return names;
  for (const CLI::Option* positional : command->get_options()) {
    if (!positional->get_positional()) continue;
    if (positional->get_name(true) == "FILE") return {":files"};
    if (positional->get_name(true) == "RUN") return run_names(session);
    if (command->get_name() == "templates") return Templates().job_types();
    if (command->get_name() == "completion") return {"bash", "zsh", "fish"};
  }
  return {};
}

}  // namespace

void add_completion(CLI::App& root, Session& session) {
  auto options = std::make_shared<CompletionOptions>();
  CLI::App* command = root.add_subcommand("completion", "Print the completion script of a shell");
  command->add_option("SHELL", options->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([options, &session] { completion(*options, session); });

  CLI::App* complete = root.add_subcommand("__complete", "")->group("");
  complete->prefix_command()->fallthrough(false);  // the words are not ours to obey, flags among them
  complete->set_help_flag("");
  complete->callback([complete, &root, &session] {
    const std::vector<std::string> words = complete->remaining();
    const std::string last = words.empty() ? "" : words.back();
    for (const std::string& word : candidates(root, words, session)) {
      if (word == ":files" || word.starts_with(last)) session.out << word << '\n';
    }
  });
}

}  // namespace mlk
