#include "cli/commands/image_gc.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/image/layer.h"
#include "cli/image/pushed.h"
#include "cli/kube/objects.h"
#include "cli/local/local.h"
#include "cli/provide/images.h"
#include "cli/registry/registry.h"
#include "cli/run/inputs/build.h"
#include "cli/session/session.h"
#include "cli/util/files.h"
#include "cli/util/text.h"
#include "cli/wait/await_run.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

struct GcOptions {
  std::string repository, unused;
  bool insecure = false, dry_run = false, yes = false;
};

std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Deletes the entries of the cache that have not been used for the time of --unused, except the layers that
// the local cluster needs. With --dry-run, only prints these entries.
void clear_cache(const GcOptions& options, Session& session) {
  const auto age = duration_option("--unused", options.unused).value_or(std::chrono::hours(24 * 30));
  const std::optional<fs::path> home = cache_home_if_any();
  if (!home) return session.note("there is no cache without a home folder");
  const fs::path cache = image::layer_cache(), packed = *home / "code";
  std::error_code error;
  std::vector<fs::path> entries;
  for (const fs::path& folder : {cache, packed}) {
    if (!fs::is_directory(folder, error)) continue;
    const std::vector<fs::path> here = image::unused_layers(folder, age);
    entries.insert(entries.end(), here.begin(), here.end());
  }
  if (!fs::is_directory(cache, error) && entries.empty()) return session.note("the cache of layers is empty");
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  const std::set<std::string> in_use = local::layers_in_use();
  for (const fs::path& entry : entries) {
    session.check_interrupted();
    // Checks the entry again, since `mlk submit` may have used the entry meanwhile.
    if (!image::is_unused(entry, age) || in_use.contains(entry.filename().string())) continue;
    bytes += image::size_on_disk(entry);
    if (entry.parent_path() == cache) ++count;  // other entries are records of packed code
    session.out << printable(entry.filename().string()) << '\n';
    if (!options.dry_run) fs::remove_all(entry, error);
    if (!options.dry_run && error)
      throw Error(ExitCode::failure,
                  fmt::format("cannot delete {}: {}", printable(entry.string()), error.message()));
  }
  session.note(fmt::format("{} {} of {} in {}", options.dry_run ? "would delete" : "deleted",
                           human_size(bytes), counted(count, "layer"), cache.string()));
}

// The digests of the images of all runs and sweeps in the namespace.
std::set<std::string> digests_in_use(kube::Client& client) {
  const kube::ListOptions of_runs{.label_selector = "app.kubernetes.io/managed-by=mlk,mlk.dev/hash",
                                  .metadata_only = true};
  std::set<std::string> out;
  for (const nlohmann::json& owner :
       client.list(kube::resources::config_maps, client.config().name_space, of_runs).items) {
    const std::string image = kube::annotation_of(owner, "mlk.dev/image");
    if (const std::size_t at = image.find('@'); at != image.npos) out.insert(image.substr(at + 1));
  }
  return out;
}

// Deletes the images that mlk has built for runs, as their tags show. Keeps an image that a run of the
// namespace uses, that has another tag, or that this machine has sent within the last hour.
void clear_repository(const GcOptions& options, Session& session) {
  constexpr std::size_t most_tags = 10'000;
  const image::Reference repository = image::parse_repository(options.repository);
  const std::unique_ptr<kube::Client> client = session.connect();
  const std::set<std::string> used = digests_in_use(*client);
  const Registries registries(session, options.insecure);
  registry::Registry registry(registries.access(), repository);
  std::map<std::string, std::string> built;  // digest -> tag
  std::set<std::string> named;               // images with tags that people have given
  for (const std::string& tag : registry.tags(repository.repository, most_tags)) {
    const std::optional<std::string> digest = registry.find_digest(repository.repository, tag);
    if (!digest) continue;
    if (is_built_tag(tag, *digest)) {
      built[*digest] = tag;
    } else {
      named.insert(*digest);
    }
  }
  const std::optional<fs::path> cache = cache_home_if_any();
  const std::size_t without_young = std::erase_if(built, [&](const auto& image) {
    return cache && !used.contains(image.first) && image::is_just_pushed(*cache, image.first);
  });
  if (without_young > 0)
    session.note(counted(without_young, "image") + " of the last hour stay: their runs may just be starting");
  std::erase_if(built,
                [&](const auto& image) { return used.contains(image.first) || named.contains(image.first); });
  for (const auto& [digest, tag] : built) session.out << printable(repository.name() + ":" + tag) << '\n';
  session.out.flush();
  const std::string what =
      fmt::format("delete {} of {}, which no run of namespace {} uses", counted(built.size(), "image"),
                  repository.name(), client->config().name_space);
  if (built.empty() || options.dry_run) return session.note("would " + what);
  if (!options.yes && !session.is_agreed(what)) return session.note("nothing was deleted");
  std::size_t deleted = 0;
  for (const auto& [digest, tag] : built) {
    session.check_interrupted();
    // While mlk waited for the confirmation, somebody may have submitted a run with this image.
    if (digests_in_use(*client).contains(digest)) {
      session.note(printable(tag) + " stays: it is in use now");
      continue;
    }
    const auto manifest = registry.find_manifest(repository.repository, digest);
    (void)registry.remove_manifest(repository.repository, digest);
    // If a run names the image by now, `mlk submit` may have found the image before its deletion. So the
    // image is restored. A later `mlk submit` does not find the image, and sends it.
    if (manifest && digests_in_use(*client).contains(digest)) {
      registry.put_manifest(repository.repository, tag, manifest->type, manifest->bytes);
      session.note(printable(tag) + " is there again: it is in use now");
      continue;
    }
    ++deleted;
  }
  session.note(
      fmt::format("deleted {}; the registry frees their layers in its own time", counted(deleted, "image")));
}

}  // namespace

void add_image_gc(CLI::App& image, Session& session) {
  auto options = std::make_shared<GcOptions>();
  CLI::App* command = image.add_subcommand("gc",
                                           "Delete layers from this machine's cache that nobody has used for "
                                           "long, or built images of a repository");
  command->add_option("REPOSITORY", options->repository,
                      "Delete there what mlk has built and no run of the namespace uses");
  command->add_option("--unused", options->unused, "Of the cache: how long; 30 days by default")
      ->type_name("DURATION");
  command->add_flag("--dry-run", options->dry_run, "Only show them");
  command->add_flag("--yes", options->yes, "With REPOSITORY: do not ask");
  command->add_flag("--insecure", options->insecure,
                    "Do not check the registry's certificate; use plain http if it has no TLS");
  command->callback([options, &session] {
    if (options->repository.empty()) {
      clear_cache(*options, session);
    } else {
      clear_repository(*options, session);
    }
  });
}

}  // namespace mlk
