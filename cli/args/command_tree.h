// Queries about the tree of commands.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mlk {

// The commands below `app` that users see. A hidden command has no group.
std::vector<const CLI::App*> visible_commands(const CLI::App& app);

// The command below `app` with this name; nullptr if `app` has no such command.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

// The long flags that may follow `command`, including the global flags.
std::vector<std::string> option_names(const CLI::App& command, const CLI::App& root);

// The option that the word "--flag" or "-f" means after `command`; nullptr if there is no such option.
const CLI::Option* option_of(const CLI::App& command, const CLI::App& root, const std::string& word);

// The words that the option accepts, if its validator is one_of() (cli/args/validators.h); otherwise empty.
std::vector<std::string> words_of(const CLI::Option& option);

}  // namespace mlk
