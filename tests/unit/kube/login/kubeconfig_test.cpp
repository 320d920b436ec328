#include "cli/kube/login/kubeconfig.h"

#include <filesystem>
#include <functional>

#include <doctest/doctest.h>

#include "cli/kube/login/kubeconfig_file.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("kube/login/kubeconfig");

using namespace mlk::kube;
using mlk::Error;
using mlk::ExitCode;

namespace {

// A kubeconfig with one context "c" that has the given fields, in flow style.
std::string kubeconfig(const std::string& cluster, const std::string& user, const std::string& context = "") {
  return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
         "clusters: [{name: k, cluster: {" +
         cluster +
         "}}]\n"
         "users: [{name: u, user: {" +
         user +
         "}}]\n"
         "contexts: [{name: c, context: {cluster: k, user: u" +
         (context.empty() ? "" : ", " + context) + "}}]\n";
}

const std::string https = "server: 'https://h:6443'";

struct Files {
  TemporaryFolder folder;
  ConfigPlaces places;

  Files() {
    places.home = (folder.path() / "home").string();
    places.service_account = folder.path() / "serviceaccount";
  }
  Config load(const std::string& text, ConfigFlags flags = {}) {
    flags.kubeconfig = folder.write("config", text).string();
    return load_config(flags, places);
  }
  // "usage: what", or "ok".
  std::string problem(const std::string& text, const ConfigFlags& flags = {}) {
    return problem_of([&] { load(text, flags); });
  }
  static std::string problem_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return (error.code() == ExitCode::usage       ? "usage: "
              : error.code() == ExitCode::cluster   ? "cluster: "
              : error.code() == ExitCode::not_found ? "not found: "
                                                    : "other: ") +
             std::string(error.what());
    }
    return "ok";
  }
};

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("a context gives the settings of its cluster, user and namespace") {
  Files files;
  const Config config =
      files.load(kubeconfig("server: 'https://h:6443/prefix/', tls-server-name: n, proxy-url: "
                            "'http://p:3128', insecure-skip-tls-verify: true",
                            "token: ' t0k '", "namespace: team-a"));
  CHECK(config.server == "https://h:6443/prefix");
  CHECK(config.tls_server_name == "n");
  CHECK(config.proxy_url == "http://p:3128");
  CHECK(config.insecure);
  CHECK(config.token == "t0k");
  CHECK(config.name_space == "team-a");
  CHECK(config.context == "c");
  CHECK(config.user == "u");
  CHECK(config.source == (files.folder.path() / "config").string());
}

TEST_CASE("an entry comes whole from the first file that has it, and the first current-context is used") {
  Files files;
  const auto one = files.folder.write(
      "one/config",
      "contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {tokenFile: tok}}]\n");
  files.folder.write("one/tok", "from-one\n");
  const auto two = files.folder.write(
      "two/config", kubeconfig(https + ", certificate-authority: ca.pem", "token: two", "namespace: two"));
  files.folder.write("two/ca.pem", "authority");
  files.places.kubeconfig_variable = one.string() + ":" + (files.folder.path() / "missing").string() +
                                     "::" + two.string() + ":" + one.string();
  const Config config = load_config({}, files.places);
  CHECK(config.token == "from-one");         // entries are not merged field by field
  CHECK(config.name_space == "default");     // the context of the first file has no namespace
  CHECK(config.server == "https://h:6443");  // only the second file defines this name
  CHECK(config.ca_pem == "authority");       // the path is relative to the second file
  CHECK(config.token_file == (files.folder.path() / "one" / "tok").string());
  CHECK(config.source == one.string());
  CHECK(config.user_source == one.string());
}

TEST_CASE("mlk reads only the file of --kubeconfig, or else only $KUBECONFIG, or else ~/.kube/config") {
  Files files;
  files.folder.write("home/.kube/config", kubeconfig("server: 'https://home'", ""));
  CHECK(load_config({}, files.places).server == "https://home");
  files.places.kubeconfig_variable =
      files.folder.write("var", kubeconfig("server: 'https://variable'", "")).string();
  CHECK(load_config({}, files.places).server == "https://variable");
  CHECK(files.load(kubeconfig("server: 'https://flag'", "")).server == "https://flag");
  ConfigFlags flags;
  flags.kubeconfig = (files.folder.path() / "nothing").string();
  CHECK(has(Files::problem_of([&] { load_config(flags, files.places); }),
            "not found: kubeconfig " + flags.kubeconfig));
}

TEST_CASE("flags replace the context and the namespace of the file") {
  Files files;
  const std::string text = kubeconfig(https, "", "namespace: own") + "extra: ignored\n";
  CHECK(files.load(text, {"", "", "mine"}).name_space == "mine");
  CHECK(files.load(text, {"", "c", ""}).name_space == "own");
  CHECK(has(files.problem(text, {"", "d", ""}), "usage: context \"d\" does not exist in "));
  CHECK(has(files.problem(kubeconfig(https, "", "namespace: No/Name")), "is not the name of a namespace"));
}

TEST_CASE("certificates and keys are read from files, or from base64 in the fields that end in -data") {
  Files files;
  files.folder.write("cert.pem", "CERT");
  files.folder.write("key.pem", "KEY");
  const std::string data = mlk::base64_encode("CA");
  const Config config = files.load(kubeconfig(https + ", certificate-authority-data: " + data,
                                              "client-certificate: cert.pem, client-key: key.pem"));
  CHECK(config.ca_pem == "CA");
  CHECK(config.client_certificate_pem == "CERT");
  CHECK(config.client_key_pem == "KEY");
}

TEST_CASE(
    "the error for a wrong or conflicting field names the file and the entry, but never shows a secret") {
  Files files;
  files.folder.write("x.pem", "X");
  files.folder.write("empty", " \n");
  const struct {
    std::string cluster, user, what;
  } table[] = {
      {"", "", "cluster \"k\" has no server"},
      {"server: 'ftp://h'", "", "neither https:// nor http://"},
      {"server: 'https://'", "", "is not a URL"},
      {"server: 'https://me:s3cret@h'", "", "holds a user name or password"},
      {https + ", certificate-authority: x.pem, certificate-authority-data: WA==", "",
       "has both certificate-authority and"},
      {https + ", certificate-authority-data: '###s3cret'", "", "certificate-authority-data is not base64"},
      {https + ", certificate-authority: nothing.pem", "", "certificate-authority: cannot read"},
      {https + ", certificate-authority: x.pem, insecure-skip-tls-verify: true", "",
       "has both insecure-skip-tls-verify and"},
      {https + ", insecure-skip-tls-verify: maybe", "", "is neither true nor false"},
      {https + ", proxy-url: 'ftp://p'", "", "proxy-url is none of"},
      {https, "client-certificate: x.pem", "user \"u\" has a client certificate, but no key"},
      {https, "client-key: x.pem", "user \"u\" has a client key, but no certificate"},
      {https, "client-key: x.pem, client-key-data: WA==", "has both client-key and"},
      {https, "token: s3cret, username: me, password: s3cret", "more than one way to authenticate"},
      {https, "tokenFile: empty", "is empty"},
      {https, "tokenFile: nothing", "tokenFile: cannot read"},
      {https, "token: \"s3cret\\nX: y\"", "holds control characters"},
      {https, "as-groups: [a]", "but no \"as\""},
      {https, "exec: {command: aws-iam, args: [s3cret]}", "exec has no apiVersion"},
      {https, "exec: {args: []}", "exec names no command"},
      {https, "auth-provider: {name: oidc, config: {id-token: s3cret}}",
       "auth-provider oidc has no idp-issuer-url"},
      {https, "exec: {command: x}, auth-provider: {name: y}", "has both exec and auth-provider"},
      {"server: 'http://h.example'", "", "is plain http"},
      {"server: 'http://127.0.0.1:8001'", "token: s3cret",
       "has credentials, but server http://127.0.0.1:8001 is plain http"},
  };
  for (const auto& row : table) {
    const std::string problem = files.problem(kubeconfig(row.cluster, row.user));
    CHECK(has(problem, row.what));
    CHECK(has(problem, "usage: "));
    CHECK(has(problem, (files.folder.path() / "config").string()));
    CHECK(problem.find("s3cret") == std::string::npos);
  }
}

TEST_CASE("a plugin is not used if there is a token") {
  Files files;
  const std::string exec = "exec: {command: x, apiVersion: client.authentication.k8s.io/v1beta1}";
  CHECK_FALSE(files.load(kubeconfig(https, "token: t, " + exec)).exec.has_value());
  CHECK(files.load(kubeconfig(https, exec)).exec.has_value());
}

TEST_CASE("plain http is accepted only for this machine, and the scheme may be left out") {
  Files files;
  CHECK(files.load(kubeconfig("server: 'http://127.0.0.1:8001'", "")).server == "http://127.0.0.1:8001");
  CHECK(files.load(kubeconfig("server: 'localhost:8080'", "")).server == "http://localhost:8080");
  CHECK(files.load(kubeconfig("server: 'http://[::1]:8001/'", "")).server == "http://[::1]:8001");
  CHECK(files.load(kubeconfig("server: 'h:6443', insecure-skip-tls-verify: yes", "token: t")).server ==
        "https://h:6443");
  CHECK(files.load(kubeconfig("server: 'HTTPS://h:6443?x=1#y'", "")).server == "https://h:6443");
  CHECK(files.load(kubeconfig("server: 'http://127.255.0.9'", "")).server == "http://127.255.0.9");
  for (const char* other : {"http://127.evil.com", "http://127x.example", "http://127.0.0.1.example:80",
                            "http://localhost.example", "http://[::2]:1", "http://10.127.0.1",
                            "http://127.0.0.1:1@h", "http://0x7f.0.0.1", "http://127.1"}) {
    CHECK_MESSAGE(has(files.problem(kubeconfig("server: '" + std::string(other) + "'", "")), "server "),
                  other);
  }
}

TEST_CASE("the fields for impersonation become headers") {
  Files files;
  const Config config = files.load(
      kubeconfig(https, "token: t, as: boss, as-uid: '7', as-groups: [a, b], as-user-extra: {k/x: [v]}"));
  const std::vector<std::pair<std::string, std::string>> expected{{"Impersonate-User", "boss"},
                                                                  {"Impersonate-Uid", "7"},
                                                                  {"Impersonate-Group", "a"},
                                                                  {"Impersonate-Group", "b"},
                                                                  {"Impersonate-Extra-k%2Fx", "v"}};
  CHECK(config.impersonation == expected);
}

TEST_CASE("the error for a broken file says which file is broken, and what the mistake is") {
  Files files;
  CHECK(has(files.problem("clusters: [\n"),
            "usage: kubeconfig " + (files.folder.path() / "config").string() + ": line"));
  CHECK(has(files.problem("- a\n"), "not a map: is this a kubeconfig?"));
  CHECK(has(files.problem("clusters: {a: b}\n"), "clusters is not a list"));
  CHECK(has(files.problem("clusters: [{name: a, cluster: x}]\n"), "cluster \"a\" is not a map"));
  CHECK(has(files.problem("users: [{name: a}, {name: a}]\n"), "duplicate name \"a\" in users"));
  CHECK(has(files.problem("kind: Pod\n"), "kind is \"Pod\", not Config"));
  CHECK(has(files.problem(std::string("\0\1\2", 3)), "not a text file"));
  CHECK(has(files.problem(std::string(2u << 20, ' ')), "too large"));
  CHECK(has(files.problem(std::string(100'000, '[')), "usage: kubeconfig"));
  CHECK(has(files.problem(std::string(100'000, '{')), "usage: kubeconfig"));
  ConfigFlags folder;
  folder.kubeconfig = files.folder.path().string();
  CHECK(has(Files::problem_of([&] { load_config(folder, files.places); }), "is a folder"));
}

TEST_CASE("a small file that expands to a huge or endless tree is refused") {
  Files files;
  CHECK(has(files.problem("clusters: &a [*a]\n"), "nested deeper than 32 levels"));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int level = 1; level <= 9; ++level) {
    const std::string below = "*a" + std::to_string(level - 1);
    bomb += "a" + std::to_string(level) + ": &a" + std::to_string(level) + " [";
    for (int i = 0; i < 10; ++i) bomb += (i > 0 ? ", " : "") + below;
    bomb += "]\n";
  }
  CHECK(bomb.size() < 1024);
  CHECK(has(files.problem(bomb), "more than 10000 values with all aliases written out"));
  constexpr int levels = 100'000;  // of JSON, whose reader has no limit of its own
  std::string deep = "{\"clusters\": [{\"name\": \"k\", \"cluster\": {\"a\": ";
  for (int i = 0; i < levels; ++i) deep += "{\"a\":";
  deep += "1" + std::string(levels, '}') + "}}]}";
  CHECK(has(files.problem(deep), "nested deeper than 32 levels"));
}

TEST_CASE("a reference to a missing context, cluster or user is refused") {
  Files files;
  CHECK(has(files.problem("current-context: c\ncontexts: [{name: c, context: {cluster: gone}}]\n"),
            "context \"c\" names the cluster \"gone\", which does not exist"));
  CHECK(has(files.problem("current-context: c\ncontexts: [{name: c, context: {cluster: k, user: gone}}]\n"
                          "clusters: [{name: k, cluster: {server: 'https://h'}}]\n"),
            "context \"c\" names the user \"gone\", which does not exist"));
  CHECK(has(files.problem("current-context: c\ncontexts: [{name: c, context: {}}]\n"),
            "context \"c\" names no cluster"));
  CHECK(has(files.problem("current-context: gone\n"), "context \"gone\" does not exist"));
}

TEST_CASE("a kubeconfig in JSON is accepted") {
  Files files;
  const Config config = files.load(R"({"current-context": "c", "kind": "Config",
	"clusters": [{"name": "k", "cluster": {"server": "https://h", "insecure-skip-tls-verify": true}}],
	"users": [{"name": "u", "user": {"token": "t"}}],
	"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": null}}]})");
  CHECK(config.insecure);
  CHECK(config.token == "t");
  CHECK(config.name_space == "default");
}

TEST_CASE("if there is no configuration, the error lists the places that were read") {
  Files files;
  CHECK(Files::problem_of([&] { load_config({}, files.places); }) ==
        "cluster: no kubeconfig: " + files.places.home + "/.kube/config not found");
  CHECK(has(files.problem(""), "cluster: no contexts in kubeconfig "));
  CHECK(has(files.problem("contexts: [{name: a, context: {cluster: k}}]\n"),
            "cluster: " + (files.folder.path() / "config").string() + ": no current-context is set"));
  files.places.home.clear();
  CHECK(has(Files::problem_of([&] { load_config({}, files.places); }), "neither KUBECONFIG nor HOME is set"));
}

TEST_CASE("mlk uses the service account of a pod, but not in place of a broken kubeconfig") {
  Files files;
  files.folder.write("serviceaccount/token", "pod-token\n");
  files.folder.write("serviceaccount/ca.crt", "CA");
  files.folder.write("serviceaccount/namespace", "of-the-pod\n");
  files.places.service_host = "10.96.0.1";
  files.places.service_port = "443";
  const Config config = load_config({}, files.places);
  CHECK(config.server == "https://10.96.0.1:443");
  CHECK(config.token == "pod-token");
  CHECK(config.ca_pem == "CA");
  CHECK(config.name_space == "of-the-pod");
  CHECK(config.source == "in-cluster service account");
  CHECK(load_config({"", "", "mine"}, files.places).name_space == "mine");
  files.places.pod_namespace = "by-variable";
  CHECK(load_config({}, files.places).name_space == "by-variable");
  CHECK(load_config({"", "", "mine"}, files.places).name_space == "mine");
  files.places.service_host = "fd00::1";
  CHECK(load_config({}, files.places).server == "https://[fd00::1]:443");
  CHECK(files.problem("clusters: [") != "ok");
}
