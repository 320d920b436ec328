#include "cli/args/usage.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include <CLI/CLI.hpp>

#include "cli/args/command_tree.h"
#include "cli/args/habits.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

std::string hint_at(const std::string& near) { return near.empty() ? "" : "did you mean: " + near; }

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : visible_commands(app)) names.push_back(command->get_name());
  return names;
}

std::string spoken_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? command.get_name()
                                         : spoken_name(*command.get_parent()) + " " + command.get_name();
}

// The value of an option in the form of the help: "LINES", or "wide|name|json".
std::string spoken_type(const CLI::Option& option) {
  const std::vector<std::string> words = words_of(option);
  return words.empty() ? option.get_type_name() : join(words, "|");
}

// Follows the command line through the tree of commands, up to the first unknown word.
class Reading {
 public:
  Reading(const CLI::App& root, const std::vector<std::string>& arguments)
      : root_(root), arguments_(arguments), command_(&root) {
    bool flags = true;
    for (at_ = 0; at_ < arguments.size() && unknown_.what.empty(); ++at_) {
      const std::string& word = arguments[at_];
      if (flags && word == "--") {
        flags = false;
      } else if (flags && word.starts_with("-") && word.size() > 1) {
        read_flag(word);
      } else if (flags && !visible_commands(*command_).empty()) {
        read_command(word);
      } else if (command_->get_name() == "run") {
        const bool is_file = word.ends_with(".yaml") || word.ends_with(".yml");
        unknown_ = {
            "mlk run takes the command of a program after --",
            is_file ? "an experiment file is for: mlk submit " + shown({word})
                    : "mlk " + shown({arguments.begin(), at()}) + " -- " + shown({at(), arguments.end()})};
      } else {
        operands_.push_back(word);
      }
    }
  }

  const CLI::App& command() const { return *command_; }
  const UsageProblem& unknown() const { return unknown_; }  // empty: every word is known

  // The problem with the number of arguments or values on the command line; empty if there is none.
  UsageProblem miscounted() const {
    if (waiting_ != nullptr) {
      return {"there is no value after '" + arguments_.back() + "'",
              "it takes one: mlk " + shown(arguments_) + " " + spoken_type(*waiting_)};
    }
    return said_.what.empty() ? superfluous() : said_;
  }

 private:
  static std::string shown(const std::vector<std::string>& words) {
    std::vector<std::string> quoted;
    for (const std::string& word : words) quoted.push_back(printable(shell_word(word)));
    return join(quoted, " ");
  }

  std::vector<std::string>::const_iterator at() const {
    return arguments_.begin() + static_cast<std::ptrdiff_t>(at_);
  }

  std::vector<std::string> rest() const { return {at() + 1, arguments_.end()}; }

  void read_flag(const std::string& word) {
    const bool is_long = word.starts_with("--");
    const std::string flag = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
    const CLI::Option* option = option_of(*command_, root_, flag);
    if (option == nullptr) {
      const std::string habit = habit_of_flag(command_->get_name(), flag, rest());
      const std::string near = nearest(flag, option_names(*command_, root_));
      const bool of_program =
          habit.empty() && near.empty() && passes_words_on(*command_) && !operands_.empty();
      unknown_ = {"there is no flag '" + flag + "'", of_program
                                                         ? "arguments of the program come after --: mlk " +
                                                               shown({arguments_.begin(), at()}) + " -- " +
                                                               shown({at(), arguments_.end()})
                                                     : habit.empty() ? hint_at(near)
                                                                     : habit};
      return;
    }
    if (option->get_items_expected_max() == 0) {
      if (flag != word) said_ = {"'" + flag + "' takes no value", "use the flag alone: " + flag};
      return;
    }
    if (++given_[option] > 1 && option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw)
      said_ = {"'" + flag + "' is given more than once", ""};
    if (flag != word || option->get_items_expected_min() == 0) return;
    waiting_ = at_ + 1 == arguments_.size() ? option : nullptr;
    ++at_;
  }

  void read_command(const std::string& word) {
    const CLI::App* next = find_command(*command_, word);
    if (next == nullptr) {
      const bool top = command_ == &root_;
      const std::string habit = top                               ? habit_of_command(word, rest())
                                : command_->get_name() == "local" ? habit_of_local(word)
                                                                  : "";
      const std::string near = nearest(word, command_names(*command_));
      unknown_ = {"there is no command '" + (top ? "" : command_->get_name() + " ") + word + "'",
                  !habit.empty() || near.empty() ? habit : hint_at(spoken_name(*command_) + " " + near)};
    } else {
      command_ = next;
    }
  }

  // The problem that the command line has more arguments than the command accepts; empty if there is no such
  // problem.
  UsageProblem superfluous() const {
    std::vector<std::string> names;
    std::size_t room = 0;
    for (const CLI::Option* option : command_->get_options()) {
      if (!option->get_positional()) continue;
      names.push_back(option->get_name(true));
      room += static_cast<std::size_t>(option->get_items_expected_max());
    }
    if (operands_.size() <= room) return {};
    const std::string name = spoken_name(*command_);
    const std::string more = "'" + operands_[room] + "'";
    if (room == 0) return {name + " takes no argument, but " + more + " is given", "try: " + name};
    return {name + " takes one " + names.front() + ", but " + more + " is given as well",
            "one at a time: " + name + " " + shown({operands_.begin(), operands_.begin() + 1})};
  }

  const CLI::App& root_;
  const std::vector<std::string>& arguments_;
  std::size_t at_ = 0;
  const CLI::App* command_;
  UsageProblem unknown_;
  UsageProblem said_;                     // a problem with a known flag
  const CLI::Option* waiting_ = nullptr;  // the last word, if it is an option whose value is missing
  std::map<const CLI::Option*, int> given_;
  std::vector<std::string> operands_;
};

std::string see_help(const Reading& reading) { return "see: " + spoken_name(reading.command()) + " --help"; }

}  // namespace

UsageProblem explain(const CLI::ParseError& error, const CLI::App& root,
                     const std::vector<std::string>& arguments) {
  const Reading reading(root, arguments);
  const std::string name = spoken_name(reading.command());
  UsageProblem problem = reading.unknown();
  const bool required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (problem.what.empty() && !required) problem = reading.miscounted();
  if (problem.what.empty() && required && !visible_commands(reading.command()).empty())
    problem = {"a command is required", "list the commands with: " + name + " --help"};
  if (problem.what.empty()) {  // CLI11's own message, without its capital letter and full stop
    problem.what = error.what();
    std::string& what = problem.what;
    if (what.size() > 1 && std::isupper(static_cast<unsigned char>(what[0])) != 0 &&
        std::islower(static_cast<unsigned char>(what[1])) != 0)
      what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
    if (what.ends_with('.')) what.pop_back();
  }
  if (problem.hint.empty()) problem.hint = see_help(reading);
  return problem;
}

UsageProblem unknown_word(const CLI::App& root, const std::vector<std::string>& arguments) {
  const Reading reading(root, arguments);
  UsageProblem problem = reading.unknown();
  if (!problem.what.empty() && problem.hint.empty()) problem.hint = see_help(reading);
  return problem;
}

const CLI::App& command_of(const CLI::App& root, const std::vector<std::string>& arguments) {
  return Reading(root, arguments).command();
}

bool passes_words_on(const CLI::App& command) {
  constexpr std::array names{"run", "submit", "render", "sweep"};
  return std::find(names.begin(), names.end(), command.get_name()) != names.end();
}

}  // namespace mlk
