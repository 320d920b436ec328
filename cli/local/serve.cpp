// The server process of the embedded cluster.
#include <csignal>
#include <cstring>
#include <iostream>
#include <unistd.h>

#include "cli/local/api/api.h"
#include "cli/local/api/http_server.h"
#include "cli/local/controllers.h"
#include "cli/local/local.h"
#include "cli/local/node/gpus.h"
#include "cli/local/state/file_lock.h"
#include "cli/local/state/seed.h"
#include "cli/local/state/state_folder.h"
#include "cli/util/error.h"
#include "cli/util/files.h"

namespace mlk::local {

int serve(const std::filesystem::path& program) {
  const Paths paths = default_paths();
  make_state_folder(paths.root);
  const FileLock lock(paths.lock());
  if (lock.error() != 0) {
    std::cerr << "cannot lock " << paths.lock().string() << ": " << std::strerror(lock.error())
              << "; set XDG_STATE_HOME to a folder of a file system that has locks\n";
    return 1;
  }
  if (!lock.held()) {
    std::cerr << "the local cluster is running already\n";
    return 0;
  }
  // The signals are blocked before any thread starts, so that only sigwait() below receives them.
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, number);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);

  const auto now = [] { return Time(std::chrono::system_clock::now()); };
  const Credentials credentials = load_credentials(paths.root / "credentials.json");
  Store store(paths.objects());
  const std::vector<std::string> gpus = gpus_of_machine();
  seed(store, now(), gpus.size());
  PodLogs logs(paths.pods());
  Api api(store, logs, now);
  const auto before = read_address(paths);
  const HttpServer server(api, credentials, before ? before->port : 0);
  const Controllers controllers(store, logs, paths, program, gpus);
  const std::string url = "https://127.0.0.1:" + std::to_string(server.port());
  write_file_atomically(paths.kubeconfig(), kubeconfig_text(credentials, url), 0600);
  write_address(paths, {::getpid(), server.port()});
  std::cerr << "listening on " << url << '\n';

  int number = 0;
  ::sigwait(&signals, &number);
  std::cerr << "ended by signal " << number << '\n';
  try {
    write_address(paths, {0, server.port()});
  } catch (const Error& error) {  // for example a full disk; `mlk local down` also tries to write this
    std::cerr << error.what() << '\n';
  }
  // All objects are on disk at any time, so the server does not wait for the ends of streams.
  ::_exit(0);
}

}  // namespace mlk::local
