#include "cli/app.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "cli/commands/command_tree.h"
#include "cli/commands/commands.h"
#include "cli/commands/habits.h"
#include "cli/commands/session.h"
#include "cli/util/error.h"
#include "cli/util/printable_stream.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

// CLI11 names a flag with an optional value "--dry-run{client}"; readers of manuals know
// "--dry-run[=client|server]".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    const std::size_t brace = name.find('{');
    return brace == std::string::npos ? name : name.substr(0, brace) + "[=" + option->get_type_name() + "]";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const bool in_name = CLI::Formatter::make_option_name(option, false).find('{') != std::string::npos;
    return in_name ? "" : CLI::Formatter::make_option_opts(option);
  }
  std::string make_footer(const CLI::App* app) const override {
    if (app->get_parent() == nullptr) return CLI::Formatter::make_footer(app);
    const CLI::App* command = app;
    while (command->get_parent()->get_parent() != nullptr) command = command->get_parent();
    return "Flags of all commands, such as --local and -n: mlk --help\nManual: man mlk-" +
           command->get_name() + "\n";
  }
};

// The empty name means the namespace of the context, as with kubectl.
CLI::Validator namespace_name() {
  return CLI::Validator(
      [](std::string& text) {
        const bool good = text.empty() || is_label(text);
        return good ? std::string() : "'" + printable(text) + "' is not the name of a namespace";
      },
      "");
}

void add_global_options(CLI::App& root, Session& session) {
  GlobalOptions& global = session.global;
  root.add_option("--kubeconfig", global.cluster.kubeconfig, "Kubeconfig file [$KUBECONFIG, ~/.kube/config]")
      ->type_name("FILE");
  root.add_option("--context", global.cluster.context, "Context of the kubeconfig")->type_name("NAME");
  root.add_option("-n,--namespace", global.cluster.name_space, "Namespace [of the context]")
      ->type_name("NAME")
      ->check(namespace_name());
  root.add_flag("--local", global.local,
                "Use the cluster on this machine [$MLK_LOCAL=1]; start it when it is not up");
  root.add_option("--volume", global.volumes, "With --local: the folder that stands for a claim")
      ->type_name("CLAIM=DIR")
      ->take_all()
      ->allow_extra_args(false);  // "--volume a=b submit": one value each
  root.add_option("--color", global.color, "Colours: auto, always or never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

// An unknown word of the command line, and the word that was probably meant. Found before CLI11 complains
// about missing words.
struct Unknown {
  std::string what;  // empty: nothing
  std::string hint;
};

std::string did_you_mean(const std::string& near) { return near.empty() ? "" : "did you mean: " + near; }

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : visible_commands(app)) names.push_back(command->get_name());
  return names;
}

std::string spoken_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? command.get_name()
                                         : spoken_name(*command.get_parent()) + " " + command.get_name();
}

Unknown find_unknown(const CLI::App& root, const std::vector<std::string>& arguments) {
  const auto rest = [&](std::size_t i) {
    return std::vector<std::string>(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
  };
  const CLI::App* command = &root;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& word = arguments[i];
    if (word.starts_with("-") && word.size() > 1) {
      const bool is_long = word.starts_with("--");
      const std::string flag = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
      const CLI::Option* option = option_of(*command, root, flag);
      if (option == nullptr) {
        const std::string habit = habit_of_flag(command->get_name(), flag, rest(i));
        const std::string near = nearest(flag, option_names(*command, root));
        return {"there is no flag '" + flag + "'", habit.empty() ? did_you_mean(near) : habit};
      }
      if (option->get_items_expected_max() > 0 && flag == word) ++i;  // its value
    } else if (!visible_commands(*command).empty()) {
      const CLI::App* next = find_command(*command, word);
      if (next == nullptr) {
        const bool top = command == &root;
        const std::string habit = top ? habit_of_command(word, rest(i)) : "";
        const std::string near = nearest(word, command_names(*command));
        return {"there is no command '" + (top ? "" : command->get_name() + " ") + word + "'",
                !habit.empty() || near.empty() ? habit : did_you_mean(spoken_name(*command) + " " + near)};
      }
      command = next;
    }
  }
  return {};
}

void print_error(Session& session, const std::string& what, const std::string& hint) {
  session.err << "mlk: error: " << what << '\n';
  if (!hint.empty()) session.err << "hint: " << hint << '\n';
  session.err << std::flush;
}

// Reformats CLI11's own messages: lower case, no full stop, "did you mean" for flags.
int report_usage(const CLI::App& root, const std::vector<std::string>& arguments,
                 const CLI::ParseError& error, Session& session) {
  const CLI::App* command = &root;
  for (const CLI::App* at = &root; at != nullptr;) {
    command = at;
    const auto parsed = at->get_subcommands();
    at = parsed.empty() ? nullptr : parsed.front();
  }
  std::string hint = "see: " + spoken_name(*command) + " --help";
  std::string what = error.what();
  if (const Unknown unknown = find_unknown(root, arguments); !unknown.what.empty()) {
    what = unknown.what;
    if (!unknown.hint.empty()) hint = unknown.hint;
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
             !visible_commands(*command).empty()) {
    what = "a command is required";
    hint = "list the commands with: " + spoken_name(*command) + " --help";
  } else if (what.size() > 1 && std::isupper(static_cast<unsigned char>(what[0])) != 0 &&
             std::islower(static_cast<unsigned char>(what[1])) != 0) {
    what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
  }
  if (what.ends_with('.')) what.pop_back();
  print_error(session, what, hint);
  return static_cast<int>(ExitCode::usage);
}

}  // namespace

std::unique_ptr<CLI::App> make_app(Session& session) {
  auto root =
      std::make_unique<CLI::App>("Distributed training jobs on Kubernetes, from one experiment file", "mlk");
  root->require_subcommand(1);
  root->fallthrough();  // the global flags may stand after the command as well
  root->footer("Manual: man mlk, man mlk-COMMAND, man 5 mlk-experiment");
  root->formatter(std::make_shared<HelpFormatter>());  // before the commands: they take it over
  root->get_formatter()->column_width(34);
  root->set_help_flag("-h,--help", "Print this help");
  root->set_version_flag("--version", "mlk " + session.version, "Print the version");
  add_global_options(*root, session);
  add_submit(*root, session);
  add_render(*root, session);
  add_sweep(*root, session);
  add_drive(*root, session);
  add_results(*root, session);
  add_best(*root, session);
  add_report(*root, session);
  add_ls(*root, session);
  add_status(*root, session);
  add_logs(*root, session);
  add_wait(*root, session);
  add_stop(*root, session);
  add_resume(*root, session);
  add_delete(*root, session);
  add_context(*root, session);
  add_local(*root, session);
  add_templates(*root, session);
  add_version(*root, session);
  add_completion(*root, session);
  return root;
}

namespace {

// "--option=" gives the option an empty value. CLI11 would take the next word for the value.
std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  bool options = true;
  for (const std::string& word : arguments) {
    options = options && word != "--";
    const bool empty_value = options && word.starts_with("--") && word.find('=') == word.size() - 1;
    words.push_back(empty_value ? word.substr(0, word.size() - 1) : word);
    if (empty_value) words.emplace_back();
  }
  return words;
}

int run_command(CLI::App& app, const std::vector<std::string>& given, Session& session) {
  const std::vector<std::string> arguments = with_empty_values(given);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return static_cast<int>(session.exit_code);
  } catch (const CLI::Success& success) {  // --help
    app.exit(success, session.out, session.err);
    return 0;
  } catch (const CLI::ParseError& error) {
    return report_usage(app, arguments, error, session);
  } catch (const Error& error) {
    if (session.interrupted.load() != 0 && error.code() == ExitCode::cluster) {  // what Ctrl-C has cut off
      print_error(session, "interrupted", "");
      return static_cast<int>(ExitCode::interrupted);
    }
    print_error(session, printable(error.what()), printable(session.with_flags(error.hint())));
    return static_cast<int>(error.code());
  } catch (const OutputFailed&) {
    return static_cast<int>(ExitCode::failure);
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string what = error.path1().empty() ? "the working folder" : error.path1().string();
    print_error(session, printable("cannot use " + what + ": " + error.code().message()), "");
    return static_cast<int>(ExitCode::failure);
  } catch (const std::bad_alloc&) {
    print_error(session, "not enough memory", "");
    return static_cast<int>(ExitCode::failure);
  } catch (const std::exception& error) {
    print_error(session, std::string("internal error: ") + error.what(),
                "this is a mistake in mlk " + session.version + "; please report it with the command");
    return static_cast<int>(ExitCode::failure);
  }
}

// A full disk must not look like success. A reader that has gone, like `head`, needs no message.
bool write_all_out(Session& session) {
  if (session.out.flush()) return true;
  // Another write fails for the same reason and sets errno.
  session.out.clear();
  errno = 0;
  session.out << std::endl;
  const int reason = errno;
  if (reason != EPIPE) {
    print_error(session,
                std::string("cannot write to standard output") +
                    (reason == 0 ? "" : std::string(": ") + std::strerror(reason)),
                "");
  }
  return false;
}

}  // namespace

int run(const std::vector<std::string>& arguments, Session& session) {
  const PrintableStream out(session.out, [&session] {
    return PrintableStream::Sequences{.colors = session.color_out(), .live_line = session.out_is_terminal};
  });
  const PrintableStream err(session.err, [&session] {
    return PrintableStream::Sequences{.colors = session.color_err(), .live_line = session.err_is_terminal};
  });
  const std::unique_ptr<CLI::App> app = make_app(session);
  const int code = run_command(*app, arguments, session);
  return write_all_out(session) || code != 0 ? code : static_cast<int>(ExitCode::failure);
}

}  // namespace mlk
