// mlk completion: prints the script for a shell. The scripts call `mlk __complete WORDS...`, which walks the
// command tree, so the scripts always know the flags of this mlk.

#include <set>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/command_tree.h"
#include "cli/args/completion_scripts.h"
#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/experiment/schema.h"
#include "cli/kube/objects.h"
#include "cli/local/local.h"
#include "cli/render/templates.h"
#include "cli/run/facts/labels.h"
#include "cli/session/session.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

void completion(const std::string& shell, Session& session) {
  for (const CompletionScript& script : completion_scripts()) {
    if (script.shell == shell) session.out << script.text;
  }
}

// At most 500 runs of the namespace. Throws Error if the cluster does not answer within two seconds. Does not
// start the cluster on this machine.
std::vector<std::string> run_names(Session& session) {
  if (session.local() && !local::running()) return {};
  const std::unique_ptr<kube::Client> client = session.connect(Session::Attended::no);
  kube::Request request;
  request.path = kube::path_of(kube::resources::config_maps, client->config().name_space);
  request.query = {{"labelSelector", std::string(labels::managed_by) + "=mlk," + labels::run},
                   {"limit", "500"}};
  request.accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
  request.timeout = std::chrono::seconds(2);
  const nlohmann::json found = kube::parse_response(client->send(request), "runs");
  std::vector<std::string> names;
  for (const nlohmann::json& item : found.at("items")) {
    const std::string run = kube::label_of(item, labels::run);
    // The shell splits the output into words, so only names without blanks are offered.
    if (run == kube::name_of(item) && is_label(run)) names.push_back(run);
  }
  return names;
}

// The keys that begin with `typed`, each cut after its next dot: the user completes one part at a time.
std::vector<std::string> keys_to_set(const std::string& typed) {
  std::set<std::string> parts;
  for (const std::string& key : settable_keys()) {
    if (!key.starts_with(typed)) continue;
    const std::size_t dot = key.find('.', typed.size());
    parts.insert(dot == std::string::npos ? key + "=" : key.substr(0, dot + 1));
  }
  return {parts.begin(), parts.end()};
}

// The values of an option or of a positional argument of `command`. If they are unknown, the result is empty:
// the names of files in their place would mislead the user.
std::vector<std::string> values_of(const CLI::App& command, const CLI::Option& option,
                                   const std::string& typed, Session& session) {
  if (option.check_lname("set")) return keys_to_set(typed);
  const std::vector<std::string> words = words_of(option);
  if (!words.empty()) return words;
  const std::string what = option.get_positional() ? option.get_name(true) : option.get_type_name();
  if (what == "FILE" || what == "PATH" || what == "CLAIM=DIR") return {":files"};
  if (what == "RUN" || what == "OTHER" || what == "SWEEP") return run_names(session);
  if (what == "NAME" && command.get_name() == "templates") return Templates().names().job_types;
  return what.find('|') == std::string::npos ? std::vector<std::string>() : split(what, '|');
}

// The positional argument that stands after `operands` other arguments. nullptr if there is no such argument.
const CLI::Option* positional_after(const CLI::App& command, int operands) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    operands -= option->get_items_expected_max();
    if (operands < 0) return option;
  }
  return nullptr;
}

// A command line that is being typed.
class Line {
 public:
  Line(CLI::App& root, Session& session) : root_(root), session_(session), command_(&root) {}

  // The words that may replace the last of `words`.
  std::vector<std::string> candidates(const std::vector<std::string>& words) {
    for (std::size_t i = 0; i + 1 < words.size(); ++i) consume(words[i]);
    // Bash passes "=" as a separate word. If "=" is the last word, the value after it is still empty.
    const std::string last = words.empty() || words.back() == "=" ? "" : words.back();
    if (value_of_ != nullptr) return starting_with(last, "", values(*value_of_, last));
    if (const std::size_t equals = last.find('='); last.starts_with("--") && equals != std::string::npos) {
      const CLI::Option* option = option_of(*command_, root_, last.substr(0, equals));
      if (option == nullptr) return {};
      const std::string typed = last.substr(equals + 1);
      return starting_with(typed, last.substr(0, equals + 1), values(*option, typed));
    }
    if (last.starts_with("-")) return starting_with(last, "", option_names(*command_, root_));
    std::vector<std::string> names;
    for (const CLI::App* sub : visible_commands(*command_)) names.push_back(sub->get_name());
    if (!names.empty()) return starting_with(last, "", names);
    const CLI::Option* positional = positional_after(*command_, operands_);
    return positional == nullptr ? names : starting_with(last, "", values(*positional, last));
  }

 private:
  std::vector<std::string> values(const CLI::Option& option, const std::string& typed) const {
    return values_of(*command_, option, typed, session_);
  }

  static std::vector<std::string> starting_with(const std::string& typed, const std::string& prefix,
                                                const std::vector<std::string>& words) {
    std::vector<std::string> found;
    for (const std::string& word : words) {
      if (word == ":files" || word.starts_with(typed))
        found.push_back(word == ":files" ? word : prefix + word);
    }
    return found;
  }

  void consume(const std::string& word) {
    if (value_of_ != nullptr && word == "=") return;
    if (value_of_ != nullptr) {
      obey(*value_of_, word);
      value_of_ = nullptr;
    } else if (word.starts_with("-")) {
      const std::size_t equals = word.find('=');
      const CLI::Option* option = option_of(*command_, root_, word.substr(0, equals));
      if (option == nullptr) return;
      const bool takes_value = option->get_items_expected_max() > 0;
      if (!takes_value) obey(*option, "true");
      if (takes_value && equals != std::string::npos) obey(*option, word.substr(equals + 1));
      if (takes_value && equals == std::string::npos) value_of_ = option;
    } else if (const CLI::App* next = find_command(*command_, word); next != nullptr) {
      command_ = next;
    } else {
      ++operands_;
    }
  }

  // Stores the value of a global flag, since the flag may select the cluster whose runs the shell then
  // offers.
  void obey(const CLI::Option& option, const std::string& value) {
    const auto& names = option.get_lnames();
    CLI::Option* global = names.empty() ? nullptr : root_.get_option_no_throw("--" + names.front());
    if (global != &option || option.check_lname("help") || option.check_lname("version")) return;
    global->clear();
    global->add_result(value);
    global->run_callback();
  }

  CLI::App& root_;
  Session& session_;
  const CLI::App* command_;
  const CLI::Option* value_of_ = nullptr;
  int operands_ = 0;  // words that are neither commands nor flags
};

}  // namespace

void add_completion(CLI::App& root, Session& session) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = root.add_subcommand("completion", "Print the completion script of a shell");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  command->callback([shell, &session] { completion(*shell, session); });

  CLI::App* complete = root.add_subcommand("__complete", "")->group("");
  complete->prefix_command()->fallthrough(false);  // the words, including flags, are data here
  complete->set_help_flag("");
  complete->callback([complete, &root, &session] {
    try {
      for (const std::string& word : Line(root, session).candidates(complete->remaining()))
        session.out << printable(word) << '\n';
    } catch (const std::exception&) {
      // The cluster does not answer, or a flag is wrong: a completion cannot show errors.
    }
  });
}

}  // namespace mlk
