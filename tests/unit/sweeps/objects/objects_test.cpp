// Tests how the trials and Jobs of a sweep are read from its objects and written into its objects.
#include "sweeps/objects/objects.h"

#include <set>
#include <string>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "sweeps/space/trial.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("sweeps/objects/objects");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

std::string lines_for(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers)
    text += json{{"trial", number}, {"parameters", {{"lr", number}}}}.dump() + "\n";
  return text;
}

// A ConfigMap with points: of a Job, or a growing ConfigMap without a Job.
json points_map(int number, const std::vector<int>& trials, bool by_cluster = true) {
  json map = {{"metadata", {{"name", "s-abcde-trials-" + std::to_string(number)}, {"resourceVersion", "7"}}},
              {"data", {{"points.jsonl", lines_for(trials)}}}};
  if (by_cluster) map["immutable"] = true;
  return map;
}

json trials_job(int number, const json& status = json::object(), int parallelism = 2) {
  return {{"metadata", {{"name", "s-abcde-trials-" + std::to_string(number)}}},
          {"spec", {{"parallelism", parallelism}}},
          {"status", status}};
}

json ended_by(const std::string& type, const std::string& status = "True") {
  return {{"conditions", {{{"type", type}, {"status", status}}}}};
}

SweepObjects registered(std::vector<json> config_maps, std::vector<json> jobs = {}) {
  SweepObjects objects;
  objects.owner = {{"metadata", {{"name", "s-abcde"}, {"uid", "u"}}}};
  objects.config_maps = std::move(config_maps);
  objects.jobs = std::move(jobs);
  return objects;
}

std::vector<TrialLine> new_lines(int first, int count) {
  std::vector<TrialLine> out;
  for (int i = first; i < first + count; ++i) {
    const Point point{{"lr", i}};
    out.push_back({i, hash_of(point), point, {}});
  }
  return out;
}

}  // namespace

TEST_CASE("has_finished() is true for a Job with the condition Complete or Failed") {
  const auto finished = [](const json& status) { return has_finished({{"status", status}}); };
  CHECK(finished(ended_by("Complete")));
  CHECK(finished(ended_by("Failed")));
  CHECK_FALSE(finished(ended_by("Complete", "False")));
  CHECK_FALSE(finished(ended_by("Failed", "Unknown")));
  for (const char* type : {"Suspended", "FailureTarget", "SuccessCriteriaMet"})
    CHECK_FALSE(finished(ended_by(type)));
  CHECK_FALSE(finished(json::object()));
  json several = ended_by("Suspended");
  several["conditions"].push_back({{"type", "Complete"}, {"status", "True"}});
  CHECK(finished(several));
}

TEST_CASE("number_of_job() reads the number in the name of a Job, and returns -1 for any other name") {
  CHECK(job_name("s-abcde", 12) == "s-abcde-trials-12");
  CHECK(number_of_job("s-abcde-trials-12", "s-abcde") == 12);
  CHECK(number_of_job("s-abcde-trials-0", "s-abcde") == 0);
  for (const char* name : {"s-abcde-trials-", "s-abcde-trials-x", "s-abcde-trials-1x", "s-abcde", "s-abcde-1",
                           "x-s-abcde-trials-1", "s-abcde-ledger-1", "other-trials-1"})
    CHECK_MESSAGE(number_of_job(name, "s-abcde") == -1, name);
}

TEST_CASE("last_points() returns the ConfigMap of points with the highest number") {
  const json other = {{"metadata", {{"name", "s-abcde-ledger-99"}}}};
  const SweepObjects objects =
      registered({points_map(1, {1}), points_map(10, {10}), other, points_map(9, {9})});
  REQUIRE(last_points(objects) != nullptr);
  CHECK(kube::name_of(*last_points(objects)) == "s-abcde-trials-10");
  const SweepObjects one = registered({points_map(0, {0})});
  REQUIRE(last_points(one) != nullptr);
  CHECK(kube::name_of(*last_points(one)) == "s-abcde-trials-0");
  CHECK(last_points(registered({other})) == nullptr);
}

TEST_CASE("warnings_of() drops events about objects that are not part of the sweep") {
  const auto event = [](const std::string& about) { return json{{"involvedObject", {{"name", about}}}}; };
  const std::vector<json> kept =
      warnings_of("s-abcde", {event("s-abcde-trials-0"), event("s-abcdef-trials-0"), event("s-abcde"),
                              event("x-s-abcde-1"), event("s-abcde-worker-0-x"), json::object()});
  REQUIRE(kept.size() == 2);
  CHECK(kept[0]["involvedObject"]["name"] == "s-abcde-trials-0");
  CHECK(kept[1]["involvedObject"]["name"] == "s-abcde-worker-0-x");
}

TEST_CASE("batches_of() sorts the batches by number, each with its trials and its Job") {
  const SweepObjects objects = registered(
      {points_map(10, {3}, false), points_map(2, {1, 2}), {{"metadata", {{"name", "s-abcde-ledger-0"}}}}},
      {trials_job(2), trials_job(5)});
  const std::vector<Batch> batches = batches_of(objects);
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].job == 2);
  CHECK(batches[0].by_cluster);
  REQUIRE(batches[0].object.has_value());
  CHECK(kube::name_of(*batches[0].object) == "s-abcde-trials-2");
  REQUIRE(batches[0].trials.size() == 2);
  CHECK(batches[0].trials[1].number == 2);
  CHECK(batches[0].trials[1].point == Point{{"lr", 2}});
  CHECK(batches[1].job == 10);
  CHECK_FALSE(batches[1].by_cluster);
  CHECK_FALSE(batches[1].object.has_value());
}

TEST_CASE("batches_of() counts each further line of a trial as another try") {
  const std::vector<Batch> batches =
      batches_of(registered({points_map(0, {0, 1}), points_map(1, {1, 2, 1}, false)}));
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].trials[0].attempt == 1);
  CHECK(batches[0].trials[1].attempt == 1);
  CHECK(batches[1].trials[0].attempt == 2);
  CHECK(batches[1].trials[1].attempt == 1);
  CHECK(batches[1].trials[2].attempt == 3);
}

TEST_CASE("a Job is gone if its sweep's owner says so and the Job is not listed") {
  struct Case {
    const char *created, *gone;
    bool there, is_made, is_gone;
  };
  for (const Case& c :
       std::initializer_list<Case>{{"", "", false, false, false},
                                   {"s-abcde-trials-0", "", false, true, false},
                                   {"s-abcde-trials-0", "s-abcde-trials-0", false, true, true},
                                   {"s-abcde-trials-0", "s-abcde-trials-0", true, true, false},
                                   {"s-abcde-trials-1", "s-abcde-trials-0", false, false, false},
                                   {"", "s-abcde-trials-0", false, false, false}}) {
    INFO((std::string(c.created) + " gone " + c.gone + " there "), c.there);
    SweepObjects objects = registered({points_map(0, {0})});
    if (c.there) objects.jobs.push_back(trials_job(0));
    json& annotations = objects.owner["metadata"]["annotations"];
    annotations[annotations::created] = c.created;
    annotations[annotations::gone] = c.gone;
    const std::vector<Batch> batches = batches_of(objects);
    CHECK(batches[0].made == c.is_made);
    CHECK(batches[0].gone == c.is_gone);
  }
}

TEST_CASE("any_job_goes_on() is true while at least one Job of the sweep has not ended") {
  const auto goes_on = [](std::vector<json> jobs) {
    return any_job_goes_on(batches_of(registered({points_map(0, {0}), points_map(1, {1})}, std::move(jobs))));
  };
  CHECK_FALSE(goes_on({}));
  CHECK(goes_on({trials_job(0)}));
  CHECK(goes_on({trials_job(0, ended_by("Complete")), trials_job(1)}));
  CHECK_FALSE(goes_on({trials_job(0, ended_by("Complete")), trials_job(1, ended_by("Failed"))}));
}

TEST_CASE("a Job takes as many places as its parallelism, but at most one for each unfinished trial") {
  const auto taken = [](const json& status, int parallelism) {
    return places_taken(
        batches_of(registered({points_map(0, {0, 1, 2, 3, 4})}, {trials_job(0, status, parallelism)})));
  };
  CHECK(taken(json::object(), 2) == 2);
  CHECK(taken(json::object(), 9) == 5);
  CHECK(taken({{"completedIndexes", "0-1"}, {"failedIndexes", "4"}}, 4) == 2);
  CHECK(taken({{"completedIndexes", "0-4"}}, 4) == 0);
  CHECK(taken({{"completedIndexes", "0-7"}}, 4) == 0);  // the status has more indexes than the Job
  CHECK(taken(ended_by("Failed"), 4) == 0);
  json unsaid = trials_job(0);
  unsaid["spec"].erase("parallelism");
  CHECK(places_taken(batches_of(registered({points_map(0, {0, 1})}, {unsaid}))) == 1);
  CHECK(places_taken(batches_of(registered({points_map(0, {0, 1})}))) == 0);  // its Job does not exist
  const SweepObjects two =
      registered({points_map(0, {0, 1, 2}), points_map(1, {3})}, {trials_job(0), trials_job(1)});
  CHECK(places_taken(batches_of(two)) == 3);
}

TEST_CASE("shares_of() divides the free places among the missing Jobs, with at least one for each Job") {
  const auto shares = [](std::vector<json> maps, std::vector<json> jobs, int parallel) {
    return shares_of(batches_of(registered(std::move(maps), std::move(jobs))), parallel);
  };
  const json three = points_map(0, {0, 1, 2}), more = points_map(1, {3, 4, 5}), last = points_map(2, {6});
  using Shares = std::map<int, int>;
  CHECK(shares({three, more}, {}, 5) == Shares{{0, 2}, {1, 3}});
  CHECK(shares({three, more}, {}, 1) == Shares{{0, 1}, {1, 1}});
  CHECK(shares({three, last}, {}, 9) == Shares{{0, 3}, {2, 1}});  // not more places than trials
  CHECK(shares({last, points_map(3, {7, 8, 9, 10})}, {}, 4) == Shares{{2, 1}, {3, 3}});
  CHECK(shares({three, more}, {trials_job(0)}, 5) == Shares{{1, 3}});
  CHECK(shares({three, more}, {trials_job(0)}, 3) == Shares{{1, 1}});
  CHECK(shares({points_map(0, {0, 1}, false), points_map(1, {})}, {}, 4).empty());
  SweepObjects made = registered({three, more});
  made.owner["metadata"]["annotations"][annotations::created] = "s-abcde-trials-0";
  CHECK(shares_of(batches_of(made), 2) == Shares{{1, 2}});
}

TEST_CASE("extract_owner() finds the owner of a sweep, and separates the objects of its driver") {
  json owner = test::owner_of("s-abcde", "s"), map = points_map(0, {0}), stale = points_map(1, {1});
  owner["metadata"]["labels"][labels::sweep] = "s-abcde";
  owner["metadata"]["uid"] = "u";
  map["metadata"]["ownerReferences"] = json::array({{{"uid", "other"}}, {{"uid", "u"}}});
  stale["metadata"]["ownerReferences"] = json::array({{{"uid", "earlier"}}});
  const auto of_role = [](const char* name, const char* role) {
    return json{{"metadata", {{"name", name}, {"labels", {{"mlk.dev/role", role}}}}}};
  };
  SweepObjects objects;
  objects.config_maps = {map, owner, stale, points_map(2, {2})};
  objects.jobs = {of_role("a", "trial"), of_role("d", "driver"), of_role("b", "worker")};
  objects.pods = {of_role("dp", "driver"), of_role("p", "trial"), of_role("q", "trial")};
  REQUIRE(extract_owner(objects));
  CHECK(kube::name_of(objects.owner) == "s-abcde");
  REQUIRE(objects.config_maps.size() == 1);
  CHECK(kube::name_of(objects.config_maps[0]) == "s-abcde-trials-0");
  REQUIRE(objects.jobs.size() == 2);
  CHECK(kube::name_of(objects.jobs[0]) == "a");
  CHECK(kube::name_of(objects.jobs[1]) == "b");
  REQUIRE(objects.drivers.size() == 1);
  CHECK(kube::name_of(objects.drivers[0]) == "d");
  REQUIRE(objects.pods.size() == 2);
  CHECK(kube::name_of(objects.pods[1]) == "q");
  REQUIRE(objects.driver_pods.size() == 1);
  SweepObjects without;
  without.config_maps = {points_map(0, {0})};
  CHECK_FALSE(extract_owner(without));
}

TEST_CASE("a ConfigMap of a sweep has the labels of the sweep, and is deleted with its owner") {
  json owner = test::owner_of("s-abcde", "digits");
  owner["metadata"]["uid"] = "u";
  const json map = config_map_of(owner, "s-abcde-trials-3", "points.jsonl", "text");
  CHECK(map["apiVersion"] == "v1");
  CHECK(map["kind"] == "ConfigMap");
  CHECK(map["metadata"]["name"] == "s-abcde-trials-3");
  CHECK(map["metadata"]["labels"] == json{{"app.kubernetes.io/managed-by", "mlk"},
                                          {"mlk.dev/run", "s-abcde"},
                                          {"mlk.dev/name", "digits"},
                                          {"mlk.dev/sweep", "s-abcde"}});
  REQUIRE(map["metadata"]["ownerReferences"].size() == 1);
  CHECK(map["metadata"]["ownerReferences"][0]["uid"] == "u");
  CHECK(map["metadata"]["ownerReferences"][0]["name"] == "s-abcde");
  CHECK(map["data"] == json{{"points.jsonl", "text"}});
}

TEST_CASE("of_sweep() asks for a small first page of ConfigMaps, but not of pods") {
  const kube::ListOptions maps = of_sweep("s-abcde", kube::resources::config_maps);
  CHECK(maps.label_selector == "mlk.dev/sweep=s-abcde");
  CHECK(maps.first_page == 50);
  CHECK(of_sweep("s-abcde", kube::resources::pods).first_page == kube::ListOptions().first_page);
  json pod = test::pod_of("x", "Running");
  pod["metadata"]["managedFields"] = json::array({1});
  maps.transform(pod);
  CHECK_FALSE(pod["metadata"].contains("managedFields"));
}

TEST_CASE("slim() keeps the restart policy of a container that has one") {
  json pod = test::pod_of("x", "Running");
  pod["spec"]["initContainers"] = {
      {{"name", "proxy"}, {"image", "p"}, {"restartPolicy", "Always"}, {"env", json::array()}}};
  slim(pod);
  CHECK(pod["spec"]["initContainers"] ==
        json::array({{{"name", "proxy"}, {"image", "p"}, {"restartPolicy", "Always"}}}));
}

namespace {

// A sweep on a cluster, to which the test appends points.
struct Appending {
  test::FakeCluster cluster;
  kube::Client client{cluster.config()};

  void add(json map) {
    map["apiVersion"] = "v1";
    map["kind"] = "ConfigMap";
    map["metadata"].erase("resourceVersion");
    cluster.ask("POST", test::config_maps_path, map);
  }
  // The objects of the sweep as they are now.
  SweepObjects objects() {
    SweepObjects out = registered({});
    const json all = cluster.ask("GET", test::config_maps_path);
    for (const json& map : all["items"]) {
      if (kube::name_of(map).starts_with("s-abcde-")) out.config_maps.push_back(map);
    }
    return out;
  }
  std::size_t append(const std::vector<TrialLine>& lines, std::size_t most_bytes = most_points_bytes) {
    return append_points(client, "default", objects(), lines, most_bytes);
  }
  // The numbers of the trials in each ConfigMap: "0:0,1 1:2 ".
  std::string written() {
    std::string out;
    for (const Batch& batch : batches_of(objects())) {
      out += std::to_string(batch.job) + ":";
      for (const TrialLine& trial : batch.trials) out += std::to_string(trial.number) + ",";
      out.back() = ' ';
    }
    return out;
  }
};

}  // namespace

TEST_CASE("append_points() adds trials to the last ConfigMap of points, but never to the points of a Job") {
  Appending sweep;
  CHECK(sweep.append({}) == 0);
  CHECK(sweep.written() == "");
  CHECK(sweep.append(new_lines(0, 2)) == 2);
  CHECK(sweep.append(new_lines(2, 1)) == 1);
  CHECK(sweep.written() == "0:0,1,2 ");
  sweep.add(points_map(4, {3}));
  CHECK(sweep.append(new_lines(4, 1)) == 1);
  CHECK(sweep.written() == "0:0,1,2 4:3 5:4 ");
}

TEST_CASE("append_points() leaves points for the next write if the ConfigMap is full") {
  Appending sweep;
  const std::vector<TrialLine> lines = new_lines(0, 5);
  const std::size_t line = points_line(lines[0]).size() + 1;
  CHECK(sweep.append(lines, 3 * line) == 3);
  CHECK(sweep.append({lines[3], lines[4]}, 3 * line) == 2);
  CHECK(sweep.written() == "0:0,1,2 1:3,4 ");
  CHECK(sweep.append(new_lines(5, 1), 3 * line) == 1);  // the line fits exactly
  CHECK(sweep.written() == "0:0,1,2 1:3,4,5 ");
}

TEST_CASE("append_points() begins another ConfigMap if the last one has more than 64 KiB of points") {
  for (const std::size_t size : {64 * 1024, 64 * 1024 + 1}) {
    INFO(size);
    Appending sweep;
    json map = points_map(0, {0}, false);
    std::string& text = map["data"]["points.jsonl"].get_ref<std::string&>();
    text += std::string(size - text.size() - 1, ' ') + "\n";
    sweep.add(map);
    CHECK(sweep.append(new_lines(1, 1)) == 1);
    CHECK(sweep.written() == (size == 64 * 1024 ? "0:0,1 " : "0:0 1:1 "));
  }
}

TEST_CASE("append_points() registers no trial if another process has written first") {
  Appending sweep;
  const SweepObjects before = sweep.objects();
  REQUIRE(sweep.append(new_lines(0, 1)) == 1);
  CHECK(append_points(sweep.client, "default", before, new_lines(0, 1), 9999) == 0);  // the map was begun
  const SweepObjects one = sweep.objects();
  REQUIRE(sweep.append(new_lines(1, 1)) == 1);
  CHECK(append_points(sweep.client, "default", one, new_lines(1, 1), 9999) == 0);  // the map was changed
  CHECK(sweep.written() == "0:0,1 ");
  sweep.cluster.before([](const local::Request& asked) -> std::optional<local::Answer> {
    if (asked.method == "GET") return std::nullopt;
    return test::refusal(403, "Forbidden", "you may not");
  });
  CHECK_THROWS_AS(append_points(sweep.client, "default", sweep.objects(), new_lines(2, 1), 9999),
                  kube::ApiError);
}

TEST_CASE("fetch_warnings() returns nothing if the user may not list events") {
  test::FakeCluster cluster;
  kube::Client client(cluster.config());
  int code = 403;
  cluster.before([&](const local::Request&) { return test::refusal(code, "Refused", "no"); });
  CHECK(fetch_warnings(client, "default", "s-abcde").empty());
  code = 400;
  CHECK_THROWS_AS(fetch_warnings(client, "default", "s-abcde"), kube::ApiError);
}

TEST_CASE("the error for a missing sweep names the sweep and its namespace, and says how to list sweeps") {
  test::FakeCluster cluster;
  kube::Client client(cluster.config());
  try {
    fetch_sweep(client, "default", "s-abcde", WithPods::no);
    FAIL("it was found");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::not_found);
    CHECK(std::string(error.what()) == "there is no sweep 's-abcde' in namespace 'default'");
    CHECK(error.hint() == "list them with: mlk ls");
  }
}
