// Refusals and defaults of the API. The expected answers are those of the real API server to the same
// requests.
#include <doctest/doctest.h>

#include "cli/util/hash.h"
#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/api/api_refusals");

using namespace mlk::local;
using namespace mlk::local::samples;

TEST_CASE("a refusal has the same text and fields as the refusal of a Kubernetes API server") {
  Cluster cluster;
  const auto shape = [](json status) {
    status.erase("metadata");
    return status;
  };
  CHECK(shape(cluster.ask("GET", jobs + "/nope")) ==
        json({{"kind", "Status"},
              {"apiVersion", "v1"},
              {"status", "Failure"},
              {"message", "jobs.batch \"nope\" not found"},
              {"reason", "NotFound"},
              {"details", {{"name", "nope"}, {"group", "batch"}, {"kind", "jobs"}}},
              {"code", 404}}));
  CHECK(cluster.ask("GET", maps + "/nope").at("details") == json({{"name", "nope"}, {"kind", "configmaps"}}));
  json bare = {{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", {{"name", "q"}}}};
  bare["spec"] = {{"completionMode", "Indexed"}, {"completions", 1}, {"parallelism", -1}};
  const json containers = {{"reason", "FieldValueRequired"},
                           {"message", "Required value"},
                           {"field", "spec.template.spec.containers"}};
  const json restart = {{"reason", "FieldValueRequired"},
                        {"message", "Required value: valid values: \"OnFailure\", \"Never\""},
                        {"field", "spec.template.spec.restartPolicy"}};
  const json parallelism = {{"reason", "FieldValueInvalid"},
                            {"message", "Invalid value: -1: must be greater than or equal to 0"},
                            {"field", "spec.parallelism"}};
  const json refused = cluster.ask("POST", jobs, bare);
  CHECK(refused.at("code") == 422);
  CHECK(refused.at("details") == json({{"name", "q"},
                                       {"group", "batch"},
                                       {"kind", "Job"},
                                       {"causes", {parallelism, containers, restart}}}));
  CHECK(
      refused.at("message") ==
      "Job.batch \"q\" is invalid: [spec.parallelism: Invalid value: -1: must be greater than or equal to 0, "
      "spec.template.spec.containers: Required value, spec.template.spec.restartPolicy: Required value: "
      "valid "
      "values: \"OnFailure\", \"Never\"]");
  bare["spec"] = {{"completionMode", "Indexed"}, {"template", {{"spec", {{"restartPolicy", "Never"}}}}}};
  CHECK(cluster.ask("POST", jobs, bare).at("message") ==
        "Job.batch \"q\" is invalid: spec.template.spec.containers: Required value");
  bare.erase("spec");
  CHECK(cluster.code("POST", jobs, bare) == 422);
}

TEST_CASE("a ConfigMap or Secret holds at most 1 MiB") {
  Cluster cluster;
  const std::string full(1 << 20, 'x');
  CHECK(cluster.code("POST", maps, map_named("full", {{"data", {{"k", full}}}})) == 201);
  const json refused = cluster.ask("POST", maps, map_named("over", {{"data", {{"k", full + "x"}}}}));
  CHECK(refused.at("code") == 422);
  CHECK(refused.at("message") ==
        "ConfigMap \"over\" is invalid: []: Too long: may not be more than 1048576 bytes");
  CHECK(refused.at("details").at("causes").at(0).at("reason") == "FieldValueTooLong");
  json secret = {{"apiVersion", "v1"}, {"kind", "Secret"}, {"metadata", {{"name", "s"}}}};
  secret["data"]["k"] = mlk::base64_encode(full);
  CHECK(cluster.code("POST", "/api/v1/namespaces/default/secrets", secret) == 201);
  secret["metadata"]["name"] = "t";
  secret["data"]["k"] = mlk::base64_encode(full + "x");
  CHECK(cluster.ask("POST", "/api/v1/namespaces/default/secrets", secret).at("message") ==
        "Secret \"t\" is invalid: data: Too long: may not be more than 1048576 bytes");
}

TEST_CASE("if targetPort of a Service is missing, 0 or empty, it gets the value of port") {
  Cluster cluster;
  json service = {{"apiVersion", "v1"}, {"kind", "Service"}, {"metadata", {{"name", "s"}}}};
  service["spec"] = {{"clusterIP", "None"},
                     {"ports",
                      {{{"name", "a"}, {"port", 70}},
                       {{"name", "b"}, {"port", 71}, {"targetPort", 0}},
                       {{"name", "c"}, {"port", 72}, {"targetPort", ""}},
                       {{"name", "d"}, {"port", 73}, {"targetPort", "w"}}}}};
  const json made = cluster.ask("POST", "/api/v1/namespaces/default/services", service);
  std::vector<json> targets;
  for (const json& port : made.at("spec").at("ports")) targets.push_back(port.at("targetPort"));
  CHECK(targets == std::vector<json>{70, 71, 72, "w"});
}
