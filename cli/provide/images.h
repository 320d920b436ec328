// Images for commands: access to registries with the session's settings, and uploads that show their
// progress. Also finds or builds the image of a run before the run is submitted.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/args/dry_run.h"
#include "cli/kube/client.h"
#include "cli/registry/push.h"
#include "cli/run/inputs/build.h"
#include "cli/run/inputs/prepare.h"

namespace mlk {

struct Session;

// The registries that one command uses. Other threads may use access() too.
class Registries {
 public:
  Registries(Session& session, bool insecure);
  ~Registries();
  Registries(const Registries&) = delete;
  Registries& operator=(const Registries&) = delete;

  const registry::Access& access() const;
  // Asks the work in other threads to end, because its result is no longer needed. The work soon throws
  // Error{interrupted}.
  void stop();

  // Begins to mount the layers of `base` in `repository`, before the image on top of `base` is made. The tag
  // of `repository` is ignored. Call in any thread, before push() to the same repository.
  void mount(const registry::FoundImage& base, const image::Reference& repository);

  // Sends the image, with a live line on a terminal, and prints on one line what was sent. Returns
  // "repository@sha256:...". Throws Error.
  std::string push(const Build& build, const image::Reference& target);
  // Sends the image again if somebody has deleted it from the registry since push(). If the registry does not
  // answer whether the image is there, only reports this.
  void push_if_gone(const Build& build, const image::Reference& target);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

struct ImageNeed {
  const std::string& file;  // the path of the experiment file, for messages
  const PrepareOptions& prepared;
  DryRun dry_run = DryRun::no;  // with any other value, mlk builds and sends no image
  bool insecure = false;        // as in the constructor of Registries
};

// The results of the steps before a command creates the objects of an experiment.
struct Provided {
  std::unique_ptr<kube::Client> client;  // nullptr if no cluster may be contacted
  // Sends the image again if it was deleted meanwhile. Call when the ConfigMap of the run or sweep, which
  // names the image, is in the cluster. Before that, a command that deletes images does not know that the
  // image is needed. Empty if no image was built.
  std::function<void()> keep_image{};
};

inline constexpr char insecure_registry[] =
    "Do not check the certificate of the registry for built images; use plain http if it has no TLS";

// Determines the user as whom the pods can run on the cluster, and reports the user if mlk only guesses it.
// `built`: the configuration of the image, or nullptr if it is unknown. If `built` is nullptr and mlk would
// have to guess the user, mlk first asks the registry of the image, for at most 5 s.
void provide_user(const Experiment& experiment, FileContents& files, const image::Configuration* built,
                  kube::Client& client, Session& session, bool insecure);

// Connects to the cluster, and provides the image that a run or a sweep needs. Builds an image of the code
// and the packages, or searches for the runtime's image. Determines the user as whom the program can run.
// Stores the image and the user in `files`. With --local: makes the packages available on this machine. Does
// nothing in a dry run of the client. Throws Error{usage} if no image is named and none is found, and Error
// if the image cannot be built.
[[nodiscard]] Provided provide(const ImageNeed& need, const Experiment& experiment, FileContents& files,
                               Session& session);

}  // namespace mlk
