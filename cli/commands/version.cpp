// mlk version: prints the version of mlk, and with -o json also the oldest Kubernetes that mlk works with.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/session/session.h"
#include "cli/util/json.h"

namespace mlk {
namespace {

void version(const std::string& output, Session& session) {
  if (output == "json") {
    session.out << json_text({{"version", session.version}, {"kubernetes", ">=1.31"}}, 2) << '\n';
    return;
  }
  session.out << "mlk " << session.version << '\n';
}

}  // namespace

void add_version(CLI::App& root, Session& session) {
  auto output = std::make_shared<std::string>();
  CLI::App* command = root.add_subcommand("version", "Print the version");
  command->add_option("-o,--output", *output, "json")->check(one_of({"json"}));
  command->callback([output, &session] { version(*output, session); });
}

}  // namespace mlk
