// mlk get: the experiment file of a run as it was submitted, and with --to its code and files too.

#include <filesystem>
#include <fstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/session.h"
#include "cli/image/code.h"
#include "cli/image/gzip.h"
#include "cli/image/unpack.h"
#include "cli/render/yaml.h"
#include "cli/run/find.h"
#include "cli/run/stored.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

struct GetOptions {
  std::string run;
  std::string to;
};

// A folder that the experiment names, as a place below the new one. One that lay elsewhere gets a name of its
// own, which the experiment then has too.
fs::path place_of(nlohmann::json& named, const std::string& otherwise) {
  const fs::path path = fs::path(named.get<std::string>()).lexically_normal();
  if (path.is_relative() && *path.begin() != "..") return path;
  named = otherwise;
  return otherwise;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder, error))
    throw Error(ExitCode::usage,
                fmt::format("--to: {} is there already, and not empty", printable(folder.string())));
  fs::create_directories(folder, error);
  if (error)
    throw Error(ExitCode::failure,
                fmt::format("cannot make the folder {}: {}", printable(folder.string()), error.message()));
}

void write_new(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  if (std::error_code error; fs::exists(file, error))
    throw Error(ExitCode::failure, "cannot write " + printable(file.string()) + ": it is there already");
  std::ofstream out(file, std::ios::binary);
  if (!(out << text << std::flush))
    throw Error(ExitCode::failure, "cannot write " + printable(file.string()));
}

void write_all(const StoredRun& stored, const FileContents& files, const fs::path& folder, Session& session) {
  nlohmann::json experiment = stored.experiment;
  make_folder(folder);
  if (files.code) {
    const fs::path code = folder / place_of(experiment["code"]["path"], "code");
    fs::create_directories(code);
    image::unpack(image::gunzip(files.code->bytes, 2 * image::most_unpacked_code), code);
  }
  for (nlohmann::json& entry : experiment["data"]) {
    if (!entry.contains("files")) continue;
    const auto name = entry["name"].get<std::string>();
    const fs::path place = folder / place_of(entry["files"], name);
    for (const auto& [file, bytes] : files.folders.at(name)) write_new(place / file, bytes);
  }
  const fs::path file = folder / (stored.run + ".yaml");
  write_new(file, to_yaml(experiment));
  session.out << file.string() << '\n';
  session.note("submit it again with: " + session.command("submit --again " + shell_word(file.string())));
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
  write_all(stored, fetch_stored_files(*client, name_space, stored), options.to, session);
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
