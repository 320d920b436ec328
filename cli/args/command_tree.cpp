#include "cli/args/command_tree.h"

#include <CLI/CLI.hpp>

#include "cli/util/text.h"

namespace mlk {
namespace {

std::vector<const CLI::App*> all_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace

std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands = all_commands(app);
  std::erase_if(commands, [](const CLI::App* command) { return command->get_group().empty(); });
  return commands;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : all_commands(app)) {
    if (command->check_name(name)) return command;
  }
  return nullptr;
}

std::vector<std::string> option_names(const CLI::App& command, const CLI::App& root) {
  std::vector<std::string> names;
  for (const CLI::App* app : {&command, &root}) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    if (app == &root) break;
  }
  return names;
}

const CLI::Option* option_of(const CLI::App& command, const CLI::App& root, const std::string& word) {
  const CLI::Option* option = command.get_option_no_throw(word);
  return option != nullptr ? option : root.get_option_no_throw(word);
}

std::vector<std::string> words_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();  // "TEXT:{a,b}"
  const std::size_t open = type.find('{');
  if (open == std::string::npos) return {};
  return split(std::string_view(type).substr(open + 1, type.find('}') - open - 1), ',');
}

}  // namespace mlk
