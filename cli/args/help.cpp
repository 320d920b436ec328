#include "cli/args/help.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/args/usage.h"
#include "cli/session/session.h"
#include "cli/ui/width.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

constexpr std::size_t column_of_descriptions = 34;
constexpr std::size_t least_for_descriptions = 20;

// CLI11 writes a flag with an optional value as "--dry-run{client}". This class writes
// "--dry-run[=client|server]", the form of manuals.
class HelpFormatter : public CLI::Formatter {
 public:
  // `width`: columns of the terminal; 0: no limit.
  explicit HelpFormatter(std::size_t width) : width_(width) { column_width(column_of_descriptions); }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (!passes_words_on(*app)) return usage;
    const std::string words = app->get_name() == "run" ? "-- COMMAND..." : "[-- ARGUMENT...]";
    const std::size_t end = usage.find_last_not_of('\n') + 1;
    const bool fits =
        width_ == 0 || ui::width_of(usage.substr(usage.rfind('\n', end - 1) + 1)) + words.size() < width_;
    usage.insert(end, (fits ? " " : "\n  ") + words);
    return usage;
  }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    const std::size_t brace = name.find('{');
    return brace == std::string::npos ? name : name.substr(0, brace) + "[=" + option->get_type_name() + "]";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const bool in_name = CLI::Formatter::make_option_name(option, false).find('{') != std::string::npos;
    return in_name ? "" : CLI::Formatter::make_option_opts(option);
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return folded(CLI::Formatter::make_option_desc(option), column_of_descriptions);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_display_name(true),
                             folded(command->get_description(), column_of_descriptions), column_width_);
    return out.str();
  }
  std::string make_description(const CLI::App* app) const override {
    return folded(app->get_description(), 0) + "\n";
  }
  std::string make_footer(const CLI::App* app) const override {
    if (app->get_parent() == nullptr) return CLI::Formatter::make_footer(app);
    const CLI::App* command = app;
    while (command->get_parent()->get_parent() != nullptr) command = command->get_parent();
    return "Flags of all commands, such as --local and -n: mlk --help\nManual: man mlk-" +
           command->get_name() + "\n";
  }

 private:
  // `column`: the column where the lines begin. CLI11 indents the lines.
  std::string folded(const std::string& description, std::size_t column) const {
    if (width_ == 0) return description;
    const std::size_t room = std::max(width_, column + least_for_descriptions) - column;
    std::vector<std::string> words = split(description, ' ');
    std::erase(words, "");
    return join(ui::fold(words, " ", room), "\n");
  }

  const std::size_t width_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter(const Session& session) {
  return std::make_shared<HelpFormatter>(session.out_is_terminal ? ui::terminal_width(STDOUT_FILENO) : 0);
}

}  // namespace mlk
