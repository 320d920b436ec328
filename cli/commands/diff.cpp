// mlk diff: shows the values that differ between two runs, and compares their code file by file.

#include <chrono>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/code/code.h"
#include "cli/commands/commands.h"
#include "cli/image/tar.h"
#include "cli/image/unpack.h"
#include "cli/provide/images.h"
#include "cli/run/change/stored_run.h"
#include "cli/run/facts/owner.h"
#include "cli/run/read/find.h"
#include "cli/run/state/differences.h"
#include "cli/session/session.h"
#include "cli/ui/table.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/process.h"
#include "cli/util/text.h"
#include "cli/views/views.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

struct DiffOptions {
  std::string first, second;
};

fs::path make_temporary_folder() {
  std::string pattern = (fs::temp_directory_path() / "mlk-diff-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw Error(ExitCode::failure, "cannot make the folder " + pattern);
  return pattern;
}

std::string text_of_value(const std::map<std::string, nlohmann::json>& values, const std::string& path) {
  const auto found = values.find(path);
  if (found == values.end()) return "";
  return printable(found->second.is_string() ? found->second.get<std::string>() : json_text(found->second));
}

using Values = std::map<std::string, nlohmann::json>;

// The values that mlk diff compares: the values in the run's experiment, the image, the commit, and the first
// digits of the digest of each submitted file.
Values values_of(const StoredRun& run) {
  constexpr std::size_t shown_digits = 12;
  Values out = values_by_path(run.experiment);
  // An image with a digest is left out, since mlk has built most of these from the code and the packages,
  // which are compared anyway.
  if (run.image.find('@') == run.image.npos && !run.image.empty()) out["image"] = run.image;
  if (const std::string commit = commit_of(run.code_source); !commit.empty())
    out["commit"] = short_commit(commit);
  if (const std::string packages = text_of(run.digests, {python_files_name}); !packages.empty())
    out["files of code.python"] = packages.substr(0, shown_digits);
  for (const auto& [entry, files] : run.digests.items()) {
    if (!files.is_object()) continue;
    for (const auto& [file, digest] : files.items())
      out["files of " + entry + ": " + file] =
          digest.is_string() ? digest.get<std::string>().substr(0, shown_digits) : "";
  }
  return out;
}

// Prints the values that differ. Returns whether any value differs.
bool print_values(const StoredRun& first, const StoredRun& second, Session& session) {
  const Values before = values_of(first), after = values_of(second);
  Values all = before;
  all.insert(after.begin(), after.end());
  ui::Table table({"KEY", first.run, second.run});
  for (const auto& [path, unused] : all) {
    const auto one = before.find(path), other = after.find(path);
    if (one != before.end() && other != after.end() && one->second == other->second) continue;
    table.add({printable(path), text_of_value(before, path), text_of_value(after, path)});
  }
  if (!table.empty()) table.print(session.out, session.out_is_terminal, session.style_out());
  return !table.empty();
}

// Removes the time after the name of each compared file, since it is only the time of a temporary copy.
std::string without_times(const std::string& text) {
  std::string out;
  bool in_head = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    std::string_view line(text.data() + at, end - at);
    if (line.starts_with("diff ")) in_head = true;
    if (line.starts_with("@@")) in_head = false;
    if (in_head && (line.starts_with("--- ") || line.starts_with("+++ "))) {
      out += std::string(line.substr(0, line.rfind('\t'))) + "\n";
    } else {
      out += line;
    }
    at = end;
  }
  return out;
}

std::string tar_of(kube::Client& client, const StoredRun& run, const registry::Access& access) {
  return run.code.empty() ? "" : fetch_code(client, client.config().name_space, run, access);
}

// The kind of an entry, which the program `diff` does not show; empty for a plain file.
std::string kind_of(const image::TarEntry& entry) {
  if (entry.kind == image::TarEntry::Kind::folder) return "folder";
  return entry.executable ? "executable" : "";
}

void print_kinds(const std::string& first, const std::string& second, Session& session) {
  std::map<std::string, std::pair<std::string, std::string>> kinds;
  for (const auto& [tar, of] : {std::pair(&first, &std::pair<std::string, std::string>::first),
                                std::pair(&second, &std::pair<std::string, std::string>::second)}) {
    if (tar->empty()) continue;
    const auto check = [&session] { session.check_interrupted(); };
    for (const image::TarFile& file : image::read_tar(*tar, check))
      kinds[file.entry.path].*of = kind_of(file.entry);
  }
  for (const auto& [path, of] : kinds) {
    if (of.first != of.second)
      session.out << (of.first.empty() ? "now " + of.second : "no longer " + of.first) << ": "
                  << printable(path) << '\n';
  }
}

// Runs the program `diff` and returns its output. Throws Error if `diff` fails, takes too long or prints too
// much; the hint says how the user can compare the code with other programs.
std::string compared(const Command& command, const StoredRun& first, const StoredRun& second,
                     const Session& session) {
  const auto refuse = [&](const std::string& why, ExitCode code = ExitCode::failure) {
    throw Error(code, "their code cannot be compared: " + why,
                fmt::format("get both, and compare the folders: {}; {}",
                            session.command("get " + first.run + " --to " + first.run),
                            session.command("get " + second.run + " --to " + second.run)));
  };
  ProcessResult result;
  try {
    result = run_process(command);
  } catch (const Error& error) {
    if (error.code() == ExitCode::interrupted) throw;
    refuse(error.what(), error.code());
  }
  if (result.timed_out)
    refuse(fmt::format("the program diff takes more than {} s",
                       std::chrono::duration_cast<std::chrono::seconds>(command.timeout).count()));
  if (result.exit_code != 0 && result.exit_code != 1)
    refuse(result.signal != 0 ? fmt::format("the program diff was ended by signal {}", result.signal)
                              : "the program diff says: " + printable(result.error));
  return result.output;
}

void print_code(kube::Client& client, const StoredRun& first, const StoredRun& second, Session& session) {
  const FolderToRemove folder(make_temporary_folder());
  const Registries registries(session, false);
  const std::string before = tar_of(client, first, registries.access()),
                    after = tar_of(client, second, registries.access());
  for (const auto& [tar, run] : {std::pair(&before, &first), std::pair(&after, &second)}) {
    fs::create_directories(folder.path() / run->run);
    if (!tar->empty())
      image::unpack(*tar, folder.path() / run->run, [&session] { session.check_interrupted(); });
  }
  print_kinds(before, after, session);
  Command command;
  command.argv = {"diff", "-ruN", "--no-dereference", first.run, second.run};
  command.env = {{"LC_ALL", "C"}};
  command.folder = folder.path().string();
  command.go_on = [&session](const ProcessResult&) {
    session.check_interrupted();
    return true;
  };
  session.print_bytes(without_times(compared(command, first, second, session)));
}

void diff(const DiffOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const auto stored = [&](const std::string& typed) {
    const RunAddress address = session.find_run(*client, typed);
    require_no_trial(address);
    return fetch_stored(*client, client->config().name_space, address.run);
  };
  const StoredRun first = stored(options.first), second = stored(options.second);
  const bool other_code = first.code != second.code;
  const bool differs = print_values(first, second, session);
  if (differs && other_code) session.out << '\n';
  if (other_code) print_code(*client, first, second, session);
  if (differs || other_code) return;
  session.note("runs " + first.run + " and " + second.run + " do not differ" +
               (first.hash == second.hash ? "" : " but in the templates of those who submitted them"));
}

}  // namespace

void add_diff(CLI::App& root, Session& session) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = root.add_subcommand("diff", "Show how two runs differ: values and code");
  command->add_option("RUN", options->first, "A run, or an experiment's name for its newest one")->required();
  command->add_option("OTHER", options->second, "The run to compare it with")->required();
  command->callback([options, &session] { diff(*options, session); });
}

}  // namespace mlk
