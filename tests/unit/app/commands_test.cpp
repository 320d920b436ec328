// Tests commands against a cluster whose objects the test itself changes.

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/app/cluster_with_run.h"
#include "tests/unit/app/tree.h"
#include "tests/unit/fake_cluster.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("app/commands");

namespace {

using mlk::test::config_maps_path;
using mlk::test::jobs_path;
using mlk::test::Tree;
using nlohmann::json;

const std::string merge = "application/merge-patch+json";

using Cluster = mlk::test::ClusterWithRun;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("mlk new prints the commands that submit the new file to this machine and to a cluster") {
  const auto told = [](const std::vector<std::string>& flags, const std::string& local) {
    const TemporaryFolder folder;
    Tree tree;
    tree.env["MLK_LOCAL"] = local;
    std::vector<std::string> words{"new", (folder.path() / "x.yaml").string()};
    words.insert(words.end(), flags.begin(), flags.end());
    CHECK(tree.run(words) == 0);
    std::string said = tree.err.str();
    for (std::size_t at = 0; (at = said.find(folder.path().string() + "/")) != said.npos;)
      said.erase(at, folder.path().string().size() + 1);
    return said;
  };
  const std::string here = "try it on this machine: mlk submit --local --follow x.yaml\n";
  CHECK(contains(told({}, ""), here + "on a cluster: mlk submit --follow x.yaml; every key"));
  CHECK(contains(told({}, "1"), here + "on a cluster: MLK_LOCAL=0 mlk submit --follow x.yaml; every key"));
  CHECK(contains(told({"--local"}, ""), here + "on a cluster: the same without --local; every key"));
  CHECK(contains(told({"--context", "c"}, ""),
                 here + "on a cluster: mlk submit --follow x.yaml --context c; every key"));
}

TEST_CASE("mlk context shows a group of commands as allowed only if the user has all rights for the group") {
  // The groups of commands that are not allowed if one right is missing.
  const auto forbidden_without = [](const std::string& missing) {
    std::mutex mutex;
    std::multiset<std::string> asked;
    Cluster cluster;
    cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
      if (!contains(request.path, "selfsubjectaccessreviews")) return std::nullopt;
      const json of = json::parse(request.body).at("spec").at("resourceAttributes");
      const std::string below = of.value("subresource", "");
      const std::string right = of.at("verb").get<std::string>() + " " +
                                of.at("resource").get<std::string>() + (below.empty() ? "" : "/" + below);
      const std::lock_guard lock(mutex);
      asked.insert(right);
      mlk::local::Answer answer;
      answer.status = 201;
      answer.body = json{{"status", {{"allowed", right != missing}}}}.dump();
      return answer;
    });
    Tree tree;
    CHECK(tree.run({"context", "-o", "json", "--kubeconfig", cluster.kubeconfig()}) == 0);
    for (const std::string& right : asked) CHECK_MESSAGE(asked.count(right) == 1, right);
    std::string groups;
    const json told = json::parse(tree.out.str());
    for (const auto& [group, allowed] : told.at("allowed").items()) {
      if (allowed == false) groups += group + "; ";
    }
    return groups;
  };
  const std::string all_of_runs = "delete; logs; ls, status, wait; stop, resume; submit; ";
  for (const auto& [missing, forbidden] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"list jobs", all_of_runs},
           {"list configmaps", all_of_runs},
           {"list pods", all_of_runs},
           {"get configmaps", "delete; logs; ls, status, wait; stop, resume; "},
           {"watch configmaps", "logs; ls, status, wait; stop, resume; "},
           {"watch jobs", "logs; ls, status, wait; stop, resume; "},
           {"watch pods", "logs; ls, status, wait; stop, resume; "},
           {"get pods/log", "logs; "},
           {"patch configmaps", "stop, resume; "},
           {"patch jobs", "stop, resume; "},
           {"list services", "delete; "},
           {"delete configmaps", "delete; "},
           {"create secrets", "submit; "},
           {"list events", "reasons of waiting runs; "}}) {
    CAPTURE(missing);
    CHECK(forbidden_without(missing) == forbidden);
  }
}

TEST_CASE("a flag that is typed like --namespace= has an empty value") {
  Cluster cluster;
  CHECK(cluster.mlk({"ls", "--namespace=", "-o", "name"}) == std::pair(0, std::string("x-abcde\n")));
  CHECK(cluster.mlk({"--namespace=", "ls", "-o", "name"}) == std::pair(0, std::string("x-abcde\n")));
  cluster.store.remove("pods", "default",
                       "x-abcde-worker-0-abcde");  // the test has no kubelet that would remove the pod
  const auto [code, said] = cluster.mlk({"delete", "--namespace=", "y", "x-abcde"});
  CHECK(code == 0);
  CHECK(contains(said, "there is no run 'y'"));
  CHECK_FALSE(contains(said, "in namespace 'y'"));
}

TEST_CASE("if the number in a flag is invalid, the error names the valid numbers") {
  Tree tree;
  CHECK(tree.run({"sweep", "--parallel", "0", "x.yaml"}) == 2);
  CHECK(contains(tree.err.str(), "must be a whole number from 1 on, not '0'"));
  CHECK(tree.run({"sweep", "--trial-minutes", "nan", "x.yaml"}) == 2);
  CHECK(contains(tree.err.str(), "must be a number above 0, not 'nan'"));
}

TEST_CASE("mlk wait --timeout 0 reports a run that has ended") {
  Cluster cluster;
  CHECK(cluster.mlk({"wait", "x", "--timeout", "0"}).first == 124);
  cluster.store.modify("jobs", "default", "x-abcde-worker", [](json& job) {
    job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
  });
  cluster.store.modify("pods", "default", "x-abcde-worker-0-abcde",
                       [](json& pod) { pod["status"]["phase"] = "Succeeded"; });
  const auto [code, said] = cluster.mlk({"wait", "x", "--timeout", "0"});
  CHECK_MESSAGE(code == 0, said);
}

TEST_CASE("mlk wait continues for the other runs if one of the awaited runs is deleted") {
  Cluster cluster;
  cluster.ask("POST", config_maps_path, mlk::test::owner_of("y-fghij", "y"));
  cluster.ask("POST", jobs_path, mlk::test::job_of("y-fghij"));
  std::atomic<bool> waiting = false, told = false;
  cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.query.contains("watch")) waiting = true;
    return std::nullopt;
  });
  std::thread other([&] {
    eventually([&] { return waiting.load(); });
    cluster.store.remove("configmaps", "default", "x-abcde");
    // This time is enough for a wait that would end with the deletion of the first run.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    told = true;
    cluster.store.modify("jobs", "default", "y-fghij-worker", [](json& job) {
      job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
    });
  });
  const auto [code, said] = cluster.mlk({"wait", "x", "y", "--timeout", "20s"});
  CHECK(told);
  other.join();
  CHECK_MESSAGE(code == 3, said);
  CHECK(contains(said, "mlk: warning: run x-abcde was deleted"));
  CHECK(contains(said, "y-fghij  Succeeded"));
}

TEST_CASE("mlk delete does not wait for a new run of the same name") {
  Cluster cluster;
  cluster.store.remove("pods", "default", "x-abcde-worker-0-abcde");
  const auto replace = [&cluster](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method != "DELETE") return std::nullopt;
    cluster.store.remove("configmaps", "default", "x-abcde");
    cluster.store.remove("jobs", "default", "x-abcde-worker");
    cluster.ask("POST", config_maps_path, mlk::test::owner_of("x-abcde"));
    cluster.ask("POST", jobs_path, mlk::test::job_of("x-abcde"));
    mlk::local::Answer answer;
    answer.body = R"({"kind":"Status","apiVersion":"v1","status":"Success"})";
    return answer;
  };
  cluster.before(replace);
  const auto [code, said] = cluster.mlk({"delete", "x", "--timeout", "3s"});
  CHECK(code == 0);
  CHECK(contains(said, "deleted x-abcde"));
}

TEST_CASE("mlk delete waits for a pod whose Job is already gone") {
  Cluster cluster;
  const std::string owner = cluster.ask("GET", config_maps_path + "/x-abcde").at("metadata").at("uid");
  const auto owned_by = [](const std::string& kind, const std::string& uid) {
    return [=](json& object) {
      object["metadata"]["ownerReferences"] = {{{"kind", kind}, {"name", "x"}, {"uid", uid}}};
    };
  };
  cluster.store.modify("jobs", "default", "x-abcde-worker", owned_by("ConfigMap", owner));
  cluster.store.modify("pods", "default", "x-abcde-worker-0-abcde",
                       owned_by("Job", cluster.job().at("metadata").at("uid")));
  cluster.before([&cluster](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (request.method == "DELETE") cluster.store.remove("jobs", "default", "x-abcde-worker");
    return std::nullopt;
  });
  const auto [code, said] = cluster.mlk({"delete", "x", "--timeout", "0"});
  CHECK(code == 124);
  CHECK(contains(said, "x-abcde is still being deleted: pod/x-abcde-worker-0-abcde is left"));
}

TEST_CASE("mlk delete deletes a pod of a deleted Job if the pod has no owner") {
  for (const bool orphaned : {true, false}) {
    Cluster cluster;
    cluster.store.remove("jobs", "default", "x-abcde-worker");
    cluster.store.modify("pods", "default", "x-abcde-worker-0-abcde", [&](json& pod) {
      if (!orphaned) pod["metadata"]["ownerReferences"] = {{{"kind", "Job"}, {"name", "x"}, {"uid", "u"}}};
    });
    const std::string pods = "/api/v1/namespaces/default/pods/";
    std::vector<std::string> deleted;
    cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
      if (request.method == "DELETE" && request.path.starts_with(pods)) deleted.push_back(request.path);
      return std::nullopt;
    });
    CHECK(cluster.mlk({"delete", "x", "--no-wait"}).first == 0);
    CHECK(deleted == (orphaned ? std::vector{pods + "x-abcde-worker-0-abcde"} : std::vector<std::string>{}));
  }
}

TEST_CASE("mlk delete names the remaining objects if it times out") {
  Cluster cluster;
  cluster.store.modify("jobs", "default", "x-abcde-worker",
                       [](json& job) { job["metadata"]["finalizers"] = {"foregroundDeletion"}; });
  cluster.store.modify("pods", "default", "x-abcde-worker-0-abcde", [](json& pod) {
    pod["metadata"]["finalizers"] = {"batch.kubernetes.io/job-tracking", "example.dev/keep"};
  });
  const std::string owner = cluster.ask("GET", config_maps_path + "/x-abcde").at("metadata").at("uid");
  for (const char* plural : {"jobs", "pods"}) {
    const std::string name = std::string("x-abcde-worker") + (plural[0] == 'p' ? "-0-abcde" : "");
    cluster.store.modify(plural, "default", name, [&](json& object) {
      object["metadata"]["ownerReferences"] = {{{"kind", "ConfigMap"}, {"name", "x"}, {"uid", owner}}};
    });
  }
  const auto [code, said] = cluster.mlk({"delete", "x", "--timeout", "0"});
  CHECK(code == 124);
  CHECK(contains(said, "pod/x-abcde-worker-0-abcde (held by the finalizer example.dev/keep), "));
  CHECK(contains(said, "job/x-abcde-worker"));
  CHECK(!contains(said, "foregroundDeletion"));
}

TEST_CASE("if the role or rank is unknown, the error of mlk logs lists the roles or ranks of the run") {
  Cluster cluster;
  const json roles = {{"metadata", {{"annotations", {{"mlk.dev/roles", R"({"server":1,"worker":3})"}}}}}};
  cluster.ask("PATCH", config_maps_path + "/x-abcde", roles, merge);
  CHECK(cluster.mlk({"logs", "x", "--role", "nope"}) ==
        std::pair(
            2, std::string("mlk: error: run x-abcde has no role 'nope'\nhint: its roles: server, worker\n")));
  CHECK(cluster.mlk({"logs", "x", "--rank", "3"}) ==
        std::pair(2, std::string("mlk: error: run x-abcde has no rank 3\n"
                                 "hint: its ranks: server has 0, worker has 0 to 2\n")));
  CHECK(contains(cluster.mlk({"logs", "x", "--role", "server", "--rank", "1"}).second,
                 "its ranks: server has 0\n"));
  CHECK(cluster.mlk({"logs", "x", "--role", "worker", "--rank", "2"}).first == 0);
}

TEST_CASE("mlk logs -f shows late log lines before it reports the end of the run") {
  Cluster cluster;
  cluster.store.modify("jobs", "default", "x-abcde-worker", [](json& job) {
    job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
  });
  cluster.store.modify("pods", "default", "x-abcde-worker-0-abcde", [](json& pod) {
    pod["status"] = {
        {"phase", "Succeeded"},
        {"containerStatuses", {{{"name", "main"}, {"state", {{"terminated", {{"exitCode", 0}}}}}}}}};
  });
  cluster.before([](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (!request.path.ends_with("/log")) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    mlk::local::Answer answer;
    answer.content_type = "text/plain";
    answer.body = "2026-11-21T07:00:00.000000000Z the last words\n";
    return answer;
  });
  Tree tree;
  std::ostringstream both;  // in the order in which a terminal shows them
  tree.out.std::ios::rdbuf(both.rdbuf());
  tree.err.std::ios::rdbuf(both.rdbuf());
  CHECK(tree.run({"logs", "-f", "x", "--kubeconfig", cluster.kubeconfig()}) == 0);
  CHECK_MESSAGE(contains(both.str(), "the last words\nSucceeded\n"), both.str());
}

TEST_CASE("mlk wait records metrics even if they reach the log after the end of the run") {
  for (const bool come : {true, false}) {
    INFO(come);
    Cluster cluster;
    const std::string now = mlk::format_time(std::chrono::system_clock::now());
    cluster.store.modify("jobs", "default", "x-abcde-worker", [&](json& job) {
      job["status"] = {
          {"completionTime", now},
          {"conditions", {{{"type", "Complete"}, {"status", "True"}, {"lastTransitionTime", now}}}}};
    });
    cluster.store.modify("pods", "default", "x-abcde-worker-0-abcde", [&](json& pod) {
      const json end = {{"exitCode", 0}, {"startedAt", now}, {"finishedAt", now}};
      pod["status"] = {{"phase", "Succeeded"},
                       {"containerStatuses", {{{"name", "main"}, {"state", {{"terminated", end}}}}}}};
    });
    std::atomic<int> readings = 0;
    cluster.before([&](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
      if (!request.path.ends_with("/log")) return std::nullopt;
      const bool is_there = ++readings > 2 && come;
      mlk::local::Answer answer;
      answer.content_type = "text/plain";
      answer.body =
          "2026-11-21T07:00:00.000000000Z " + std::string(is_there ? "mlk step=7 loss=0.5\n" : "epoch 1\n");
      return answer;
    });
    CHECK(cluster.mlk({"wait", "x"}).first == 0);
    CHECK(readings == (come ? 3 : 6));
    const json result = json::parse(cluster.mlk({"status", "x", "-o", "json"}).second)["result"];
    CHECK(result == (come ? json{{"schema", 1}, {"step", 7}, {"metrics", {{"loss", 0.5}}}} : json()));
  }
}

TEST_CASE("mlk logs prints its own message, and not the server's error, if a rank has not started") {
  Cluster cluster;
  cluster.store.modify("pods", "default", "x-abcde-worker-0-abcde",
                       [](json& pod) { pod["status"]["phase"] = "Pending"; });
  cluster.before([](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (!request.path.ends_with("/log")) return std::nullopt;
    return mlk::test::refusal(400, "BadRequest", "container \"main\" is waiting to start: ContainerCreating");
  });
  const auto [code, said] = cluster.mlk({"logs", "x"});
  CHECK(code == 0);
  CHECK(
      said.starts_with("mlk: warning: worker/0 has no log yet: its container has not started\n"
                       "what is known of run x-abcde: mlk status x-abcde --kubeconfig "));
  json second = mlk::test::pod_of("x-abcde", "Pending", "worker", 1);
  cluster.store.create("pods", second);
  CHECK(contains(cluster.mlk({"logs", "x"}).second,
                 "2 ranks have no log yet, such as worker/0: their containers have not started\n"));
}

TEST_CASE("mlk logs warns of each rank whose pod is gone") {
  Cluster cluster;
  cluster.store.modify("jobs", "default", "x-abcde-worker", [](json& job) {
    job["spec"]["completions"] = job["spec"]["parallelism"] = 2;
    job["status"]["startTime"] = "2026-11-21T07:00:00Z";
    job["status"]["conditions"] = {{{"type", "Failed"}, {"status", "True"}}};
  });
  cluster.store.modify("pods", "default", "x-abcde-worker-0-abcde", [](json& pod) {
    pod["status"] = {
        {"phase", "Failed"},
        {"containerStatuses", {{{"name", "main"}, {"state", {{"terminated", {{"exitCode", 1}}}}}}}}};
  });
  cluster.before([](const mlk::local::Request& request) -> std::optional<mlk::local::Answer> {
    if (!request.path.ends_with("/log")) return std::nullopt;
    mlk::local::Answer answer;
    answer.content_type = "text/plain";
    answer.body = "2026-11-21T07:00:00.000000000Z the last words\n";
    return answer;
  });
  const std::string lost = "mlk: warning: the log of worker/1 is gone: its pod was deleted\n";
  CHECK(cluster.mlk({"logs", "x"}) == std::pair(0, "worker/0 the last words\n" + lost));
  const auto [code, said] = cluster.mlk({"logs", "-f", "x"});
  CHECK(code == 5);
  CHECK_MESSAGE(contains(said, lost), said);
  CHECK_FALSE(contains(cluster.mlk({"logs", "-f", "x", "--rank", "0"}).second, lost));
}

TEST_CASE("mlk logs warns of each lost log if an ended run has no pods") {
  Cluster cluster;
  cluster.store.remove("pods", "default", "x-abcde-worker-0-abcde");
  const std::string known = ": mlk status x-abcde --kubeconfig '" + cluster.kubeconfig() + "'\n";
  CHECK(cluster.mlk({"logs", "x"}) == std::pair(0, "run x-abcde has no pods; what is known of it" + known));
  cluster.store.modify("jobs", "default", "x-abcde-worker", [](json& job) {
    job["status"]["startTime"] = "2026-11-21T07:00:00Z";
    job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
  });
  CHECK(cluster.mlk({"logs", "x"}) ==
        std::pair(0,
                  "mlk: warning: the log of worker/0 is gone: its pod was deleted\n"
                  "what is known of run x-abcde" +
                      known));
}

TEST_CASE("mlk wait --start-timeout ends if an init container fails again and again") {
  Cluster cluster;
  const auto becomes = [](const std::string& phase, const json& state) {
    return [=](json& pod) {
      pod["spec"]["initContainers"] = {{{"name", "fetch"}, {"image", "i"}}};
      pod["status"] = {{"phase", phase}, {"initContainerStatuses", {{{"name", "fetch"}, {"state", state}}}}};
    };
  };
  const json failed = {{"terminated", {{"exitCode", 128}, {"message", "no such repository"}}}};
  cluster.store.modify("pods", "default", "x-abcde-worker-0-abcde", becomes("Failed", failed));
  json next = mlk::test::pod_of("x-abcde", "Pending");
  next["metadata"]["name"] = "x-abcde-worker-0-fghij";
  next["metadata"]["uid"] = "uid-of-the-next";
  next["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = "1";
  becomes("Pending", {{"running", json::object()}})(next);
  cluster.store.create("pods", next);
  const auto [code, said] = cluster.mlk({"wait", "x", "--start-timeout", "1s", "--timeout", "20s"});
  CHECK(code == 6);
  const std::string why =
      "cannot start within 1s: Restarting: worker/0: restarting after init container fetch: exit code 128: "
      "no such repository (try 2 of 4): waits for init container fetch\n";
  CHECK_MESSAGE(contains(said, "run x-abcde " + why), said);
  // If a program has run before, mlk waits for its retry without a start timeout.
  cluster.store.modify("pods", "default", "x-abcde-worker-0-abcde", [](json& pod) {
    pod["status"] = {
        {"phase", "Failed"},
        {"containerStatuses",
         {{{"name", "main"},
           {"state", {{"terminated", {{"exitCode", 1}, {"startedAt", "2026-11-21T07:00:00Z"}}}}}}}}};
  });
  CHECK(cluster.mlk({"wait", "x", "--start-timeout", "1s", "--timeout", "2s"}).first == 124);
}

TEST_CASE("a missing kubeconfig causes exit code 3, and a broken one exit code 2") {
  Tree missing, broken;
  CHECK(missing.run({"ls", "--kubeconfig", "/nowhere/config"}) == 3);
  CHECK(contains(missing.err.str(), "/nowhere/config"));
  CHECK(broken.run({"ls", "--kubeconfig", "/etc/passwd"}) == 2);
}

TEST_CASE("the command in a hint can be pasted into a shell") {
  Cluster cluster;
  const auto [code, said] = cluster.mlk({"status", "y"});
  CHECK(code == 3);
  CHECK(contains(said, "mlk ls --kubeconfig '" + cluster.kubeconfig() + "'\n"));
}

TEST_CASE("mlk status shows the runs that exist and reports the runs that are missing") {
  Cluster cluster;
  const auto [code, said] = cluster.mlk({"status", "y", "x", "z", "-o", "json"});
  CHECK(code == 3);
  CHECK(contains(said, "[\n  {"));
  CHECK(contains(said, "\"run\": \"x-abcde\""));
  CHECK(contains(said, "no run 'y'"));
  CHECK(contains(said, "no run 'z'"));
  CHECK(said.find("list them with") == said.rfind("list them with"));
}

TEST_CASE("MLK_LOCAL=1 acts like --local if no flag names another cluster") {
  Tree tree;
  CHECK(!tree.session.local());
  tree.env["MLK_LOCAL"] = "1";
  CHECK(tree.session.local());
  CHECK(tree.session.command("ls") == "mlk ls --local");
  tree.session.global.cluster.context = "test";
  CHECK(!tree.session.local());
  tree.session.global.cluster.context = "";
  tree.env["MLK_LOCAL"] = "0";
  CHECK(!tree.session.local());
  tree.env["MLK_LOCAL"] = "yes";
  CHECK(tree.run({"ls"}) == 2);
  CHECK(contains(tree.err.str(), "MLK_LOCAL must be 1 or 0, not 'yes'"));
}
