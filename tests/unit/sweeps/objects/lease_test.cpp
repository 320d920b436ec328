#include "sweeps/objects/lease.h"

#include <atomic>
#include <string>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("sweeps/objects/lease");

using namespace mlk;
using mlk::sweeps::DriverLease;
using nlohmann::json;

namespace {

const std::string leases_path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

// Two processes that want to drive the same sweep. Both use the same clock.
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
  // From now on the server refuses all requests with this code, or only the requests with this method.
  void refuse(int code, const std::string& method = "") {
    cluster.before([code, method](const local::Request& asked) -> std::optional<local::Answer> {
      if (!method.empty() && asked.method != method) return std::nullopt;
      return test::refusal(code, "Refused", "no");
    });
  }
};

}  // namespace

TEST_CASE("a driver that renews the Lease keeps it, and another driver gets the name of the holder") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  CHECK_FALSE(rivals.other.hold());
  CHECK(rivals.other.holder() == rivals.lease()["spec"]["holderIdentity"]);
  CHECK(rivals.lease()["metadata"]["ownerReferences"][0]["uid"] == "uid");
  for (int i = 0; i < 20; ++i) {  // much longer than 15 s, with renewals
    rivals.pass(3);
    CHECK(rivals.one.hold());
    CHECK_FALSE(rivals.other.hold());
  }
}

TEST_CASE("a driver loses the Lease to another driver if it does not renew the Lease for 15 s") {
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

TEST_CASE(
    "a Lease that is not renewed expires 15 s after another driver first reads it, even if clocks differ") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  rivals.pass(1000);
  CHECK_FALSE(rivals.other.hold());
  rivals.pass(16);
  CHECK(rivals.other.hold());
}

TEST_CASE("a driver acquires a Lease at once if the holder has released it") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  CHECK_FALSE(rivals.other.hold());
  rivals.one.release();
  CHECK(rivals.lease()["spec"]["holderIdentity"] == "");
  rivals.pass(3);
  CHECK(rivals.other.hold());
  rivals.one.release();  // the other driver holds the Lease now
  CHECK(rivals.lease()["spec"]["holderIdentity"] != "");
}

TEST_CASE("release() does not change a Lease that another driver has acquired meanwhile") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  CHECK_FALSE(rivals.other.hold());
  rivals.pass(16);
  CHECK(rivals.other.hold());
  const json holder = rivals.lease()["spec"]["holderIdentity"];
  rivals.one.release();  // this driver has not read the Lease since
  CHECK(rivals.lease()["spec"]["holderIdentity"] == holder);
}

TEST_CASE("only one driver gets a free Lease if two drivers try to acquire it at the same time") {
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

TEST_CASE("a driver loses the Lease if the server has not answered for 10 s") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  rivals.refuse(500);
  rivals.pass(9);
  CHECK(rivals.one.hold());
  rivals.pass(1);
  CHECK_FALSE(rivals.one.hold());
  rivals.cluster.before({});
  rivals.pass(3);
  CHECK(rivals.one.hold());
}

TEST_CASE("a driver loses the Lease if the server refuses all requests, and gets an error after 30 s") {
  Rivals rivals;
  CHECK(rivals.one.hold());
  rivals.refuse(403);
  rivals.pass(5);
  CHECK(rivals.one.hold());
  rivals.pass(6);
  CHECK_FALSE(rivals.one.hold());
  rivals.pass(19);
  CHECK_FALSE(rivals.one.hold());
  rivals.pass(2);
  CHECK_THROWS_AS(rivals.one.hold(), kube::ApiError);
  rivals.cluster.before({});
  rivals.pass(3);
  CHECK(rivals.one.hold());
}

TEST_CASE("hold() throws an error if the user has no right to use Leases") {
  for (const int code : {401, 403}) {
    Rivals rivals;
    rivals.refuse(code, code == 403 ? "POST" : "");
    CHECK_THROWS_AS(rivals.one.hold(), kube::ApiError);
  }
}

namespace {

// An observer and the driver that it watches. Both use the same clock.
struct Onlooker : Rivals {
  sweeps::DriverWatch watch{client, name_space, "x-abcde"};

  bool misses_a_driver() { return watch.nobody_drives(time); }
};

}  // namespace

TEST_CASE("DriverWatch reports that nobody drives a sweep if nobody has held the Lease for 15 s") {
  Onlooker onlooker;
  CHECK_FALSE(onlooker.misses_a_driver());
  onlooker.pass(15);
  CHECK_FALSE(onlooker.misses_a_driver());
  onlooker.pass(2);
  CHECK(onlooker.misses_a_driver());
  CHECK(onlooker.one.hold());  // the driver exists
  onlooker.pass(2);
  CHECK_FALSE(onlooker.misses_a_driver());
}

TEST_CASE("DriverWatch reports a killed driver after 15 s, and never a driver that renews the Lease") {
  Onlooker onlooker;
  std::string renewed;
  for (int i = 0; i < 10; ++i) {
    CHECK(onlooker.one.hold());
    CHECK_FALSE(onlooker.misses_a_driver());
    CHECK(onlooker.lease()["spec"]["renewTime"] != renewed);
    renewed = onlooker.lease()["spec"]["renewTime"];
    onlooker.pass(5);
  }
  onlooker.pass(10);  // the last renewal was seen 15 s ago
  CHECK_FALSE(onlooker.misses_a_driver());
  onlooker.pass(2);
  CHECK(onlooker.misses_a_driver());
}

TEST_CASE("DriverWatch reports nothing if another driver acquires a released Lease within 15 s") {
  Onlooker onlooker;
  CHECK(onlooker.one.hold());
  CHECK_FALSE(onlooker.misses_a_driver());
  onlooker.pass(12);
  CHECK(onlooker.one.hold());
  onlooker.one.release();
  onlooker.pass(2);
  CHECK_FALSE(onlooker.misses_a_driver());
  onlooker.pass(12);  // 26 s after the first call, 14 s after the release
  CHECK_FALSE(onlooker.misses_a_driver());
  CHECK(onlooker.other.hold());
  onlooker.pass(10);
  CHECK_FALSE(onlooker.misses_a_driver());
  onlooker.other.release();  // no driver acquires the Lease
  onlooker.pass(2);
  CHECK_FALSE(onlooker.misses_a_driver());
  onlooker.pass(16);
  CHECK(onlooker.misses_a_driver());
}

TEST_CASE("DriverWatch reports nothing while the server fails or refuses") {
  for (const int code : {403, 500}) {
    INFO(code);
    Onlooker onlooker;
    CHECK_FALSE(onlooker.misses_a_driver());
    onlooker.refuse(code);
    onlooker.pass(60);
    CHECK_FALSE(onlooker.misses_a_driver());
    onlooker.cluster.before({});
    onlooker.pass(3);
    CHECK_FALSE(onlooker.misses_a_driver());  // observations from before the failure do not count
    onlooker.pass(14);
    CHECK_FALSE(onlooker.misses_a_driver());
    onlooker.pass(2);
    CHECK(onlooker.misses_a_driver());
  }
}

TEST_CASE("DriverWatch asks the server at most once in two seconds") {
  Onlooker onlooker;
  std::atomic<int> asked{0};
  onlooker.cluster.before([&](const local::Request&) -> std::optional<local::Answer> {
    ++asked;
    return std::nullopt;
  });
  for (int i = 0; i < 50; ++i) {
    onlooker.time += std::chrono::milliseconds(200);
    onlooker.misses_a_driver();
  }
  CHECK(asked == 5);
}

namespace {

// Counts the requests that reach the server.
void count_requests(Rivals& rivals, std::atomic<int>& asked) {
  rivals.cluster.before([&asked](const local::Request&) -> std::optional<local::Answer> {
    ++asked;
    return std::nullopt;
  });
}

}  // namespace

TEST_CASE("a Lease belongs to its sweep, and has a holder and a duration of 15 s") {
  Rivals rivals;
  REQUIRE(rivals.one.hold());
  const json lease = rivals.lease();
  CHECK(lease["metadata"]["labels"] ==
        json{{"app.kubernetes.io/managed-by", "mlk"}, {"mlk.dev/sweep", "x-abcde"}});
  CHECK(lease["metadata"]["ownerReferences"][0]["name"] == "x-abcde");
  CHECK(lease["spec"]["leaseDurationSeconds"] == 15);
  CHECK(lease["spec"]["holderIdentity"].get<std::string>().size() > 8);
  CHECK(parse_time(lease["spec"]["renewTime"].get<std::string>()).has_value());
}

TEST_CASE("the holder of a Lease renews it every four seconds, and other drivers read it every two seconds") {
  Rivals rivals;
  REQUIRE(rivals.one.hold());
  REQUIRE_FALSE(rivals.other.hold());
  std::atomic<int> asked{0};
  count_requests(rivals, asked);
  rivals.time += std::chrono::milliseconds(1999);
  CHECK(rivals.one.hold());
  CHECK_FALSE(rivals.other.hold());
  CHECK(asked == 0);
  rivals.time += std::chrono::milliseconds(1);
  CHECK_FALSE(rivals.other.hold());
  CHECK(asked == 1);
  rivals.time += std::chrono::milliseconds(1999);
  CHECK(rivals.one.hold());
  CHECK(asked == 1);
  rivals.time += std::chrono::milliseconds(1);
  CHECK(rivals.one.hold());
  CHECK(asked == 3);  // a read and a write
}

TEST_CASE("a driver does not hold a Lease that another driver created first, or that was deleted") {
  Rivals rivals;
  rivals.refuse(409, "POST");
  CHECK_FALSE(rivals.one.hold());
  rivals.cluster.before({});
  rivals.pass(2);
  REQUIRE(rivals.one.hold());
  rivals.refuse(404, "PATCH");
  rivals.pass(4);
  CHECK_FALSE(rivals.one.hold());
}

TEST_CASE("a driver does not get the Lease while the server fails, and gets no error") {
  for (const char* method : {"GET", "POST"}) {
    INFO(method);
    Rivals rivals;
    rivals.refuse(500, method);
    CHECK_FALSE(rivals.one.hold());
    CHECK(rivals.one.holder() == "");
  }
  Rivals rivals;
  REQUIRE(rivals.one.hold());
  REQUIRE_FALSE(rivals.other.hold());
  rivals.pass(2);
  rivals.refuse(500);
  CHECK_FALSE(rivals.other.hold());
}

TEST_CASE(
    "release() reports no error if the server refuses, and sends nothing for a driver without the Lease") {
  Rivals rivals;
  std::atomic<int> asked{0};
  count_requests(rivals, asked);
  rivals.one.release();
  CHECK(asked == 0);
  rivals.cluster.before({});
  REQUIRE(rivals.one.hold());
  rivals.refuse(500);
  rivals.one.release();
  rivals.cluster.before({});
  CHECK(rivals.lease()["spec"]["holderIdentity"] != "");
  rivals.pass(2);
  CHECK(rivals.one.hold());  // the driver recognises its own name
}
