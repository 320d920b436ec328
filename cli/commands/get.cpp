// mlk get: prints the experiment file of a run as it was submitted. With --to, it writes the file, the code
// and the other files of the run to a folder.

#include <cerrno>
#include <filesystem>
#include <map>
#include <sys/stat.h>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/image/tar.h"
#include "cli/image/unpack.h"
#include "cli/provide/images.h"
#include "cli/render/yaml.h"
#include "cli/run/change/stored_run.h"
#include "cli/run/read/find.h"
#include "cli/session/session.h"
#include "cli/util/files.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

struct GetOptions {
  std::string run;
  std::string to;
};

// Returns where a folder of the experiment goes, as a path relative to the new folder. `named`: the path that
// the experiment gives for the folder. If this path leads out of the experiment's own folder, the function
// replaces it by `otherwise`.
fs::path place_of(nlohmann::json& named, const std::string& otherwise) {
  const fs::path path = fs::path(named.get<std::string>()).lexically_normal();
  if (path.is_relative() && *path.begin() != "..") return path;
  named = otherwise;
  return otherwise;
}

// The folder beside `to` into which the command writes everything before it renames the folder to `to`. So
// `to` is either complete or absent.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& to) : to_(goal_of(to)), aside_(beside(to_)) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(to_, error)) &&
        (!fs::is_directory(to_, error) || !fs::is_empty(to_, error)))
      throw Error(ExitCode::usage,
                  fmt::format("--to: {} is there already, and not empty", printable(to.string())));
    fs::create_directories(to_.parent_path(), error);
    if (::mkdir(path().c_str(), 0777) != 0) fail(to, std::error_code(errno, std::generic_category()));
  }

  const fs::path& path() const { return aside_.path(); }
  void done() {
    std::error_code error;
    fs::rename(path(), to_, error);
    if (error) fail(to_, error);
  }

 private:
  static fs::path goal_of(const fs::path& to) {
    const fs::path absolute = fs::absolute(to).lexically_normal();
    return absolute.has_filename() ? absolute : absolute.parent_path();
  }
  [[noreturn]] static void fail(const fs::path& folder, const std::error_code& error) {
    throw Error(ExitCode::failure,
                fmt::format("cannot make the folder {}: {}", printable(folder.string()), error.message()));
  }

  const fs::path to_;
  const FolderToRemove aside_;
};

// `tar`: the code of the run; empty if the run has no code.
void write_all(const StoredRun& stored, const FileContents& files, const std::string& tar, const fs::path& to,
               Session& session) {
  nlohmann::json experiment = stored.experiment;
  NewFolder folder(to);
  std::map<fs::path, std::string_view> of_code;
  if (files.code) {
    const fs::path code = folder.path() / place_of(experiment["code"]["path"], "code");
    fs::create_directories(code);
    image::unpack(tar, code, [&session] { session.check_interrupted(); });
    for (const image::TarFile& file : image::read_tar(tar, [&session] { session.check_interrupted(); }))
      of_code[(code / file.entry.path).lexically_normal()] = file.content;
  }
  for (nlohmann::json& entry : experiment["data"]) {
    if (!entry.contains("files")) continue;
    const auto name = entry["name"].get<std::string>();
    const fs::path place = folder.path() / place_of(entry["files"], name);
    for (const auto& [file, bytes] : files.folders.at(name)) {
      session.check_interrupted();
      const fs::path path = (place / file).lexically_normal();
      const auto same = of_code.find(path);
      if (same == of_code.end() || same->second != bytes) image::write_new_file(path, bytes);
    }
  }
  const std::string file = stored.run + ".yaml";
  image::write_new_file(folder.path() / file, to_yaml(experiment));
  folder.done();
  session.out << (to / file).string() << '\n';
  session.note("run it once more with: " +
               session.command("submit --again " + shell_word((to / file).string())));
}

void get(const GetOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::string& name_space = client->config().name_space;
  const RunAddress address = session.find_run(*client, options.run);
  require_no_trial(address);
  const StoredRun stored = fetch_stored(*client, name_space, address.run);
  if (options.to.empty()) {
    session.out << to_yaml(stored.experiment);
    if (!stored.code.empty())
      session.note("its code, too: " + session.command("get " + stored.run + " --to FOLDER"));
    return;
  }
  const Registries registries(session, false);
  const std::string tar =
      stored.code.empty() ? "" : fetch_code(*client, name_space, stored, registries.access());
  write_all(stored, fetch_stored_files(*client, name_space, stored), tar, options.to, session);
}

}  // namespace

void add_get(CLI::App& root, Session& session) {
  auto options = std::make_shared<GetOptions>();
  CLI::App* command =
      root.add_subcommand("get", "Print the experiment file of a run, or get its code as well");
  command->add_option("RUN", options->run, "A run, or an experiment's name for its newest one")->required();
  command
      ->add_option("--to", options->to,
                   "Write the file, the code and the files that travelled into a new folder")
      ->type_name("PATH");
  command->callback([options, &session] { get(*options, session); });
}

}  // namespace mlk
