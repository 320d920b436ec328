#include "cli/args/dry_run.h"

#include <CLI/CLI.hpp>

#include "cli/util/error.h"

namespace mlk {

void add_dry_run(CLI::App& command, std::string& text, const std::string& description) {
  command.add_flag("--dry-run{client}", text, description)->type_name("client|server");
}

DryRun read_dry_run(const std::string& text) {
  if (text.empty()) return DryRun::no;
  if (text == "client") return DryRun::client;
  if (text == "server") return DryRun::server;
  throw Error(ExitCode::usage, "--dry-run must be client or server, not '" + text + "'",
              "for example: --dry-run=server");
}

}  // namespace mlk
