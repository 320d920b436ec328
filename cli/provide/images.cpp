#include "cli/provide/images.h"

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/image/pushed.h"
#include "cli/kube/objects.h"
#include "cli/provide/load.h"
#include "cli/session/session.h"
#include "cli/ui/progress.h"
#include "cli/ui/width.h"
#include "cli/util/files.h"
#include "cli/util/text.h"

namespace mlk {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Registries::State {
  explicit State(Session& of_command) : session(of_command) {}

  Session& session;
  registry::Access access{};
  std::atomic<bool> is_wanted{true};
  const std::thread::id own_thread = std::this_thread::get_id();
  std::mutex mutex{};
  std::vector<std::string> notes{};              // notes of other threads
  std::unique_ptr<registry::Registry> target{};  // the registry of mount() and push()
  std::unique_ptr<registry::BaseMount> base_mount{};

  std::vector<std::string> take_notes() {
    const std::lock_guard lock(mutex);
    return std::exchange(notes, {});
  }
};

Registries::Registries(Session& session, bool insecure) : state_(std::make_unique<State>(session)) {
  registry::Access& access = state_->access;
  access = registry::usual_access(session.env);
  access.insecure = insecure;
  access.go_on = [state = state_.get()] { return state->is_wanted && state->session.interrupted == 0; };
  access.note = [state = state_.get()](const std::string& text) {
    if (std::this_thread::get_id() == state->own_thread) return state->session.note(text);
    const std::lock_guard lock(state->mutex);
    state->notes.push_back(text);
  };
}

Registries::~Registries() { stop(); }

void Registries::stop() { state_->is_wanted = false; }

const registry::Access& Registries::access() const { return state_->access; }

namespace {

std::string line_of(const registry::PushProgress& progress, double seconds, bool ascii) {
  const std::uint64_t all = progress.all, sent = std::min<std::uint64_t>(progress.sent, all);
  constexpr std::size_t width = 20;
  const auto speed =
      static_cast<std::uint64_t>(static_cast<double>(progress.sent.load()) / std::max(seconds, 0.1));
  return fmt::format("{}  {} of {}  {}/s  {} layers left", ui::bar(width, sent, 0, all, ascii),
                     human_size(sent), human_size(all), human_size(speed), progress.blobs_left.load());
}

std::string layers(unsigned count) { return fmt::format("{} layer{}", count, count == 1 ? "" : "s"); }

std::string what_went(const registry::Pushed& sent) {
  std::vector<std::string> parts;
  if (sent.bytes_sent == 0) parts.emplace_back("nothing had to be sent");
  if (sent.bytes_sent > 0)
    parts.push_back(fmt::format("sent {}, {}", layers(sent.layers_sent), human_size(sent.bytes_sent)));
  if (sent.layers_there > 0)
    parts.push_back(
        fmt::format("{} {} there", layers(sent.layers_there), sent.layers_there == 1 ? "was" : "were"));
  if (sent.layers_mounted > 0)
    parts.push_back(
        fmt::format("{} came from another repository of the registry", layers(sent.layers_mounted)));
  return join(parts, "; ");
}

}  // namespace

void Registries::mount(const registry::FoundImage& base, const image::Reference& repository) {
  state_->target = std::make_unique<registry::Registry>(state_->access, repository);
  state_->base_mount = std::make_unique<registry::BaseMount>(*state_->target, repository, base);
}

std::string Registries::push(const Build& build, const image::Reference& target) {
  Session& session = state_->session;
  if (!state_->target) state_->target = std::make_unique<registry::Registry>(state_->access, target);
  registry::PushProgress progress;
  std::future<registry::Pushed> pushed = std::async(std::launch::async, [&] {
    return registry::push(*state_->target, target, build.composed, build.base, progress,
                          state_->base_mount.get());
  });
  const auto begin = steady_clock::now();
  {
    const bool ascii = session.style_err().ascii();
    ui::Progress display(
        session.err, session.live_err(), [] { return ui::terminal_width(STDERR_FILENO); }, ascii);
    while (pushed.wait_for(milliseconds(100)) != std::future_status::ready) {
      for (const std::string& note : state_->take_notes()) display.print("mlk: " + note);
      const double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
      if (progress.all > 0) display.show(line_of(progress, seconds, ascii));
    }
  }
  for (const std::string& note : state_->take_notes()) session.note(note);
  const registry::Pushed sent = pushed.get();
  session.note(fmt::format("image {}: {}", target.text(), what_went(sent)));
  if (const std::optional<std::filesystem::path> cache = cache_home_if_any())
    image::note_pushed(*cache, sent.digest);
  return target.name() + "@" + sent.digest;
}

void Registries::push_if_gone(const Build& build, const image::Reference& target) {
  try {
    if (state_->target->find_manifest(target.repository, build.composed.digest)) return;
  } catch (const Error& error) {
    if (error.code() == ExitCode::interrupted) throw;
    // mlk has sent the image just now, and the image is hardly ever gone. So it is no error if the registry
    // does not answer.
    return state_->session.note(fmt::format("whether image {} is still there could not be asked: {}",
                                            target.text(), printable(error.what())));
  }
  state_->session.note(
      fmt::format("somebody has deleted image {} meanwhile: it is sent again", target.text()));
  (void)push(build, target);
}

namespace {

std::optional<image::Platform> platform_of(kube::Client& client, const Experiment& experiment) {
  constexpr std::size_t enough = 500;
  try {
    const std::optional<kube::Resource> nodes = client.served("v1", "Node");
    if (!nodes) return std::nullopt;
    return platform_of_nodes(client.list(*nodes, "", {.metadata_only = true, .enough = enough}).items,
                             experiment);
  } catch (const Error& error) {
    if (error.code() == ExitCode::interrupted) throw;
    return std::nullopt;  // an ordinary user may not see nodes
  }
}

// Finds the runtime's image with mlk's version as its tag. `where`: the registry of the experiment's images.
std::string find_runtime(const ImageNeed& need, const std::string& where, Session& session,
                         const registry::Access& access) {
  const std::string named = runtime_reference(where, session.version);
  const image::Reference reference = image::parse_reference(named);
  registry::Registry registry(access, reference);
  const std::optional<std::string> digest = registry.find_digest(reference.repository, reference.tag);
  if (!digest)
    throw Error(ExitCode::usage, fmt::format("{} names no image, and there is no {}", need.file, named),
                "put it there: mlk build --runtime -t " + named);
  return reference.name() + "@" + *digest;
}

void require_some_image(const ImageNeed& need, const Experiment& experiment, const Session& session) {
  const bool has_runtime = experiment.has_train && !registry_of(need.prepared, experiment).empty();
  if (!session.local() && !has_runtime) require_image(experiment, need.file);
}

// Whether the namespace determines the user numbers of its pods. False if we may not see the namespace, since
// a cluster that assigns user numbers lets everybody see their own namespaces.
bool assigns_users(kube::Client& client) {
  try {
    const std::optional<nlohmann::json> found =
        client.find(kube::resources::namespaces, "", client.config().name_space);
    return found && !kube::annotation_of(*found, assigned_user_annotation).empty();
  } catch (const kube::ApiError& error) {
    if (error.status() == 403) return false;
    throw;
  }
}

// Provides the image of the experiment. Returns the function for Provided::keep_image.
std::function<void()> provide_image(const ImageNeed& need, const Experiment& experiment, FileContents& files,
                                    kube::Client& client, Session& session) {
  const bool builds = needs_build(experiment, files), dry_run = need.dry_run != DryRun::no;
  const std::string where = registry_of(need.prepared, experiment);
  if (session.local()) {
    if (!dry_run && builds) prepare_on_machine(experiment, files, Registries(session, false).access());
    return {};
  }
  const bool wants_runtime = needs_image(experiment);
  if (!builds || dry_run) provide_user(experiment, files, nullptr, client, session, need.insecure);
  if (!wants_runtime && !builds) return {};
  if (dry_run && builds) {
    session.note("an image would be built for its code, on " + experiment.image);
    return {};
  }
  const auto registries = std::make_shared<Registries>(session, need.insecure);
  if (wants_runtime) {
    files.image = find_runtime(need, where, session, registries->access());
    return {};
  }
  registry::FoundImage base =
      find_base(experiment, "", platform_of(client, experiment), registries->access());
  provide_user(experiment, files, &base.image.configuration, client, session, need.insecure);
  const auto build =
      std::make_shared<const Build>(assemble(experiment, files, std::move(base), registries->access()));
  note_base(files, *build);
  const image::Reference target = target_of("", where, experiment.name, *build);
  files.image = registries->push(*build, target);
  return [registries, build, target] { registries->push_if_gone(*build, target); };
}

}  // namespace

void provide_user(const Experiment& experiment, FileContents& files, const image::Configuration* built,
                  kube::Client& client, Session& session, bool insecure) {
  files.user.is_assigned = assigns_users(client);
  std::string unknown;
  const std::string& image = files.image.empty() ? experiment.image : files.image;
  if (built != nullptr) {
    files.user.image = user_of(*built);
  } else if (choose_user(experiment, files.user).is_guess && !image.empty()) {
    Registries registries(session, insecure);
    registry::Access access = registries.access();
    constexpr std::chrono::seconds patience{5};
    access.go_on = [go_on = access.go_on, end = steady_clock::now() + patience] {
      return go_on() && steady_clock::now() < end;
    };
    files.user.image = ask_user_of_image(image, std::move(access), unknown);
    session.check_interrupted();
  }
  if (const std::string note = note_on_user(experiment, files.user, unknown); !note.empty())
    session.note(note);
}

Provided provide(const ImageNeed& need, const Experiment& experiment, FileContents& files, Session& session) {
  if (need.dry_run == DryRun::client) return {};
  require_some_image(need, experiment, session);
  Provided out{.client = session.connect()};
  out.keep_image = provide_image(need, experiment, files, *out.client, session);
  return out;
}

}  // namespace mlk
