#include "cli/provide/detach.h"

#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/local/local.h"
#include "cli/session/session.h"
#include "cli/util/text.h"
#include "sweeps/driver/detach.h"
#include "sweeps/driver/driver_job.h"
#include "sweeps/driver/driver_rights.h"
#include "sweeps/space/points_file.h"
#include "sweeps/trials/observe.h"

namespace mlk {
namespace {

using nlohmann::json;
using sweeps::AccountRights;

sweeps::DriverInput input_of(const Session& session, const sweeps::StartRequest& request,
                             const SweepSource& source, const DetachOptions& options) {
  const sweeps::Definition& sweep = request.definition;
  sweeps::DriverInput out;
  out.version = session.version;
  // The name of the file is stored without its folder, since the folder differs from machine to machine and
  // is no part of the sweep's identity.
  out.file = {std::filesystem::path(source.file.name).filename().string(), "", source.file.text};
  out.overrides = source.prepared.overrides;
  // mlk may have limited the parallelism to the CPUs of this machine, so the driver gets the limited number.
  if (request.local)
    out.overrides.flags.push_back({"--parallel", "sweep.parallel", std::to_string(sweep.spec.parallel)});
  out.parameters = source.parameters;
  for (const DataEntry& entry : sweep.first.data) {
    if (!entry.files.empty()) out.folders.push_back(entry.name);
  }
  if (const std::optional<CodeArchive>& code = sweep.files.code) {
    out.code = code->digest;
    out.python_files = code->python_files;
    out.code_in_image = code->is_layer();
    out.code_on_machine = code->on_machine;
  }
  out.image_built = sweep.files.image;
  out.user = sweep.files.user;
  out.outputs_claim = sweep.files.outputs_claim;
  out.python_on_machine = sweep.files.python_on_machine;
  if (const std::string& named = sweep.spec.points_file; !named.empty()) {
    out.texts[named] =
        read_file_beside(source.file, source.prepared, named, "sweep.points", sweeps::longest_points_file)
            .text;
  }
  for (const auto& [path, own] : request.templates.all()) {
    if (own.source != built_in_source) out.own_templates[path] = own.text;
  }
  const std::string by_environment = session.env("MLK_DRIVER_IMAGE");
  out.image = !options.image.empty()    ? options.image
              : !by_environment.empty() ? by_environment
                                        : sweep.first.image;
  out.local = request.local;
  out.sweep = sweep.identity;
  out.files_of = sweep.files_of;
  sweeps::fill_defined_as(out, sweep.files);
  return out;
}

[[noreturn]] void refuse(Session& session, const std::vector<json>& objects, const AccountRights& rights,
                         const std::string& name_space) {
  session.out << sweeps::rights_as_yaml(objects) << std::flush;
  const std::string account =
      fmt::format("ServiceAccount {} of namespace '{}'", sweeps::driver_account, name_space);
  const bool has_none = rights.missing.size() == sweeps::driver_questions(objects).size();
  const std::string lacks =
      rights.account == AccountRights::Account::missing
          ? fmt::format("the driver of a detached sweep runs as {}, which is not there", account)
      : has_none ? fmt::format("the driver of a detached sweep runs as {}, which has no Role", account)
                 : fmt::format("the driver of a detached sweep may not {}: {} lacks a part of its Role",
                               join(rights.missing, ", "), account);
  throw Error(ExitCode::cluster, lacks,
              "have an administrator of the namespace apply what is printed above, or give it yourself with "
              "--create-rbac; nothing was created");
}

void require_account(Session& session, kube::Client& client, const Templates& templates,
                     const std::string& name_space, const DetachOptions& options, bool dry_run) {
  const std::vector<json> objects = sweeps::render_driver_rights(templates, name_space);
  const AccountRights rights = sweeps::ask_for_account(client, name_space, objects);
  if (rights.enough()) {
    if (!rights.known || rights.account == AccountRights::Account::unknown)
      session.note(fmt::format(
          "you may not ask for the rights of ServiceAccount {}: the driver reports missing rights",
          sweeps::driver_account));
    return;
  }
  if (!options.create_rbac || dry_run) refuse(session, objects, rights, name_space);
  try {
    sweeps::create_driver_rights(client, name_space, objects);
  } catch (const Error& error) {
    if (error.code() == ExitCode::cluster) session.out << sweeps::rights_as_yaml(objects) << std::flush;
    throw;
  }
  session.note(fmt::format("created ServiceAccount, Role and RoleBinding {} in namespace '{}'",
                           sweeps::driver_account, name_space));
}

}  // namespace

void add_detach_options(CLI::App& command, DetachOptions& options) {
  command.add_flag("--detach", options.detach,
                   "Let a Job in the cluster start the trials and collect their results");
  command.add_flag("--create-rbac", options.create_rbac,
                   "With --detach: create the ServiceAccount and the Role that this Job needs");
  command
      .add_option("--driver-image", options.image,
                  "With --detach: an image that holds mlk [$MLK_DRIVER_IMAGE, the experiment's]")
      ->type_name("IMAGE");
}

Driver prepare_driver(Session& session, kube::Client& client, const sweeps::StartRequest& request,
                      const SweepSource& source, const DetachOptions& options) {
  const sweeps::DriverInput input = input_of(session, request, source, options);
  Driver out;
  out.input = to_text(input);
  const std::string kubeconfig = request.local ? local::kubeconfig_path().string() : "";
  out.job = render_driver(request.definition, input, request.templates, {request.name_space, kubeconfig});
  json unborn;
  unborn["metadata"]["name"] = request.definition.identity.run;
  (void)sweeps::input_objects(unborn, out.input);  // throws if the input is too large
  if (!request.local)
    require_account(session, client, request.templates, request.name_space, options, request.dry_run);
  SubmitHooks hooks{.note = [](const std::string&) {},
                    .check_interrupted = [&session] { session.check_interrupted(); }};
  if (request.dry_run) hooks.note = [&session](const std::string& text) { session.note(text); };
  Creation(client, request.name_space, hooks).check_on_server({out.job});
  return out;
}

void detach_sweep(Session& session, kube::Client& client, const Driver& driver,
                  const sweeps::Started& started, const SubmitHooks& hooks) {
  const std::string& name_space = client.config().name_space;
  const auto status = [&] {
    return sweeps::observe_sweep(sweeps::fetch_sweep(client, name_space, started.sweep, sweeps::WithPods::no),
                                 std::chrono::system_clock::now());
  };
  const Phase phase = started.started == 0 ? status().phase : Phase::running;
  if (is_final(phase)) return;  // the sweep has ended, so it needs no driver
  const bool is_new =
      sweeps::start_driver(client, name_space, started.sweep, driver.job, driver.input, hooks);
  session.note(fmt::format("its driver {} in the cluster, as job/{}{}", is_new ? "starts" : "goes on",
                           kube::name_of(driver.job),
                           session.local() ? "" : ": this machine may be switched off"));
  if (phase == Phase::stopped) {
    session.note("the sweep is stopped; let it go on with: " + session.command("resume " + started.sweep));
    return;
  }
  session.note("wait for it with: " + session.command("wait " + started.sweep) +
               "; results: " + session.command("results " + started.sweep));
}

}  // namespace mlk
