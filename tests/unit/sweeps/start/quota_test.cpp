#include "sweeps/start/quota.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/util/error.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("sweeps/start/quota");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

json quota_of(const json& hard, const std::string& name = "q") {
  return {{"metadata", {{"name", name}}}, {"spec", {{"hard", hard}}}};
}

}  // namespace

TEST_CASE("what_quota_forbids() names a quota that allows none of the objects that a trial needs") {
  struct Case {
    const char *resource, *what;
  };
  for (const Case& c : std::initializer_list<Case>{{"pods", "pods"},
                                                   {"count/pods", "pods"},
                                                   {"count/jobs.batch", "Jobs"},
                                                   {"configmaps", "ConfigMaps"},
                                                   {"count/configmaps", "ConfigMaps"}}) {
    INFO(std::string(c.resource));
    CHECK(what_quota_forbids({quota_of({{c.resource, "0"}})}) ==
          std::string("the quota 'q' allows no ") + c.what);
    CHECK(what_quota_forbids({quota_of({{c.resource, "10"}})}) == "");
  }
  CHECK(what_quota_forbids({}) == "");
}

TEST_CASE("what_quota_forbids() ignores a quota with a scope, and still reads later quotas") {
  json of_some = quota_of({{"pods", "0"}}, "some"), of_classes = of_some;
  of_some["spec"]["scopes"] = {"BestEffort"};
  of_classes["spec"]["scopeSelector"] = {{"matchExpressions", json::array({{{"operator", "Exists"}}})}};
  CHECK(what_quota_forbids({of_some, of_classes}) == "");
  CHECK(what_quota_forbids({of_some, quota_of({{"pods", "3"}}), quota_of({{"pods", "0"}}, "all")}) ==
        "the quota 'all' allows no pods");
}

TEST_CASE("the error about a quota has the name of the namespace; mlk ignores quotas that it cannot read") {
  test::FakeCluster cluster;
  kube::Client client(cluster.config());
  int code = 200;
  cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    if (!asked.path.ends_with("/resourcequotas")) return std::nullopt;
    if (code != 200) return test::refusal(code, "Refused", "no");
    local::Answer answer;
    answer.status = 200;
    answer.body = json{{"kind", "ResourceQuotaList"}, {"items", {quota_of({{"pods", "0"}})}}}.dump();
    return answer;
  });
  try {
    require_quota(client, "default");
    FAIL("it was allowed");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::cannot_start);
    CHECK(std::string(error.what()) ==
          "no trial can run in namespace 'default': the quota 'q' allows no pods");
    CHECK(error.hint() == "choose another namespace with -n, or ask for a larger quota");
  }
  for (const int refusal : {403, 404}) {
    code = refusal;
    CHECK_NOTHROW(require_quota(client, "default"));
  }
  code = 400;
  CHECK_THROWS_AS(require_quota(client, "default"), kube::ApiError);
}
