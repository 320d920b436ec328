#include "cli/app.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "cli/args/help.h"
#include "cli/args/usage.h"
#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/session/session.h"
#include "cli/util/error.h"
#include "cli/util/printable_stream.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

// An empty name means the namespace of the context, as with kubectl.
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
      ->allow_extra_args(false);  // one word each time: in "--volume a=b submit", "submit" is the command
  root.add_option("--mine-as", global.mine_as, "Count the runs of this user as yours, too")
      ->type_name("NAME");
  root.add_option("--color", global.color, "Colours: auto, always or never")
      ->type_name("WHEN")
      ->check(one_of({"auto", "always", "never"}));
}

void print_error(Session& session, const std::string& what, const std::string& hint) {
  session.err << "mlk: error: " << what << '\n';
  if (!hint.empty()) session.err << "hint: " << hint << '\n';
  session.err << std::flush;
}

}  // namespace

std::unique_ptr<CLI::App> make_app(Session& session) {
  auto root =
      std::make_unique<CLI::App>("Distributed training jobs on Kubernetes, from one experiment file", "mlk");
  root->require_subcommand(1);
  root->fallthrough();  // the global flags may also stand after the command
  root->footer("Manual: man mlk, man mlk-COMMAND, man 5 mlk-experiment");
  root->formatter(help_formatter(session));  // before the commands are added: they inherit this
  root->set_help_flag("-h,--help", "Print this help");
  root->set_version_flag("--version", "mlk " + session.version, "Print the version");
  add_global_options(*root, session);
  add_new(*root, session);
  add_run(*root, session);
  add_submit(*root, session);
  add_render(*root, session);
  add_build(*root, session);
  add_image(*root, session);
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
  add_get(*root, session);
  add_pull(*root, session);
  add_diff(*root, session);
  add_tag(*root, session);
  add_note(*root, session);
  add_retry(*root, session);
  add_rollback(*root, session);
  add_context(*root, session);
  add_local(*root, session);
  add_templates(*root, session);
  add_version(*root, session);
  add_completion(*root, session);
  return root;
}

namespace {

// An argument "--option=" gives the option an empty value. CLI11 alone would use the next word as the value.
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

// `mlk help COMMAND...` is `mlk COMMAND... --help`.
std::vector<std::string> with_help_as_flag(std::vector<std::string> words) {
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

// The words up to "--", if those after it belong to the program of an experiment. Stores the others in the
// session.
std::vector<std::string> words_for_mlk(const CLI::App& app, const std::vector<std::string>& given,
                                       Session& session) {
  const auto dashes = std::find(given.begin(), given.end(), "--");
  const std::vector<std::string> before(given.begin(), dashes);
  if (dashes == given.end() || !passes_words_on(command_of(app, before))) return given;
  session.program_words.assign(dashes + 1, given.end());
  return before;
}

// `mlk tag RUN -old` removes the tag old. A word such as -old would be a flag, so it becomes "old-", which
// means the same. Only -h and -n are flags there.
std::vector<std::string> with_tags_as_operands(const CLI::App& app, std::vector<std::string> words) {
  if (command_of(app, words).get_name() != "tag") return words;
  for (std::string& word : words) {
    const bool is_flag = word.size() < 2 || word[0] != '-' || word[1] == '-' || word == "-h" || word == "-n";
    if (!is_flag) word = word.substr(1) + "-";
  }
  return words;
}

int run_command(CLI::App& app, const std::vector<std::string>& given, Session& session) {
  const std::vector<std::string> arguments =
      with_empty_values(with_tags_as_operands(app, words_for_mlk(app, with_help_as_flag(given), session)));
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return static_cast<int>(session.exit_code);
  } catch (const CLI::Success& success) {  // CLI11 handles --help and --version before it checks other words
    const UsageProblem problem = unknown_word(app, arguments);
    if (!problem.what.empty()) {
      print_error(session, problem.what, problem.hint);
      return static_cast<int>(ExitCode::usage);
    }
    app.exit(success, session.out, session.err);
    return 0;
  } catch (const CLI::ParseError& error) {
    const UsageProblem problem = explain(error, app, arguments);
    print_error(session, problem.what, problem.hint);
    return static_cast<int>(ExitCode::usage);
  } catch (const Error& error) {
    const bool cut_off =
        session.interrupted.load() != 0 && (error.code() == ExitCode::cluster ||
                                            (error.code() == ExitCode::interrupted && error.hint().empty()));
    if (cut_off) {
      const char* way_back = session.way_back;
      print_error(session, "interrupted", way_back == nullptr ? "" : way_back);
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

// A full disk must not look like success. A reader that has gone, such as `head`, needs no message.
bool write_all_out(Session& session) {
  if (session.out.flush()) return true;
  // This second write fails for the same reason as the first one, and sets errno.
  session.out.clear();
  errno = 0;
  session.out << '\n' << std::flush;
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
    return PrintableStream::Sequences{.colors = session.color_out(),
                                      .live_line = session.out_is_terminal && session.env("TERM") != "dumb",
                                      .all_bytes = session.all_bytes_out};
  });
  const PrintableStream err(session.err, [&session] {
    return PrintableStream::Sequences{.colors = session.color_err(), .live_line = session.live_err()};
  });
  const std::unique_ptr<CLI::App> app = make_app(session);
  const int code = run_command(*app, arguments, session);
  return write_all_out(session) || code != 0 ? code : static_cast<int>(ExitCode::failure);
}

}  // namespace mlk
