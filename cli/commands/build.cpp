// mlk build: makes an image of an experiment's code, or of the runtime. Then sends the image to a registry,
// or writes it to this machine's disk.

#include <filesystem>
#include <future>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"
#include "cli/local/local.h"
#include "cli/provide/images.h"
#include "cli/provide/load.h"
#include "cli/registry/save.h"
#include "cli/session/session.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

namespace fs = std::filesystem;

struct BuildOptions {
  ExperimentOptions experiment;
  bool runtime = false;
  std::string target, base, platform, destination;
  bool insecure = false;
};

// The parts of the value of --output.
struct Destination {
  bool is_oci = false;
  fs::path path;
};

// Reads "oci:DIR" or "docker-archive:FILE".
Destination parse_destination(const std::string& text) {
  for (const char* kind : {"oci:", "docker-archive:"}) {
    if (text.starts_with(kind) && text.size() > std::string_view(kind).size())
      return {.is_oci = text.starts_with("oci:"), .path = text.substr(std::string_view(kind).size())};
  }
  throw Error(ExitCode::usage, "--output takes oci:DIR or docker-archive:FILE, not '" + text + "'");
}

// Reports errors in the flags before any request to a cluster or registry.
void check_flags(const BuildOptions& options) {
  if (options.runtime == !options.experiment.file.empty())
    throw Error(ExitCode::usage,
                options.runtime ? "--runtime is built from what is installed, and takes no experiment"
                                : "give an experiment with code:, or --runtime",
                "for example: mlk build experiment.yaml");
  if (options.runtime && !(options.base.empty() && options.platform.empty()))
    throw Error(ExitCode::usage, "--base and --platform are for an experiment; --runtime has no base");
  for (const std::string* named : {&options.target, &options.base}) {
    if (!named->empty()) (void)image::parse_reference(*named);
  }
}

void save(const Build& build, const Destination& destination, const std::string& name,
          const std::function<bool()>& go_on) {
  if (destination.is_oci) {
    registry::save_oci(destination.path, name, build.composed, build.base, go_on);
  } else {
    registry::save_docker_archive(destination.path, name, build.composed, build.base, go_on);
  }
}

// Finds the base image and mounts its layers in `repository` while the code is packed, since both steps take
// about the same time. `repository`: nullopt if the image is not sent.
Build build_of_experiment(const BuildOptions& options, const ExperimentFile& file,
                          const PrepareOptions& prepared, const Experiment& experiment,
                          const std::optional<image::Reference>& repository, Registries& registries,
                          Session& session) {
  if (!experiment.effective.contains("code"))
    throw Error(ExitCode::usage, options.experiment.file + " has no code:, and so nothing to build",
                "name the folder of the program: code: .");
  std::optional<image::Platform> platform;
  if (!options.platform.empty()) platform = image::parse_platform(options.platform);
  const auto know_layers = [&](const registry::FoundImage& found) {
    if (repository) registries.mount(found, *repository);
  };
  std::future<registry::FoundImage> base = std::async(std::launch::async, [&] {
    return find_base(experiment, options.base, platform, registries.access(), know_layers);
  });
  FileContents files;
  try {
    files = read_files(file, prepared, experiment);
  } catch (...) {
    registries.stop();
    throw;
  }
  for (const std::string& warning : files.warnings) session.warn(warning);
  return assemble(experiment, files, base.get(), registries.access());
}

void build(const BuildOptions& options, Session& session) {
  check_flags(options);
  std::optional<Destination> destination;
  if (!options.destination.empty()) destination = parse_destination(options.destination);
  Registries registries(session, options.insecure);
  PrepareOptions prepared = prepare_options(options.experiment, session);
  prepared.local = false;
  prepared.all_code_is_layer = true;  // an explicitly built image contains even small code
  std::string name = "mlk-runtime", registry = prepared.registry, target = options.target;
  std::optional<Build> built;
  if (options.runtime) {
    if (target.empty() && !registry.empty()) target = runtime_reference(registry, session.version);
    built = assemble_runtime(local::own_program());
  } else {
    const ExperimentFile file = read_experiment_file(options.experiment.file);
    const Experiment experiment = load_experiment(file.text, file.name, prepared.overrides,
                                                  load_templates().names(), file_context_of(file, prepared));
    name = experiment.name;
    registry = registry_of(prepared, experiment);
    std::optional<image::Reference> repository;
    if (!destination) repository = repository_of(target, registry, name);
    built = build_of_experiment(options, file, prepared, experiment, repository, registries, session);
  }
  if (destination) {
    save(*built, *destination, target.empty() ? name + ":latest" : target, registries.access().go_on);
    session.out << printable(destination->path.string()) << '\n';
  } else {
    session.out << registries.push(*built, target_of(target, registry, name, *built)) << '\n';
  }
}

}  // namespace

void add_build(CLI::App& root, Session& session) {
  auto options = std::make_shared<BuildOptions>();
  CLI::App* command =
      root.add_subcommand("build", "Make an image of an experiment's code, or of the runtime");
  add_experiment_options(*command, options->experiment, FileIs::optional);
  command->add_flag("--runtime", options->runtime,
                    "The image of train: experiments: mlk-runtime and mlk as they are installed here");
  command
      ->add_option("-t,--tag", options->target,
                   "Where it goes; by default a repository in registry: or MLK_REGISTRY")
      ->type_name("IMAGE");
  command->add_option("--base", options->base, "Put the code on this image, not on the experiment's")
      ->type_name("IMAGE");
  command->add_option("--platform", options->platform, "Which of a base for several platforms: linux/arm64")
      ->type_name("OS/ARCH");
  command
      ->add_option("-o,--output", options->destination, "Write it to this machine's disk, and send nothing")
      ->type_name("oci:DIR|docker-archive:FILE");
  command->add_flag("--insecure", options->insecure,
                    "Do not check the registry's certificate; use plain http if it has no TLS");
  command->callback([options, &session] { build(*options, session); });
}

}  // namespace mlk
