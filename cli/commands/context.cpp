// mlk context: which cluster, user and namespace, which file says so, and what one may do there.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/session.h"
#include "cli/kube/access.h"

namespace mlk {
namespace {

struct ContextOptions {
  std::string output;
};

// What mlk's commands need, by the words of the researcher.
struct Need {
  std::string purpose;
  std::vector<kube::AccessQuestion> questions;
};

std::vector<Need> needs() {
  using namespace kube::resources;
  return {{"submit",
           {{"create", config_maps, ""},
            {"create", secrets, ""},
            {"create", services, ""},
            {"create", jobs, ""},
            {"list", config_maps, ""},
            {"list", jobs, ""},
            {"list", pods, ""}}},
          {"ls, status, wait",
           {{"list", config_maps, ""},
            {"list", jobs, ""},
            {"list", pods, ""},
            {"get", config_maps, ""},
            {"watch", config_maps, ""},
            {"watch", jobs, ""},
            {"watch", pods, ""}}},
          {"logs", {{"get", config_maps, ""}, {"list", pods, ""}, {"get", pods, "log"}}},
          {"stop, resume", {{"patch", config_maps, ""}, {"patch", jobs, ""}}},
          {"delete", {{"get", config_maps, ""}, {"list", services, ""}, {"delete", config_maps, ""}}},
          {"reasons of waiting runs", {{"list", events, ""}}}};
}

void context(const ContextOptions& options, Session& session) {
  const std::unique_ptr<kube::Client> client = session.connect();
  const kube::Config& config = client->config();
  const std::string server_version = kube::server_version(*client).text;
  const std::string user = kube::whoami(*client).name;
  std::vector<kube::AccessQuestion> questions;
  const std::vector<Need> all = needs();
  for (const Need& need : all)
    questions.insert(questions.end(), need.questions.begin(), need.questions.end());
  const std::vector<bool> answers = kube::may_all(*client, config.name_space, questions);

  nlohmann::json allowed = nlohmann::json::object();
  std::size_t at = 0;
  for (const Need& need : all) {
    bool yes = true;
    for (std::size_t i = 0; i < need.questions.size(); ++i) yes = answers[at++] && yes;
    allowed[need.purpose] = yes;
  }
  if (options.output == "json") {
    session.out << nlohmann::json{{"server", config.server},
                                  {"version", server_version},
                                  {"namespace", config.name_space},
                                  {"user", user},
                                  {"context", config.context},
                                  {"source", config.source},
                                  {"allowed", allowed}}
                       .dump(2)
                << '\n';
    return;
  }
  session.out << "server     " << config.server << " (Kubernetes " << server_version << ")\n"
              << "namespace  " << config.name_space << '\n'
              << "user       " << (user.empty() ? config.user : user) << '\n'
              << "context    " << (config.context.empty() ? "-" : config.context) << '\n'
              << "from       " << config.source << '\n';
  for (const Need& need : all) {
    session.out << (need.purpose == all.front().purpose ? "allowed    " : "           ") << need.purpose
                << ": " << (allowed[need.purpose] ? "yes" : "no") << '\n';
  }
}

}  // namespace

void add_context(CLI::App& root, Session& session) {
  auto options = std::make_shared<ContextOptions>();
  CLI::App* command =
      root.add_subcommand("context", "Which cluster, user and namespace, and what one may do there");
  command->add_option("-o,--output", options->output, "json")->check(CLI::IsMember({"json"}));
  command->callback([options, &session] { context(*options, session); });
}

}  // namespace mlk
