#include "sweeps/lease.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "tests/unit/fake_cluster.h"

using namespace mlk;
using mlk::sweeps::DriverLease;
using nlohmann::json;

namespace {

const std::string leases_path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

// Two processes that want to drive one sweep, and the clock of both.
struct Rivals {
  test::FakeCluster cluster;
  kube::Client client{cluster.config()};
  const std::string name_space = "default";
  DriverLease::Clock::time_point time = DriverLease::Clock::now();
  DriverLease one = rival(), other = rival();

  DriverLease rival() {
    return {client, name_space, "x-abcde", "uid", {}, [this] { return time; }};
  }
  void pass(int seconds) { time += std::chrono::seconds(seconds); }
  json lease() { return cluster.ask("GET", leases_path + "/x-abcde"); }
  // From now on the server has only this to say.
  void refuse(int code, const std::string& method = "") {
    cluster.before([code, method](const local::Request& asked) -> std::optional<local::Answer> {
      if (!method.empty() && asked.method != method) return std::nullopt;
      return test::refusal(code, "Refused", "no");
    });
  }
};

}  // namespace

TEST_CASE("of two that want to drive one holds the Lease, and the other learns who") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  CHECK_FALSE(rivals.other.hold());
  CHECK(rivals.other.holder() == rivals.lease()["spec"]["holderIdentity"]);
  CHECK(rivals.lease()["metadata"]["ownerReferences"][0]["uid"] == "uid");
  for (int i = 0; i < 20; ++i) {  // as long as it is renewed
    rivals.pass(3);
    CHECK(rivals.one.hold());
    CHECK_FALSE(rivals.other.hold());
  }
}

TEST_CASE("who has not renewed the Lease for 15 s is followed by the other, and learns that") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  CHECK_FALSE(rivals.other.hold());
  rivals.pass(15);
  CHECK_FALSE(rivals.other.hold());
  rivals.pass(3);
  CHECK(rivals.other.hold());
  CHECK_FALSE(rivals.one.hold());
  CHECK(rivals.one.holder() == rivals.lease()["spec"]["holderIdentity"]);
}

TEST_CASE("the 15 s begin when the other looks for the first time: clocks of machines are not compared") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  rivals.pass(1000);
  CHECK_FALSE(rivals.other.hold());
  rivals.pass(16);
  CHECK(rivals.other.hold());
}

TEST_CASE("a Lease that is released is taken at once") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  CHECK_FALSE(rivals.other.hold());
  rivals.one.release();
  CHECK(rivals.lease()["spec"]["holderIdentity"] == "");
  rivals.pass(3);
  CHECK(rivals.other.hold());
  rivals.one.release();  // it is the other's now
  CHECK(rivals.lease()["spec"]["holderIdentity"] != "");
}

TEST_CASE("of two that take a free Lease at the same time one gets it") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  rivals.one.release();
  bool between = true;
  rivals.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.method != "PATCH" || !between) return std::nullopt;
    between = false;
    rivals.cluster.ask("PATCH", leases_path + "/x-abcde", {{"spec", {{"holderIdentity", "somebody"}}}},
                       "application/merge-patch+json");
    return std::nullopt;
  });
  CHECK_FALSE(rivals.other.hold());
  CHECK(rivals.lease()["spec"]["holderIdentity"] == "somebody");
}

TEST_CASE("a server that cannot answer costs the Lease after 10 s, and not before") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  rivals.refuse(500);
  rivals.pass(9);
  CHECK(rivals.one.hold());
  rivals.pass(2);
  CHECK_FALSE(rivals.one.hold());
  rivals.cluster.before({});
  rivals.pass(3);
  CHECK(rivals.one.hold());
}

TEST_CASE(
    "a server that has just started and refuses everybody costs the Lease, and is an error when it lasts") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  rivals.refuse(403);
  rivals.pass(5);
  CHECK(rivals.one.hold());
  rivals.pass(6);
  CHECK_FALSE(rivals.one.hold());
  rivals.pass(20);
  CHECK_THROWS_AS(rivals.one.hold(), kube::ApiError);
  rivals.cluster.before({});
  rivals.pass(3);
  CHECK(rivals.one.hold());
}

TEST_CASE("who may not have a Lease is told so") {
  for (const int code : {401, 403}) {
    Rivals rivals;
    rivals.refuse(code, code == 403 ? "POST" : "");
    CHECK_THROWS_AS(rivals.one.hold(), kube::ApiError);
  }
}
