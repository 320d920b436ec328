// The rules of single fields of a kubeconfig, the service account of a pod, and hints of errors.
#include <cstdlib>
#include <filesystem>
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/login/kubeconfig.h"
#include "cli/kube/login/kubeconfig_file.h"
#include "cli/util/error.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("kube/login/kubeconfig_rules");

using namespace mlk::kube;
using mlk::Error;
using mlk::ExitCode;

namespace {

const std::string at_h = "server: 'https://h'";

// Loads a kubeconfig that uses one context, and returns the configuration, or the error with its hint.
class OneContext {
 public:
  OneContext() { places.service_account = folder.path() / "none"; }

  Config load(const std::string& cluster, const std::string& user, const ConfigFlags& flags = {}) {
    return load_text(
        "current-context: c\nclusters: [{name: k, cluster: {" + cluster + "}}]\nusers: [{name: u, user: {" +
            user + "}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}, {name: d, context: {}}]\n",
        flags);
  }
  Config load_text(const std::string& text, ConfigFlags flags = {}) {
    flags.kubeconfig = folder.write("config", text).string();
    return load_config(flags, places);
  }
  // The error and its hint, with "FOLDER" in place of the path of the folder; or "accepted".
  std::string refused(const std::function<void()>& action) const {
    try {
      action();
    } catch (const Error& error) {
      std::string text = std::string(error.what()) + " | " + error.hint();
      for (std::size_t at = text.find(folder.path().string()); at != std::string::npos;
           at = text.find(folder.path().string()))
        text.replace(at, folder.path().string().size(), "FOLDER");
      return text;
    }
    return "accepted";
  }
  std::string refusal_of(const std::string& cluster, const std::string& user, const ConfigFlags& flags = {}) {
    return refused([&] { load(cluster, user, flags); });
  }
  std::string refusal_of_text(const std::string& text) {
    return refused([&] { load_text(text); });
  }

  TemporaryFolder folder;
  ConfigPlaces places;
};

}  // namespace

TEST_CASE("a boolean in a kubeconfig is a word of YAML 1.1 in upper or lower case, and 0 or 1 is refused") {
  OneContext files;
  for (const char* yes : {"true", "True", "yes", "YES", "on", "On", "y", "Y"})
    CHECK_MESSAGE(files.load(at_h + ", insecure-skip-tls-verify: " + yes, "").insecure, yes);
  for (const char* no : {"false", "FALSE", "no", "No", "off", "OFF", "n", "N", "''", "null"})
    CHECK_MESSAGE(!files.load(at_h + ", insecure-skip-tls-verify: " + no, "").insecure, no);
  for (const char* neither : {"1", "0", "t", "maybe"})
    CHECK(files.refusal_of(at_h + ", insecure-skip-tls-verify: " + neither, "") ==
          "FOLDER/config: cluster \"k\": insecure-skip-tls-verify is neither true nor false | ");
}

TEST_CASE("compression is off if the cluster's entry has disable-compression: true") {
  OneContext files;
  CHECK(files.load(at_h, "").compression);
  CHECK(files.load(at_h + ", disable-compression: false", "").compression);
  CHECK_FALSE(files.load(at_h + ", disable-compression: true", "").compression);
}

TEST_CASE("a server's URL without a scheme gets https if the entry has settings of TLS") {
  OneContext files;
  files.folder.write("a.pem", "A");
  CHECK(files.load("server: 'h:1', certificate-authority: a.pem", "").server == "https://h:1");
  CHECK(files.load("server: 'h:1'", "client-certificate: a.pem, client-key: a.pem").server == "https://h:1");
  CHECK(files.load("server: 'localhost:1'", "").server == "http://localhost:1");
  CHECK(files.load("server: 'https://h:1///'", "").server == "https://h:1");
  CHECK(files.load("server: 'https://h#a'", "").server == "https://h");
  for (const char* blanks : {"'https://h h'", "\"https://h\\tx\"", "\"https://h\\x7f\""})
    CHECK(files.refusal_of("server: " + std::string(blanks), "").find("is not a URL") != std::string::npos);
}

TEST_CASE("a client certificate is refused for a server with plain http, even on this machine") {
  OneContext files;
  files.folder.write("a.pem", "A");
  CHECK(
      files.refusal_of("server: 'http://127.0.0.1:1'", "client-certificate: a.pem, client-key: a.pem") ==
      "FOLDER/config: cluster \"k\": user \"u\" has credentials, but server http://127.0.0.1:1 is plain http "
      "| use https://, or a user without credentials");
  CHECK(files.refusal_of("server: 'http://h:1'", "") ==
        "FOLDER/config: cluster \"k\": server http://h:1 is plain http | use https://; http:// is for this "
        "machine alone");
}

TEST_CASE("a proxy-url must begin with http, https or socks5") {
  OneContext files;
  for (const char* good : {"http://p:1", "https://p:1", "socks5://p:1"})
    CHECK(files.load(at_h + ", proxy-url: '" + good + "'", "").proxy_url == good);
  for (const char* bad : {"socks4://p:1", "p:1", "http:p"})
    CHECK(files.refusal_of(at_h + ", proxy-url: '" + bad + "'", "") ==
          "FOLDER/config: cluster \"k\": proxy-url is none of http://, https:// and socks5:// | ");
}

TEST_CASE("absolute paths of files in a kubeconfig are not changed") {
  OneContext files;
  const std::string authority = files.folder.write("elsewhere/ca.pem", "CA").string();
  const std::string token = files.folder.write("elsewhere/token", " t0k\n").string();
  const Config config = files.load(at_h + ", certificate-authority: " + authority, "tokenFile: " + token);
  CHECK(config.ca_pem == "CA");
  CHECK(config.token_file == token);
  CHECK(config.token == "t0k");
  CHECK(config.login == Login::token_file);
}

TEST_CASE("a token beside tokenFile is sent until the file is read") {
  OneContext files;
  files.folder.write("token", "from-file");
  CHECK(files.load(at_h, "token: given, tokenFile: token").token == "given");
  CHECK(files.load(at_h, "token: ' '").login == Login::none);
  files.folder.write("token", "a\nX: y");
  CHECK(files.refusal_of(at_h, "tokenFile: token") ==
        "FOLDER/config: user \"u\": the token holds control characters | ");
}

TEST_CASE("a password without a username is allowed beside tokenFile") {
  OneContext files;
  files.folder.write("token", "t");
  CHECK(files.load(at_h, "tokenFile: token, password: pw").login == Login::token_file);
  const Config config = files.load(at_h, "username: me, password: pw");
  CHECK(config.username == "me");
  CHECK(config.password == "pw");
}

TEST_CASE("impersonation without `as` is refused, and so is a line break in a header") {
  OneContext files;
  const std::string none =
      "FOLDER/config: user \"u\" has as-uid, as-groups or as-user-extra, but no \"as\" | ";
  CHECK(files.refusal_of(at_h, "as-uid: 7") == none);
  CHECK(files.refusal_of(at_h, "as-user-extra: {k: [v]}") == none);
  CHECK(files.refusal_of(at_h, "as-groups: [g]") == none);
  CHECK(files.refusal_of(at_h, "as: \"a\\nb\"") ==
        "FOLDER/config: user \"u\": Impersonate-User holds control characters | ");
  CHECK(files.refusal_of(at_h, "as: a, as-groups: [\"b\\nc\"]") ==
        "FOLDER/config: user \"u\": Impersonate-Group holds control characters | ");
  CHECK(files.load(at_h, "as: a").impersonation.size() == 1);
}

TEST_CASE("the error for an unknown auth-provider has a hint, and an id-token with a line break is refused") {
  OneContext files;
  CHECK(files.refusal_of(at_h, "auth-provider: {name: other}") ==
        "FOLDER/config: user \"u\": there is no auth-provider \"other\" any more | log in by a credential "
        "plugin, as an exec entry, or by a token");
  const std::string oidc = "auth-provider: {name: oidc, config: {idp-issuer-url: i, client-id: m, id-token: ";
  CHECK(files.load(at_h, oidc + "' x '}}").token == "x");
  CHECK(files.load(at_h, oidc + "x}}").login == Login::oidc);
  CHECK(files.refusal_of(at_h, oidc + "\"x\\ny\"}}") ==
        "FOLDER/config: user \"u\": the id-token holds control characters | ");
}

TEST_CASE("a plugin gets the cluster's extension client.authentication.k8s.io/exec, and no other extension") {
  OneContext files;
  const std::string plugin = "exec: {command: x, apiVersion: client.authentication.k8s.io/v1beta1}";
  const std::string extension =
      ", extensions: [{name: other, extension: 1}, {name: client.authentication.k8s.io/exec, extension: {a: "
      "2}}]";
  CHECK(files.load(at_h + extension, plugin).exec->cluster_extension == R"({"a":2})");
  CHECK(files.load(at_h, plugin).exec->cluster_extension.empty());
  CHECK(files.load(at_h + ", extensions: [{name: other, extension: 1}, {name: x}, 7]", plugin)
            .exec->cluster_extension.empty());
}

TEST_CASE("the error for a missing context or cluster shows the names that exist") {
  OneContext files;
  CHECK(files.refusal_of(at_h, "", {"", "e", ""}) ==
        "context \"e\" does not exist in FOLDER/config | there are: c, d");
  CHECK(files.refusal_of_text("contexts: [{name: b, context: {}}, {name: a, context: {}}]\n") ==
        "FOLDER/config: no current-context is set | pass --context with one of: a, b");
  CHECK(files.refusal_of_text("current-context: c\ncontexts: [{name: c, context: {cluster: x}}]\n"
                              "clusters: [{name: k}, {name: l}]\n") ==
        "FOLDER/config: context \"c\" names the cluster \"x\", which does not exist | there are: k, l");
  CHECK(files.refusal_of_text("current-context: c\ncontexts: [{name: c, context: {cluster: x}}]\n") ==
        "FOLDER/config: context \"c\" names the cluster \"x\", which does not exist | ");
  CHECK(files.refusal_of_text("a: b\n") ==
        "no contexts in kubeconfig FOLDER/config | pass --kubeconfig FILE, or --local for the embedded "
        "cluster");
  CHECK(
      files.refused([&] { load_config({"", "e", ""}, files.places); }).starts_with("context \"e\" does not"));
}

TEST_CASE("names, lists and kinds in a kubeconfig may be missing or empty, but entries must be maps") {
  OneContext files;
  const Kubeconfig file = parse_kubeconfig(
      "kind: ''\nclusters: null\nusers: [{name: 7, user: {as-groups: [a, null, 8, [b]], token: 1, x: null}}, "
      "{user: {token: t}}]\ncurrent-context: null\n",
      "/f");
  CHECK(file.clusters.empty());
  CHECK(file.users.at("7").lists.at("as-groups") == std::vector<std::string>{"a", "8"});
  CHECK(file.users.at("7").get("token") == "1");
  CHECK_FALSE(file.users.at("7").has("x"));
  CHECK(file.users.at("").get("token") == "t");
  CHECK(file.current_context.empty());
  CHECK(file.users.at("7").file == "/f");
  CHECK(files.refusal_of_text("users: [a]\n") ==
        "kubeconfig FOLDER/config: an entry of users is not a map | ");
  CHECK(files.refusal_of_text("contexts: [{name: a, context: [1]}]\n") ==
        "kubeconfig FOLDER/config: context \"a\" is not a map | ");
  CHECK(files.refusal_of_text("a: b\nc: [d\ne: f\n").starts_with("kubeconfig FOLDER/config: line 3: "));
}

TEST_CASE("a kubeconfig with more than 32 levels or 10000 values is refused") {
  const auto nested = [](int levels) {  // the map is the first level, the scalar the last
    return "a: " + std::string(static_cast<std::size_t>(levels - 2), '[') + "x" +
           std::string(static_cast<std::size_t>(levels - 2), ']') + "\n";
  };
  CHECK_NOTHROW(parse_kubeconfig(nested(32), "/f"));
  CHECK_THROWS_AS(parse_kubeconfig(nested(33), "/f"), Error);
  const auto values = [](int count) {  // the map and the list count, too
    std::string text = "a: [x";
    for (int i = 3; i < count; ++i) text += ",x";
    return text + "]\n";
  };
  CHECK_NOTHROW(parse_kubeconfig(values(10'000), "/f"));
  CHECK_THROWS_AS(parse_kubeconfig(values(10'001), "/f"), Error);
}

TEST_CASE("the service account of a pod is used if address, port and token exist") {
  OneContext files;
  const auto fill = [&] {
    files.places = ConfigPlaces();
    files.places.service_account = files.folder.path() / "account";
    files.places.service_host = "10.0.0.1";
    files.places.service_port = "6443";
    files.folder.write("account/token", "t0k\n");
    files.folder.write("account/ca.crt", "CA");
  };
  const auto loaded = [&] { return files.refused([&] { load_config({}, files.places); }); };
  fill();
  const Config config = load_config({}, files.places);
  CHECK(config.name_space == "default");  // no file names another namespace
  CHECK(config.login == Login::service_account);
  CHECK(config.token_file == (files.folder.path() / "account" / "token").string());
  CHECK(config.user == "service account");
  CHECK(config.user_source == "in-cluster service account");
  CHECK(config.context.empty());
  const std::string none = "no kubeconfig: neither KUBECONFIG nor HOME is set";
  files.places.service_host.clear();
  CHECK(loaded().starts_with(none));
  fill();
  files.places.service_port.clear();
  CHECK(loaded().starts_with(none));
  fill();
  std::filesystem::remove(files.folder.path() / "account" / "token");
  CHECK(loaded().starts_with(none));
  fill();
  files.folder.write("account/token", " \n");
  CHECK(loaded() == "FOLDER/account/token is empty | ");
  files.folder.write("account/token", "a\nX: y");
  CHECK(loaded() == "FOLDER/account/token holds control characters | ");
}

TEST_CASE("a context has precedence over the service account of a pod") {
  OneContext files;
  files.places.service_account = files.folder.path() / "account";
  files.places.service_host = "10.0.0.1";
  files.places.service_port = "6443";
  files.folder.write("account/token", "t0k");
  files.folder.write("account/ca.crt", "CA");
  CHECK(files.load(at_h, "").server == "https://h");
  CHECK(files.load_text("clusters: []\n").server == "https://10.0.0.1:6443");
}

TEST_CASE("places_of_process() reads the variables for the kubeconfig and for the service account of a pod") {
  const struct {
    const char* name;
    std::string ConfigPlaces::* field;
  } rows[] = {{"KUBECONFIG", &ConfigPlaces::kubeconfig_variable},
              {"HOME", &ConfigPlaces::home},
              {"KUBERNETES_SERVICE_HOST", &ConfigPlaces::service_host},
              {"KUBERNETES_SERVICE_PORT", &ConfigPlaces::service_port},
              {"POD_NAMESPACE", &ConfigPlaces::pod_namespace}};
  for (const auto& row : rows) {
    const char* before = std::getenv(row.name);
    const std::string kept = before != nullptr ? before : "";
    ::setenv(row.name, "of this test", 1);
    const std::string found = places_of_process().*row.field;
    ::unsetenv(row.name);
    const std::string without = places_of_process().*row.field;
    if (before != nullptr) ::setenv(row.name, kept.c_str(), 1);
    CHECK_MESSAGE(found == "of this test", row.name);
    CHECK_MESSAGE(without.empty(), row.name);
  }
  CHECK(places_of_process().service_account == "/var/run/secrets/kubernetes.io/serviceaccount");
}
