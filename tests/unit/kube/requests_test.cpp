// The exact paths, queries and headers of requests. No test here needs a server.
#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/list.h"
#include "cli/kube/login/cluster_login.h"
#include "cli/kube/logs.h"
#include "cli/kube/objects.h"

TEST_SUITE_BEGIN("kube/requests");

using namespace mlk::kube;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

using Query = std::vector<std::pair<std::string, std::string>>;

}  // namespace

TEST_CASE("path_of() and api_version_of() return the path and the apiVersion of each kind") {
  const struct {
    Resource resource;
    const char *path, *api_version, *kind;
  } rows[] = {
      {resources::config_maps, "/api/v1/namespaces/n/configmaps/x", "v1", "ConfigMap"},
      {resources::secrets, "/api/v1/namespaces/n/secrets/x", "v1", "Secret"},
      {resources::services, "/api/v1/namespaces/n/services/x", "v1", "Service"},
      {resources::pods, "/api/v1/namespaces/n/pods/x", "v1", "Pod"},
      {resources::events, "/api/v1/namespaces/n/events/x", "v1", "Event"},
      {resources::nodes, "/api/v1/nodes/x", "v1", "Node"},
      {resources::jobs, "/apis/batch/v1/namespaces/n/jobs/x", "batch/v1", "Job"},
      {resources::namespaces, "/api/v1/namespaces/x", "v1", "Namespace"},
      {resources::service_accounts, "/api/v1/namespaces/n/serviceaccounts/x", "v1", "ServiceAccount"},
      {resources::roles, "/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/x",
       "rbac.authorization.k8s.io/v1", "Role"},
      {resources::role_bindings, "/apis/rbac.authorization.k8s.io/v1/namespaces/n/rolebindings/x",
       "rbac.authorization.k8s.io/v1", "RoleBinding"},
  };
  for (const auto& row : rows) {
    CHECK(path_of(row.resource, "n", "x") == row.path);
    CHECK(api_version_of(row.resource) == row.api_version);
    CHECK(row.resource.kind == row.kind);
  }
  CHECK(path_of(resources::pods, "", "x") == "/api/v1/pods/x");
}

TEST_CASE("the request for a list has its selectors, and a watch also requests bookmarks") {
  const Request plain = list_request(resources::pods, "n", {}, false);
  CHECK(plain.method == "GET");
  CHECK(plain.path == "/api/v1/namespaces/n/pods");
  CHECK(plain.query.empty());
  CHECK(plain.accept == "application/json");
  ListOptions options{.label_selector = "a=b", .field_selector = "metadata.name=x", .metadata_only = true};
  const Request list = list_request(resources::pods, "n", options, false);
  CHECK(list.query == Query{{"labelSelector", "a=b"}, {"fieldSelector", "metadata.name=x"}});
  CHECK(list.accept == "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");
  const Request watch = list_request(resources::pods, "n", options, true);
  CHECK(watch.query == Query{{"labelSelector", "a=b"},
                             {"fieldSelector", "metadata.name=x"},
                             {"watch", "1"},
                             {"allowWatchBookmarks", "true"}});
  CHECK(watch.accept == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
}

TEST_CASE("describe() gives the plural of the kind, the name and the namespace of an object") {
  CHECK(describe(resources::pods, "n", "x") == "pods/x in namespace n");
  CHECK(describe(resources::pods, "n") == "pods in namespace n");
  CHECK(describe(resources::nodes, "", "x") == "nodes/x");
}

TEST_CASE("a log request with sinceTime has neither tailLines nor sinceSeconds") {
  const Request plain = log_request("n", "p", {});
  CHECK(plain.path == "/api/v1/namespaces/n/pods/p/log");
  CHECK(plain.accept == "*/*");
  CHECK(plain.query == Query{{"timestamps", "true"}});
  LogOptions options{.container = "main", .tail_lines = 3, .since = seconds(60), .follow = true};
  CHECK(log_request("n", "p", options).query == Query{{"timestamps", "true"},
                                                      {"container", "main"},
                                                      {"follow", "true"},
                                                      {"tailLines", "3"},
                                                      {"sinceSeconds", "60"}});
  options.since = seconds(-5);
  options.tail_lines = 0;
  CHECK(log_request("n", "p", options).query == Query{{"timestamps", "true"},
                                                      {"container", "main"},
                                                      {"follow", "true"},
                                                      {"tailLines", "0"},
                                                      {"sinceSeconds", "1"}});
  options.from = *mlk::parse_time("2026-11-21T07:40:02Z");
  options.previous = true;
  options.limit_bytes = 5;
  CHECK(log_request("n", "p", options).query == Query{{"timestamps", "true"},
                                                      {"container", "main"},
                                                      {"follow", "true"},
                                                      {"sinceTime", "2026-11-21T07:40:02Z"},
                                                      {"previous", "true"},
                                                      {"limitBytes", "5"}});
}

TEST_CASE("all settings of the server in the configuration reach the connection") {
  Config config;
  config.server = "https://h:6443";
  config.ca_pem = "CA";
  config.tls_server_name = "name";
  config.proxy_url = "http://p:1";
  config.most_held = 7;
  config.impersonation = {{"Impersonate-User", "boss"}};
  config.silence = {.suspect = milliseconds(1), .leave = milliseconds(2)};
  config.longest_trying = milliseconds(3);
  mlk::http::ServerAccess access = server_of(config);
  CHECK(access.url == "https://h:6443");
  CHECK(access.ca_pem == "CA");
  CHECK(access.tls_server_name == "name");
  CHECK(access.proxy_url == "http://p:1");
  CHECK(access.most_held == 7);
  CHECK(access.headers == config.impersonation);
  CHECK(access.check_path == "/version");
  CHECK(access.silence.suspect == milliseconds(1));
  CHECK(access.silence.leave == milliseconds(2));
  CHECK(access.longest_trying == milliseconds(3));
  CHECK_FALSE(access.insecure);
  CHECK(access.compression);
  config.insecure = true;
  config.compression = false;
  access = server_of(config);
  CHECK(access.insecure);
  CHECK_FALSE(access.compression);
}

TEST_CASE("a token has precedence over a password, and no credential is sent if both are missing") {
  const auto presented = [](const Config& config) {
    ClusterLogin login(config, {});
    const auto turn = login.next(mlk::http::SteadyTime{} + seconds(100));
    REQUIRE(turn.send != nullptr);
    return turn.send->authorization + "|" + turn.send->certificate_pem + "|" + turn.send->key_pem;
  };
  Config config;
  CHECK(presented(config) == "||");
  config.username = "me";
  CHECK(presented(config) == "Basic bWU6||");
  config.password = "pw";
  config.client_certificate_pem = "C";
  config.client_key_pem = "K";
  CHECK(presented(config) == "Basic bWU6cHc=|C|K");
  config.token = "t0k";
  CHECK(presented(config) == "Bearer t0k|C|K");
}

TEST_CASE("an unchanged credential stays the same object, so that its connections are reused") {
  Config config;
  config.token = "t";
  ClusterLogin login(config, {});
  const mlk::http::SteadyTime now = mlk::http::SteadyTime{} + seconds(100);
  CHECK(login.next(now).send == login.next(now + seconds(1)).send);
  CHECK_FALSE(login.credential_end().has_value());
}
