// Commands about runs with objects that have lost their owner: kubectl delete --cascade=orphan.
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/app/tree.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("app/ownerless");

namespace {

using mlk::test::config_maps_path;
using mlk::test::FakeCluster;
using mlk::test::jobs_path;
using mlk::test::Tree;
using nlohmann::json;

// A run of one worker. Somebody has deleted only its Job, only its owner, or both.
struct Cluster : FakeCluster {
  std::vector<std::string> deleted;

  explicit Cluster(bool with_owner, bool with_job = true) {
    if (with_owner) ask("POST", config_maps_path, mlk::test::owner_of("x-abcde"));
    if (with_job) ask("POST", jobs_path, mlk::test::job_of("x-abcde"));
    store.create("pods", mlk::test::pod_of("x-abcde", "Running"));
    for (const char* plural : {"jobs", "pods"}) {
      for (const mlk::local::Object& object : store.list(plural, "default"))
        store.modify(plural, "default", object->at("metadata").at("name"),
                     [](json& each) { each["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "mlk"; });
    }
    before([this](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
      if (request.method == "DELETE") deleted.push_back(request.path.substr(request.path.rfind('/') + 1));
      return std::nullopt;
    });
  }
  std::pair<int, std::string> mlk(std::vector<std::string> words) {
    Tree tree;
    words.insert(words.end(), {"--kubeconfig", kubeconfig()});
    const int code = tree.run(words);
    return {code, tree.out.str() + tree.err.str()};
  }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

const std::string pod = "x-abcde-worker-0-abcde";

}  // namespace

TEST_CASE("mlk delete waits for pods that have lost their owner") {
  Cluster cluster(true, false);
  const auto [code, said] = cluster.mlk({"delete", "x-abcde", "--timeout", "0"});
  CHECK(code == 124);
  CHECK(contains(said, "x-abcde is still being deleted: pod/" + pod + " is left"));
  CHECK(cluster.deleted == std::vector<std::string>{"x-abcde", pod});
}

TEST_CASE("mlk delete deletes the other objects of a run whose owner is gone") {
  Cluster cluster(false);
  const json job = cluster.ask("GET", jobs_path + "/x-abcde-worker");
  cluster.store.modify("pods", "default", pod, [&](json& object) {
    object["metadata"]["ownerReferences"] = {
        {{"kind", "Job"}, {"name", "x-abcde-worker"}, {"uid", job.at("metadata").at("uid")}}};
  });
  const auto [code, said] = cluster.mlk({"delete", "x-abcde", "--timeout", "0"});
  CHECK(code == 124);
  CHECK(contains(said, "deleting x-abcde"));
  CHECK(contains(said, "pod/" + pod + " is left"));  // the garbage collector ends the pod
  CHECK(cluster.deleted == std::vector<std::string>{"x-abcde-worker"});
  CHECK(cluster.mlk({"delete", "x-abcde", "--no-wait"}) ==
        std::pair(0, std::string("there is no run 'x-abcde' in namespace 'default'\n")));
}

TEST_CASE("mlk delete says that it cannot watch the deletion if the user may not list objects") {
  Cluster cluster(true);
  cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method == "DELETE")
      cluster.deleted.push_back(request.path.substr(request.path.rfind('/') + 1));
    const bool lists = request.method == "GET" && !request.path.ends_with("/x-abcde");
    if (!lists) return std::nullopt;
    return mlk::test::refusal(403, "Forbidden", "you may not list that");
  });
  const auto [code, said] = cluster.mlk({"delete", "x-abcde", "--timeout", "5"});
  CHECK_MESSAGE(code == 0, said);
  CHECK_MESSAGE(contains(said, "x-abcde is being deleted; you may not see when that ends: "), said);
  CHECK(cluster.deleted == std::vector<std::string>{"x-abcde"});
}

TEST_CASE("mlk delete deletes the trials of a sweep whose owner is gone") {
  Cluster cluster(false, false);
  nlohmann::json trial = mlk::test::owner_of("y-12345");
  trial["metadata"]["labels"]["mlk.dev/sweep"] = "s-abcde";
  trial["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "mlk";
  cluster.ask("POST", config_maps_path, trial);
  const auto [code, said] = cluster.mlk({"delete", "s-abcde"});
  CHECK_MESSAGE(code == 0, said);
  CHECK_MESSAGE(cluster.deleted == std::vector<std::string>{"y-12345"}, said);
}

TEST_CASE("mlk delete does not delete an object with a run's label if mlk has not created the object") {
  Cluster cluster(false, false);
  cluster.store.modify("pods", "default", pod, [](json& object) {
    object["metadata"]["labels"].erase("app.kubernetes.io/managed-by");
  });
  CHECK(contains(cluster.mlk({"delete", "x-abcde"}).second, "there is no run 'x-abcde'"));
  CHECK(cluster.deleted.empty());
}

TEST_CASE("mlk status says how to delete the remaining objects of a run whose owner is gone") {
  Cluster cluster(false);
  const auto [code, said] = cluster.mlk({"status", "x-abcde"});
  CHECK(code == 3);
  CHECK(contains(said,
                 "there is no run 'x-abcde' in namespace 'default', but objects of this run are left: only "
                 "its ConfigMap was deleted\nhint: delete them with: mlk delete x-abcde"));
  CHECK(contains(cluster.mlk({"status", "other"}).second, "list them with: mlk ls"));
}

TEST_CASE("mlk status, ls, wait and stop say that a pod still runs after its Job is gone") {
  Cluster cluster(true, false);
  cluster.ask(
      "PATCH", config_maps_path + "/x-abcde",
      {{"metadata",
        {{"annotations", {{"mlk.dev/created", "x-abcde-worker"}, {"mlk.dev/gone", "x-abcde-worker"}}}}}},
      "application/merge-patch+json");
  const std::string why =
      "its Job is gone (deleted, or its time to live passed); nobody recorded its end; one of its pods still "
      "runs; deleting the run ends it";
  CHECK(contains(cluster.mlk({"status", "x-abcde"}).second, why));
  CHECK(contains(cluster.mlk({"status", "x-abcde"}).second, "worker  0     Running"));
  CHECK(contains(cluster.mlk({"ls"}).second, why));
  const auto [code, said] = cluster.mlk({"wait", "x-abcde"});
  CHECK(code == 1);
  CHECK(contains(said, why));
  CHECK(contains(cluster.mlk({"stop", "x-abcde"}).second, "run x-abcde has ended already: " + why));
  CHECK(cluster.deleted.empty());
}
