// mlk version: prints the version of mlk, and the oldest Kubernetes that it works with.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/session/session.h"
#include "cli/util/json.h"

namespace mlk {
namespace {

struct VersionOptions {
  std::string output;
};

void version(const VersionOptions& options, Session& session) {
  if (options.output == "json") {
    session.out << json_text({{"version", session.version}, {"kubernetes", ">=1.31"}}, 2) << '\n';
    return;
  }
  session.out << "mlk " << session.version << '\n';
}

}  // namespace

void add_version(CLI::App& root, Session& session) {
  auto options = std::make_shared<VersionOptions>();
  CLI::App* command = root.add_subcommand("version", "Print the version");
  command->add_option("-o,--output", options->output, "json")->check(one_of({"json"}));
  command->callback([options, &session] { version(*options, session); });
}

}  // namespace mlk
