#include "cli/pull/pull.h"

#include <chrono>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/files/bring.h"
#include "cli/files/folder_source.h"
#include "cli/files/pod_source.h"
#include "cli/files/reader_pod.h"
#include "cli/kube/objects.h"
#include "cli/render/helper.h"
#include "cli/render/outputs.h"
#include "cli/render/pod.h"
#include "cli/run/facts/labels.h"
#include "cli/run/inputs/prepare.h"
#include "cli/run/read/find.h"
#include "cli/run/state/outputs.h"
#include "cli/session/session.h"
#include "cli/ui/progress.h"
#include "cli/ui/table.h"
#include "cli/ui/width.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "cli/util/time.h"
#include "sweeps/read/fetch.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

// The folder of the run in one of its volumes, and how it looks to the user.
struct RunPlace {
  VolumeFolder folder;
  RunTree tree;
};

bool has_one_rank(const json& owner) {
  const json roles = json_or_null(kube::annotation_of(owner, annotations::roles));
  return roles.is_object() && roles.size() == 1 && roles.begin().value() == 1 && !roles.contains("trial");
}

std::vector<RunPlace> places_of(const json& owner, const std::string& only) {
  std::optional<VolumeFolder> outputs = outputs_of(owner);
  const std::optional<CheckpointPlace> checkpoints = checkpoint_place(owner, json());
  const RunTree tree{.has_one_rank = has_one_rank(owner), .only = only};
  std::vector<RunPlace> out;
  const bool share = outputs && checkpoints && outputs->volume_name == checkpoints->volume_name;
  if (outputs) {
    outputs->path = checkpoint_folder_of(owner);
    out.push_back({*outputs, tree});
    out.back().tree.has_checkpoints = share;
  }
  if (checkpoints && !share) {
    out.push_back({*checkpoints, tree});
    out.back().tree.has_checkpoints = true;
  }
  return out;
}

// The pods that see the volumes of a run on a cluster.
class PodsWithFiles {
 public:
  PodsWithFiles(Session& session, kube::Client& client, const RunObjects& objects)
      : session_(session), client_(client), name_space_(client.config().name_space) {
    if (const json* pod = pod_with_helper(objects.pods)) {
      pod_ = kube::name_of(*pod);
      return;
    }
    if (objects.jobs.empty())
      throw Error(ExitCode::failure,
                  "the Jobs of the run are gone, and a pod that reads its volumes is made after them");
    const std::string name = kube::name_of(objects.owner) + "-pull-" + sha256_base32(random_bytes(16), 5);
    const json& of_job = objects.jobs.front()["spec"]["template"];
    ui::Progress progress(session.err, session.live_err(), [] { return ui::terminal_width(STDERR_FILENO); });
    reader_.emplace(client_, name_space_, render_reader(objects.owner, of_job, name, load_templates()),
                    [&](const std::string& reason) {
                      progress.show("waiting for a pod that reads the files: " + reason);
                      session_.check_interrupted();
                      constexpr std::chrono::milliseconds moment{300};
                      std::this_thread::sleep_for(moment);
                    });
    pod_ = reader_->name();
  }

  std::unique_ptr<FileSource> source(const VolumeFolder& folder) const {
    const std::string mount = folder.volume_name == checkpoint_volume ? checkpoint_mount : outputs_mount;
    return std::make_unique<PodSource>(client_,
                                       PodFolder{.name_space = name_space_,
                                                 .pod = pod_,
                                                 .container = "main",
                                                 .helper = helper_path(pod_helper),
                                                 .folder = mount + "/" + folder.path},
                                       [this] { session_.check_interrupted(); });
  }

 private:
  Session& session_;
  kube::Client& client_;
  const std::string name_space_;
  std::string pod_;
  std::optional<ReaderPod> reader_;
};

std::string age_of(const FileEntry& entry) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto age =
      std::chrono::duration_cast<std::chrono::seconds>(now - std::chrono::nanoseconds(entry.mtime_ns));
  return format_duration(std::max(age, std::chrono::seconds(0)));
}

void print_list(const std::vector<ShownEntry>& entries, Session& session) {
  ui::Table table({"PATH", "SIZE", "AGE"});
  for (const ShownEntry& each : entries) {
    if (each.entry.kind == FileEntry::Kind::folder) continue;
    const bool is_link = each.entry.kind == FileEntry::Kind::link;
    table.add({printable(each.shown), is_link ? "link" : human_size(each.entry.size), age_of(each.entry)});
  }
  if (!table.empty()) table.print(session.out, session.out_is_terminal, session.style_out());
}

struct Files {
  std::vector<std::unique_ptr<FileSource>> sources;
  std::vector<std::vector<ShownEntry>> entries;  // of each source
};

// Reads the lists of all sources, and chooses the entries that the user wants.
Files find_files(const std::vector<RunPlace>& places, std::vector<std::unique_ptr<FileSource>> sources,
                 const PullOptions& options, Session& session) {
  std::vector<ShownEntry> all;
  std::map<std::string, std::size_t> source_of;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const FileSource::Listing listing = sources[i]->list();
    for (const std::string& problem : listing.problems) session.warn(problem);
    for (const FileEntry& entry : listing.entries) {
      std::optional<std::string> shown = shown_path(entry, places[i].tree);
      if (!shown || !source_of.emplace(*shown, i).second) continue;
      all.push_back({*std::move(shown), entry});
    }
  }
  Files out{std::move(sources), std::vector<std::vector<ShownEntry>>(places.size())};
  if (all.empty() && options.paths.empty()) return out;
  for (ShownEntry& each : chosen_entries(std::move(all), options.paths)) {
    const std::size_t source = source_of.at(each.shown);
    out.entries[source].push_back(std::move(each));
  }
  return out;
}

bool has_any_file(const Files& files) {
  const auto is_file = [](const ShownEntry& each) { return each.entry.kind != FileEntry::Kind::folder; };
  return std::any_of(files.entries.begin(), files.entries.end(), [&](const std::vector<ShownEntry>& entries) {
    return std::any_of(entries.begin(), entries.end(), is_file);
  });
}

// "3 files, 1.2 MiB, 40 MiB/s; 2 were there already"
std::string summary_of(const Brought& sum, const std::string& speed) {
  const std::string already = sum.there_already == 0 ? ""
                                                     : fmt::format("{} {} there already", sum.there_already,
                                                                   sum.there_already == 1 ? "was" : "were");
  if (sum.files == 0) return already.empty() ? "no files" : already;
  return fmt::format("{} file{}, {}, {}{}", sum.files, sum.files == 1 ? "" : "s", human_size(sum.bytes),
                     speed, already.empty() ? "" : "; " + already);
}

void bring_all(Files& files, const fs::path& to, Session& session) {
  std::uint64_t total = 0;
  for (const std::vector<ShownEntry>& entries : files.entries) {
    for (const ShownEntry& each : entries)
      total += each.entry.kind == FileEntry::Kind::file ? each.entry.size : 0;
  }
  std::error_code error;
  fs::create_directories(to, error);
  if (error)
    throw Error(ExitCode::failure,
                "cannot make the folder " + printable(to.string()) + ": " + error.message());
  const Clock::time_point begun = Clock::now();
  Clock::time_point shown = begun;
  Brought sum;
  const auto seconds = [&] {
    return std::max(std::chrono::duration<double>(Clock::now() - begun).count(), 1e-3);
  };
  const auto speed = [&](std::uint64_t bytes) {
    return human_size(static_cast<std::uint64_t>(static_cast<double>(bytes) / seconds())) + "/s";
  };
  {
    ui::Progress progress(session.err, session.live_err(), [] { return ui::terminal_width(STDERR_FILENO); });
    for (std::size_t i = 0; i < files.sources.size(); ++i) {
      const Brought brought = bring(*files.sources[i], files.entries[i], to, [&](const Brought& until_now) {
        constexpr std::chrono::milliseconds interval{200};
        if (Clock::now() - shown < interval) return;
        session.check_interrupted();
        shown = Clock::now();
        const std::uint64_t bytes = sum.bytes + until_now.bytes;
        progress.show(fmt::format("{} files, {} of {}, {}", sum.files + until_now.files, human_size(bytes),
                                  human_size(total), speed(bytes)));
      });
      sum.files += brought.files;
      sum.there_already += brought.there_already;
      sum.bytes += brought.bytes;
      sum.problems.insert(sum.problems.end(), brought.problems.begin(), brought.problems.end());
    }
  }
  for (const std::string& problem : sum.problems) session.warn(problem);
  if (!sum.problems.empty()) session.exit_code = ExitCode::failure;
  session.out << to.string() << '\n';
  session.note(summary_of(sum, speed(sum.bytes)) + ": " + to.string());
}

}  // namespace

void pull(const PullOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::string& name_space = client->config().name_space;
  const RunAddress address = session.find_run(*client, options.run);
  std::string run = address.run, only;
  if (address.trial) {
    const std::string of_trial = sweeps::run_of_trial(*client, name_space, address.run, *address.trial);
    if (of_trial.empty()) only = std::to_string(*address.trial);
    if (!of_trial.empty()) run = of_trial;
  }
  const RunObjects objects = fetch_run(*client, name_space, run);
  std::vector<RunPlace> places = places_of(objects.owner, only);
  const std::string called = address.trial ? fmt::format("{}/{}", address.run, *address.trial) : run;
  const auto refuse = [&](const std::string& why) {
    throw Error(ExitCode::not_found, called + " has no files to pull: " + why,
                "the key `outputs: out` of the experiment keeps what the program writes into out");
  };
  if (places.empty()) refuse("its experiment has no outputs, and no volume for checkpoints");
  std::string words = "pull " + called;
  for (const std::string& path : options.paths) words += " " + shell_word(path);
  if (!options.to.empty()) words += " --to " + shell_word(options.to);
  session.set_way_back("continue with: " + session.command(words));
  std::optional<PodsWithFiles> pods;
  std::vector<std::unique_ptr<FileSource>> sources;
  if (!session.local()) pods.emplace(session, *client, objects);
  for (RunPlace& place : places) {
    session.find_folder(place.folder, name_space);
    sources.push_back(pods ? pods->source(place.folder)
                           : std::make_unique<FolderSource>(place.folder.folder,
                                                            [&session] { session.check_interrupted(); }));
  }
  Files files = find_files(places, std::move(sources), options, session);
  if (!has_any_file(files)) refuse("nothing was written there");
  if (options.list) {
    for (const std::vector<ShownEntry>& entries : files.entries) print_list(entries, session);
    return;
  }
  const std::string folder = address.trial ? fmt::format("{}-{}", address.run, *address.trial) : run;
  bring_all(files, options.to.empty() ? folder : options.to, session);
}

}  // namespace mlk
