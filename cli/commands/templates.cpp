// mlk templates: lists the templates in use, or prints one, to be copied and changed.

#include "cli/render/templates.h"

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"
#include "cli/run/inputs/prepare.h"
#include "cli/session/session.h"
#include "cli/ui/table.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

// `name` is the path of a template, or a short name: "ps" means jobs/ps.yaml, and "torch" means
// frameworks/torch.yaml.
const Template* find_template(const Templates& templates, const std::string& name) {
  for (const std::string& path :
       {name, "jobs/" + name + ".yaml", "frameworks/" + name + ".yaml", "shapes/" + name + ".yaml"}) {
    if (const Template* found = templates.find(path)) return found;
  }
  return nullptr;
}

void templates(const std::string& name, Session& session) {
  const Templates all = load_templates();
  if (name.empty()) {
    ui::Table table({"TEMPLATE", "SOURCE"});
    for (const auto& [path, file] : all.all()) table.add({path, file.source});
    table.print(session.out, session.out_is_terminal, session.style_out());
    return;
  }
  const Template* found = find_template(all, name);
  if (found == nullptr) {
    std::vector<std::string> names = all.names().job_types;
    for (const auto& [path, file] : all.all()) names.push_back(path);
    const std::string near = nearest(name, names);
    throw Error(ExitCode::not_found, "there is no template '" + name + "'",
                near.empty() ? "list them with: mlk templates" : "did you mean: mlk templates " + near);
  }
  session.out << found->text;
}

}  // namespace

void add_templates(CLI::App& root, Session& session) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = root.add_subcommand("templates", "List the templates, or print one");
  command->add_option("NAME", *name, "A job type, or a path as the list shows it");
  command->callback([name, &session] { templates(*name, session); });
}

}  // namespace mlk
