// Checks the rules of login_cases.yaml.
#include "cli/kube/login/login.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "cli/kube/failure.h"
#include "cli/kube/login/exec_plugin.h"
#include "cli/kube/login/kubeconfig.h"
#include "cli/kube/login/kubeconfig_file.h"
#include "cli/util/hash.h"
#include "cli/util/time.h"
#include "tests/unit/kube/certificates.h"
#include "tests/unit/paths.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("kube/login/login");

using namespace mlk::kube;
using mlk::Error;

namespace {

const YAML::Node& login_cases() {
  static const YAML::Node all =
      YAML::LoadFile((mlk::test::source_dir() / "tests/unit/kube/login_cases.yaml").string());
  return all;
}

std::string node_text(const YAML::Node& node) {
  return node.IsDefined() && !node.IsNull() ? node.as<std::string>() : "";
}

std::string with_replaced(std::string where, const std::string& what, const std::string& by) {
  for (std::size_t at = where.find(what); at != std::string::npos; at = where.find(what)) {
    where.replace(at, what.size(), by);
  }
  return where;
}

bool includes_text(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

// The folder of a case, and the configuration from its kubeconfig.
class LoginCase {
 public:
  explicit LoginCase(const YAML::Node& given) : case_(given) {
    static const Certificate me = make_certificate({"me", "DNS:me"});
    folder_.write("me.crt", me.pem());
    folder_.write("me.key", me.key_pem());
    for (const auto& file : case_["files"]) folder_.write(node_text(file.first), node_text(file.second));
    if (!case_["user"].IsDefined()) return;
    const std::string cluster =
        case_["cluster"].IsDefined() ? node_text(case_["cluster"]) : "server: 'https://h:6443'";
    const std::string context = node_text(case_["context"]);
    folder_.write("config", filled("{current-context: c, clusters: [{name: k, cluster: {" + cluster +
                                   "}}], users: [{name: u, user: {" + node_text(case_["user"]) +
                                   "}}], contexts: [{name: c, context: {cluster: k, user: u" +
                                   (context.empty() ? "" : ", " + context) + "}}]}"));
  }
  std::string filled(std::string with) const {
    with = with_replaced(std::move(with), "@CERT@", "me.crt");
    with = with_replaced(std::move(with), "@KEY@", "me.key");
    return with_replaced(std::move(with), "@FOLDER@", folder_.path().string());
  }
  Config load() const {
    ConfigPlaces places;
    places.service_account = folder_.path() / "none";
    if (!case_["order"].IsDefined()) places.kubeconfig_variable = (folder_.path() / "config").string();
    for (const auto& file : case_["order"]) {
      places.kubeconfig_variable += (folder_.path() / node_text(file)).string() + ":";
    }
    return load_config({}, places);
  }

 private:
  const YAML::Node case_;
  TemporaryFolder folder_;
};

void check_login(const YAML::Node& given) {
  const LoginCase files(given);
  Config config;
  try {
    config = files.load();
  } catch (const Error& error) {
    const std::string wanted = node_text(given["error"]);
    CHECK_MESSAGE(!wanted.empty(), error.what());
    CHECK_MESSAGE(includes_text(error.what(), wanted), error.what());
    CHECK_MESSAGE(includes_text(error.hint(), node_text(given["hint"])), error.hint());
    CHECK_FALSE(includes_text(std::string(error.what()) + error.hint(), "s3cret"));
    return;
  }
  CHECK(node_text(given["error"]) == "");
  const LoginView login = login_of(config);
  const YAML::Node expect = given["expect"];
  REQUIRE(expect.IsMap());
  const std::map<std::string, std::string> found{{"way", login.way},
                                                 {"plugin", login.plugin},
                                                 {"server", config.server},
                                                 {"user", config.user},
                                                 {"namespace", config.name_space}};
  for (const auto& field : expect) {
    const std::string name = node_text(field.first), wanted = files.filled(node_text(field.second));
    if (name == "expires") {
      REQUIRE(login.expires.has_value());
      if (wanted != "true") CHECK(mlk::format_time(*login.expires) == wanted);
    } else {
      CAPTURE(name);
      CHECK(found.at(name) == wanted);
    }
  }
}

ExecPlugin plugin_of(const std::string& mode) {
  KubeconfigEntry user;
  user.file = "/home/me/.kube/config";
  return read_exec_plugin(
      {{"command", "aws"}, {"apiVersion", "client.authentication.k8s.io/v1"}, {"interactiveMode", mode}},
      user, "here");
}

}  // namespace

TEST_CASE("a kubeconfig gives the login that client-go's rules define") {
  CHECK(login_cases()["logins"].size() + login_cases()["answers"].size() +
            login_cases()["terminals"].size() >=
        60);
  for (const YAML::Node& given : login_cases()["logins"]) {
    const std::string rule = node_text(given["rule"]);
    CAPTURE(rule);
    REQUIRE(!rule.empty());
    check_login(given);
  }
}

TEST_CASE("a plugin's answer must be complete, and no error shows a secret of the answer") {
  const ExecPlugin plugin = plugin_of("Never");
  for (const YAML::Node& given : login_cases()["answers"]) {
    const std::string rule = node_text(given["rule"]);
    CAPTURE(rule);
    const std::string answer =
        given["answer"].IsDefined()
            ? node_text(given["answer"])
            : R"({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": )" +
                  with_replaced(node_text(given["status"]), "\n", "\\n") + "}";
    try {
      const Credential credential = parse_exec_credential(answer, plugin);
      CHECK(node_text(given["error"]) == "");
      CHECK(credential.token == node_text(given["token"]));
      CHECK(credential.certificate_pem == node_text(given["certificate"]));
      CHECK(credential.key_pem == (given["certificate"].IsDefined() ? "K" : ""));
      CHECK((credential.expires ? mlk::format_time(*credential.expires) : "") == node_text(given["expires"]));
    } catch (const Error& error) {
      CHECK_MESSAGE(!node_text(given["error"]).empty(), error.what());
      CHECK_MESSAGE(includes_text(error.what(), node_text(given["error"])), error.what());
      CHECK(includes_text(error.what(), "credential plugin \"aws\""));
      CHECK_FALSE(includes_text(std::string(error.what()) + error.hint(), "s3cret"));
    }
  }
}

TEST_CASE("a plugin may interact with the user if `interactiveMode` and the terminal allow this") {
  for (const YAML::Node& given : login_cases()["terminals"]) {
    const std::string rule = node_text(given["rule"]);
    CAPTURE(rule);
    try {
      const bool asks = is_interactive(plugin_of(node_text(given["mode"])), given["terminal"].as<bool>());
      CHECK(asks == given["asks"].as<bool>());
    } catch (const Error& error) {
      CHECK(given["error"].IsDefined());
      CHECK(includes_text(error.what(), node_text(given["error"])));
    }
  }
}

TEST_CASE("a plugin gets the settings of the cluster if the plugin's entry has provideClusterInfo") {
  Config config;
  config.server = "https://h:6443/prefix";
  config.ca_pem = "CA";
  config.tls_server_name = "name";
  config.proxy_url = "http://p:3128";
  config.compression = false;
  ExecPlugin plugin = plugin_of("IfAvailable");
  const auto told = [&](bool interactive) {
    return nlohmann::json::parse(exec_info(plugin, config, interactive));
  };
  CHECK(told(true) == nlohmann::json::parse(R"({"kind": "ExecCredential",
    "apiVersion": "client.authentication.k8s.io/v1", "spec": {"interactive": true}})"));
  plugin.provide_cluster_info = true;
  plugin.cluster_extension = R"({"audience": "x", "retries": 3})";
  CHECK(told(false)["spec"] == nlohmann::json::parse(R"({"interactive": false, "cluster": {
    "server": "https://h:6443/prefix", "tls-server-name": "name", "certificate-authority-data": "Q0E=",
    "proxy-url": "http://p:3128", "disable-compression": true, "config": {"audience": "x", "retries": 3}}})"));
}

TEST_CASE("the cluster's extension keeps the types of its YAML values") {
  const std::string extension =
      "{text: a, quoted: '3', number: 3, fraction: 0.5, truth: true, nothing: null, list: [1, b]}";
  const Kubeconfig file = parse_kubeconfig(
      "clusters: [{name: k, cluster: {server: 'https://h', extensions: [{name: other, extension: 1}, "
      "{name: client.authentication.k8s.io/exec, extension: " +
          extension + "}]}}]",
      "/f");
  CHECK(file.clusters.at("k").maps.at("extensions")[1]["extension"] ==
        nlohmann::json::parse(R"({"text": "a", "quoted": "3", "number": 3, "fraction": 0.5, "truth": true,
                                  "nothing": null, "list": [1, "b"]})"));
}

TEST_CASE("the stderr of a plugin is shown without control characters and secrets") {
  ExecPlugin plugin = plugin_of("Never");
  plugin.env = {{"PASSWORD", "hunter2"}, {"REGION", "eu"}};
  mlk::ProcessResult result;
  result.exit_code = 7;
  result.output = R"({"status": {"token": "t0ken-of-mine", "clientKeyData": "-----BEGIN\nk3y-line\n"}})";
  result.error = "no \x1b[31mluck\nwith hunter2 in eu: t0ken-of-mine, k3y-line\n";
  const Error error = exec_failure(plugin, result, std::chrono::seconds(180));
  CHECK(error.what() ==
        std::string(
            "credential plugin \"aws\" failed with exit code 7: no ?[31mluck; with *** in eu: ***, ***"));
}

TEST_CASE("the error for a refused token has the time of expiry if the token has expired") {
  const auto now = *mlk::parse_time("2026-11-26T12:00:00Z");
  const auto said = [&](const char* token_end) {
    Config config;
    config.server = "https://h";
    config.user = "u";
    config.source = "f";
    config.login = Login::token;
    config.token = "e30." + mlk::base64_encode("{\"exp\": " + std::string(token_end) + "}") + ".x";
    return std::string(status_error(401, "", "", &config, now).what());
  };
  const std::string refused = "the server at https://h does not accept the credentials of user \"u\" in f";
  CHECK(said("1795687200") == refused + ": token, expired 2026-11-26T10:00:00Z (2h ago)");
  CHECK(said("1795701600") == refused);
}
