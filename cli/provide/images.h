// Images for commands: registries as the session knows them, uploads with their progress, and what a run
// needs before it is submitted.
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

// Registries, for the time of one command. Its `access` may be used in other threads too.
class Registries {
 public:
  Registries(Session& session, bool insecure);
  ~Registries();
  Registries(const Registries&) = delete;
  Registries& operator=(const Registries&) = delete;

  const registry::Access& access() const;
  // Ends what goes on in other threads, soon and with Error{interrupted} there: nobody wants it any more.
  void stop();

  // Begins to mount the layers of a base in `repository`, whose tag does not count, before the image above it
  // is made. In any thread, before push() to the same.
  void mount(const registry::FoundImage& base, const image::Reference& repository);

  // Sends the image, with a live line on a terminal, and says on one line what went. Returns
  // "repository@sha256:...". Throws Error.
  std::string push(const Build& build, const image::Reference& target);
  // Once more if the image has gone from the registry since. If that cannot be asked, says so.
  void push_if_gone(const Build& build, const image::Reference& target);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

struct ImageNeed {
  const std::string& file;  // the experiment's, for messages
  const PrepareOptions& prepared;
  DryRun dry_run = DryRun::no;  // else nothing is built or sent
  bool insecure = false;        // as of Registries
};

// What a command has found or made before it creates the objects of an experiment.
struct Provided {
  std::unique_ptr<kube::Client> client;  // nullptr if nobody is to be asked
  // To be called when the cluster has the owner that names the image: until then nobody who deletes images
  // knows that it is wanted. Empty if none was built.
  std::function<void()> keep_image{};
};

inline constexpr char insecure_registry[] =
    "Do not check the certificate of the registry for images that are built, and speak to one without TLS";

// Finds out as whom the pods can run on the cluster, and says so where that is a guess. `built`: the
// configuration of the image, where it is known; nullptr: its registry is asked, for 5 s at most.
void provide_user(const Experiment& experiment, FileContents& files, const image::Configuration* built,
                  kube::Client& client, Session& session, bool insecure);

// What a run or a sweep needs: the cluster, and an image. Builds the one of its code and packages, or looks
// for that of the runtime, and finds out as whom its program can run; notes both in `files`. With --local:
// has the packages on this machine. Throws Error{usage} if no image is named and none can be found, before
// anybody is asked, and Error if it cannot be built.
[[nodiscard]] Provided provide(const ImageNeed& need, const Experiment& experiment, FileContents& files,
                               Session& session);

}  // namespace mlk
