// The cause of a 403 answer, found in the server's message.
#include "cli/kube/forbidden.h"

#include <set>

#include <doctest/doctest.h>

#include "cli/kube/failure.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("kube/forbidden");

namespace mlk::kube {

TEST_CASE("mlk finds the cause of a 403 by the words of the message") {
  struct Row {
    const char* message;
    Forbidden why;
  };
  const Row rows[] = {
      {R"(jobs.batch is forbidden: User "me" cannot create resource "jobs" in API group "batch" in the namespace "n")",
       Forbidden::rights},
      {R"(roles "x" is forbidden: user "me" is attempting to grant RBAC permissions not currently held)",
       Forbidden::rights},
      {R"(jobs.batch "x" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: 1, limited: 1)",
       Forbidden::quota},
      {R"(pods "x" is forbidden: failed quota: q: must specify limits.cpu for: main)", Forbidden::quota},
      {R"(pods "x" is forbidden: status unknown for quota: q, resources: pods)", Forbidden::quota},
      {R"(configmaps "x" is forbidden: unable to create new content in namespace n because it is being terminated)",
       Forbidden::terminating},
      {R"(admission webhook "policy.example.dev" denied the request: exceeded quota: of the team)",
       Forbidden::admission},
      {R"(jobs.batch "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no)",
       Forbidden::admission},
      {R"(pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true)",
       Forbidden::standards},
      {R"(pods "x" is forbidden: maximum cpu usage per Container is 200m, but limit is 2)",
       Forbidden::limits},
      {R"(pods "x" is forbidden: cpu max limit to request ratio per Container is 1, but provided ratio is 2)",
       Forbidden::limits},
      {R"(pods "x" is forbidden: error looking up service account n/nope: serviceaccount "nope" not found)",
       Forbidden::account},
      {R"(admission webhook "a.b" says no)", Forbidden::admission},
      {"a.b denied the request: no", Forbidden::admission},
      {"ValidatingAdmissionPolicy 'p' says no", Forbidden::admission},
      {"binding b denied request: no", Forbidden::admission},
      {"insufficient quota to match these scopes", Forbidden::quota},
      {R"(User "me" asks: no RBAC policy matched)", Forbidden::rights},
      {R"(User "me" cannot create: exceeded quota: q)", Forbidden::quota},
      {R"(binding b denied request: because it is being terminated)", Forbidden::admission},
      {R"(because it is being terminated: violates PodSecurity)", Forbidden::terminating},
      {R"(violates PodSecurity, and exceeded quota: q)", Forbidden::standards},
      {R"(error looking up service account: cannot get it)", Forbidden::account},
      {R"(maximum cpu usage per Pod is 1, cannot have 2)", Forbidden::limits},
      {"you are not welcome", Forbidden::other},
      {"", Forbidden::other},
  };
  for (const Row& row : rows) CHECK_MESSAGE(why_forbidden(row.message) == row.why, row.message);
}

TEST_CASE("hint_for() has a hint of its own for each known cause of a 403") {
  std::set<std::string> hints;
  for (const Forbidden why :
       {Forbidden::rights, Forbidden::quota, Forbidden::terminating, Forbidden::admission,
        Forbidden::standards, Forbidden::limits, Forbidden::account}) {
    hints.insert(hint_for(why));
    CHECK((hint_for(why).find("for the permission") != std::string::npos) == (why == Forbidden::rights));
  }
  CHECK(hints.size() == 7);
  CHECK(hint_for(Forbidden::other) == hint_for(Forbidden::rights));
  const std::string body = R"({"kind": "Status", "reason": "Forbidden", "message": "exceeded quota: q"})";
  CHECK(status_error(403, body, "", nullptr).hint() == hint_for(Forbidden::quota));
}

TEST_CASE("the hint for each cause of a 403 says what to change") {
  const struct {
    Forbidden why;
    const char* part;
  } rows[] = {{Forbidden::rights, "ask the cluster's operators for the permission"},
              {Forbidden::quota, "delete runs that are not needed (mlk ls)"},
              {Forbidden::terminating, "or wait until this one is gone"},
              {Forbidden::admission, "change the experiment (patch:) as it says"},
              {Forbidden::standards, "change what it names with patch: or user:"},
              {Forbidden::limits, "change cpu: or memory: of the role"},
              {Forbidden::account, "correct service_account:"}};
  for (const auto& row : rows) CHECK_MESSAGE(hint_for(row.why).find(row.part) != std::string::npos, row.part);
}

}  // namespace mlk::kube
