// mlk context: shows the cluster, the user and the namespace, where this configuration comes from, and the
// user's permissions.

#include <algorithm>
#include <map>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/kube/access.h"
#include "cli/kube/login/login.h"
#include "cli/session/session.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "cli/util/time.h"

namespace mlk {
namespace {

using nlohmann::json;

using Questions = std::vector<kube::AccessQuestion>;

// The permissions that a group of mlk's commands needs, with a description for researchers.
struct Need {
  std::string purpose;
  Questions questions;
};

Questions joined(Questions some, const Questions& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

// A group also has the permissions for the options of its commands: `mlk logs -f` watches the run, and
// `mlk delete --where` lists all runs. Only the group "submit" lacks those for --wait and --follow.
std::vector<Need> needs() {
  using namespace kube::resources;
  const Questions to_list{{"list", config_maps, ""}, {"list", jobs, ""}, {"list", pods, ""}};
  const Questions to_read = joined(to_list, {{"get", config_maps, ""}});
  const Questions to_watch =
      joined(to_read, {{"watch", config_maps, ""}, {"watch", jobs, ""}, {"watch", pods, ""}});
  return {{"submit", joined(to_list, {{"create", config_maps, ""},
                                      {"create", secrets, ""},
                                      {"create", services, ""},
                                      {"create", jobs, ""}})},
          {"ls, status, wait", to_watch},
          {"logs", joined(to_watch, {{"get", pods, "log"}})},
          {"stop, resume", joined(to_watch, {{"patch", config_maps, ""}, {"patch", jobs, ""}})},
          {"delete", joined(to_read, {{"list", services, ""}, {"delete", config_maps, ""}})},
          {"reasons of waiting runs", {{"list", events, ""}}}};
}

// Identifies a permission, because several groups may need the same permission.
std::string key_of(const kube::AccessQuestion& question) {
  return question.verb + "/" + question.resource.plural + "/" + question.subresource;
}

// Facts that only the cluster knows.
struct Told {
  std::string version;
  std::string known_as;  // the user's name on the cluster
  json allowed = json::object();
};

Told ask(kube::Client& client) {
  Told told;
  told.version = kube::server_version(client).text;
  told.known_as = kube::whoami(client).name;
  const std::vector<Need> all = needs();
  Questions questions;
  std::map<std::string, bool> allowed;  // by key_of()
  for (const Need& need : all) {
    for (const kube::AccessQuestion& question : need.questions) {
      if (allowed.emplace(key_of(question), false).second) questions.push_back(question);
    }
  }
  const std::vector<bool> answers = kube::may_all(client, client.config().name_space, questions);
  for (std::size_t i = 0; i < questions.size(); ++i) allowed[key_of(questions[i])] = answers[i];
  for (const Need& need : all) {
    told.allowed[need.purpose] =
        std::all_of(need.questions.begin(), need.questions.end(),
                    [&](const kube::AccessQuestion& question) { return allowed.at(key_of(question)); });
  }
  return told;
}

json or_null(const std::string& text) { return text.empty() ? json() : json(text); }

json as_json(const kube::Config& config, const kube::LoginView& login, const std::optional<Told>& told,
             const std::optional<Error>& why) {
  json out = {{"server", config.server},
              {"namespace", config.name_space},
              {"user", config.user},
              {"context", config.context},
              {"source", config.source},
              {"login",
               {{"way", login.way},
                {"plugin", or_null(login.plugin)},
                {"expires", login.expires ? json(format_time(*login.expires)) : json()}}},
              {"version", told ? json(told->version) : json()},
              {"known_as", told ? or_null(told->known_as) : json()},
              {"allowed", told ? told->allowed : json()}};
  if (why) out["reason"] = printable(why->what());
  return out;
}

std::string login_text(const kube::LoginView& login) {
  std::string text = login.way + (login.plugin.empty() ? "" : " " + login.plugin);
  if (!login.expires) return text;
  return text + ", " + kube::text_of_end(*login.expires, std::chrono::system_clock::now());
}

void print_text(std::ostream& out, const kube::Config& config, const kube::LoginView& login,
                const std::optional<Told>& told) {
  const std::string known_as = told && !told->known_as.empty() ? told->known_as : config.user;
  out << "server     " << printable(config.server)
      << (told ? " (Kubernetes " + printable(told->version) + ")" : "") << '\n'
      << "namespace  " << config.name_space << '\n'
      << "user       " << printable(known_as.empty() ? "-" : known_as) << '\n'
      << "login      " << printable(login_text(login)) << '\n'
      << "context    " << printable(config.context.empty() ? "-" : config.context) << '\n'
      << "from       " << printable(config.source) << '\n';
  if (!told) return;
  const char* title = "allowed    ";
  for (const Need& need : needs()) {
    out << title << need.purpose << ": " << (told->allowed[need.purpose] ? "yes" : "no") << '\n';
    title = "           ";
  }
}

// Shows the configuration even if the cluster cannot be reached.
void context(const std::string& output, Session& session) {
  const std::unique_ptr<kube::Client> client =
      session.connect(Session::Attended::yes, Session::Patience::none);
  const kube::Config& config = client->config();
  std::optional<Told> told;
  std::optional<Error> why;
  try {
    told = ask(*client);
  } catch (const Error& error) {
    why = error;
  }
  kube::LoginView login = kube::login_of(config);
  if (const std::optional<Time> end = client->credential_end()) login.expires = end;
  if (output == "json") {
    session.out << json_text(as_json(config, login, told, why), 2) << '\n';
  } else {
    print_text(session.out, config, login, told);
  }
  session.out << std::flush;
  if (why) throw *why;
}

}  // namespace

void add_context(CLI::App& root, Session& session) {
  auto output = std::make_shared<std::string>();
  CLI::App* command =
      root.add_subcommand("context", "Which cluster, user and namespace, and what one may do there");
  command->add_option("-o,--output", *output, "json")->check(one_of({"json"}));
  command->callback([output, &session] { context(*output, session); });
}

}  // namespace mlk
