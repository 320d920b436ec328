// mlk render: prints the Kubernetes objects of an experiment, to read them or to use them by hand. Changes
// nothing.

#include <CLI/CLI.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/local/local.h"
#include "cli/provide/load.h"
#include "cli/render/yaml.h"
#include "cli/session/session.h"
#include "cli/util/json.h"

namespace mlk {
namespace {

struct RenderCommand {
  ExperimentOptions experiment;
  std::string output = "yaml";
};

void render_command(const RenderCommand& options, Session& session) {
  const Templates templates = load_templates();
  const Prepared loaded = prepare(read_experiment_file(options.experiment.file),
                                  prepare_options(options.experiment, session), templates);
  RenderOptions render_options;
  render_options.name_space = session.global.cluster.name_space;
  render_options.version = session.version;
  render_options.local = session.local();
  render_options.local_gpus = local::gpu_count();
  const Rendered rendered = render(loaded.experiment, loaded.files, templates, render_options);
  for (const std::string& warning : rendered.warnings) session.warn(warning);
  for (const std::string& warning : loaded.files.warnings) session.warn(warning);
  if (const std::string note = note_on_user(loaded.experiment, loaded.files.user, ""); !note.empty())
    session.note(note);  // render does not ask a registry about the image
  std::vector<nlohmann::json> objects{rendered.owner};
  objects.insert(objects.end(), rendered.objects.begin(), rendered.objects.end());
  if (options.output == "json") {
    session.out << json_text({{"apiVersion", "v1"}, {"kind", "List"}, {"items", objects}}, 2) << '\n';
    return;
  }
  for (const nlohmann::json& object : objects) session.out << "---\n" << to_yaml(object);
}

}  // namespace

void add_render(CLI::App& root, Session& session) {
  auto options = std::make_shared<RenderCommand>();
  CLI::App* command = root.add_subcommand("render", "Print the Kubernetes objects of an experiment");
  add_experiment_options(*command, options->experiment);
  command->add_option("-o,--output", options->output, "yaml or json")->check(one_of({"yaml", "json"}));
  command->callback([options, &session] { render_command(*options, session); });
}

}  // namespace mlk
