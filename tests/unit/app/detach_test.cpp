// mlk sweep --detach and mlk drive, against a cluster whose objects the test itself changes.

#include <fstream>
#include <set>

#include <doctest/doctest.h>

#include "cli/util/text.h"
#include "cli/yaml/yaml.h"
#include "sweeps/driver/driver_rights.h"
#include "tests/unit/app/tree.h"
#include "tests/unit/fake_cluster.h"
#include "tests/unit/paths.h"

TEST_SUITE_BEGIN("app/detach");

namespace {

using mlk::local::Answer;
using mlk::local::Request;
using mlk::test::FakeCluster;
using mlk::test::Tree;
using nlohmann::json;

bool includes(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

Answer answer_of(int status, const json& body) {
  Answer answer;
  answer.status = status;
  answer.body = body.dump();
  return answer;
}

// A cluster with RBAC: the ServiceAccount exists or not, and has all rights except `taken`.
struct Rbac : FakeCluster {
  bool has_account = true, may_look = true, may_impersonate = true, may_create = true;
  std::string taken;  // "get pods/log"
  std::vector<std::string> created;
  int asked_for_leases = 0;  // how often mlk asks for the right to create leases

  Rbac() {
    before([this](const Request& request) { return play(request); });
    std::ofstream(file())
        << "name: x\nmode: allreduce\nimage: i\nrun: echo ${sweep.lr}\nworkers: {count: 2}\n"
           "sweep: {objective: maximize accuracy}\n";
  }
  std::string file() const { return kubeconfig() + ".experiment.yaml"; }

  struct Said {
    int code;
    std::string out, err;
  };
  Said mlk(std::vector<std::string> words) {
    Tree tree;
    words.insert(words.end(), {"--kubeconfig", kubeconfig()});
    const int code = tree.run(words);
    return {code, tree.out.str(), tree.err.str()};
  }
  Said detach(std::vector<std::string> more = {}) {
    std::vector<std::string> words{"sweep", file(), "lr=1,2", "--detach"};
    words.insert(words.end(), more.begin(), more.end());
    return mlk(words);
  }
  bool is_empty() const { return names("configmaps").empty() && names("jobs").empty(); }

 private:
  std::optional<Answer> play(const Request& request) {
    if (includes(request.path, "/serviceaccounts/")) {
      if (!may_look) return mlk::test::refusal(403, "Forbidden", "you may not look");
      return has_account ? answer_of(200, {{"kind", "ServiceAccount"}})
                         : mlk::test::refusal(404, "NotFound", "no such account");
    }
    if (includes(request.path, "selfsubjectaccessreviews")) {
      const json asked = json::parse(request.body)["spec"]["resourceAttributes"];
      const std::string below = asked.value("subresource", "");
      // mlk checks the right to read logs only for the driver, and not for the user.
      if (!may_impersonate && below == "log")
        return mlk::test::refusal(403, "Forbidden", "you may not impersonate");
      const std::string right = asked["verb"].get<std::string>() + " " +
                                asked["resource"].get<std::string>() + (below.empty() ? "" : "/" + below);
      asked_for_leases += right == "create leases" ? 1 : 0;
      return answer_of(201, {{"status", {{"allowed", right != taken && taken != "all"}}}});
    }
    for (const char* kind : {"/serviceaccounts", "/roles", "/rolebindings"}) {
      if (!request.path.ends_with(kind) || request.method != "POST") continue;
      if (!may_create) return mlk::test::refusal(403, "Forbidden", "you may not create that");
      created.push_back(json::parse(request.body)["kind"]);
      return answer_of(201, json::parse(request.body));
    }
    return std::nullopt;
  }
};

}  // namespace

TEST_CASE("a sweep is detached if the driver's account has the rights that the driver needs") {
  Rbac cluster;
  const auto said = cluster.detach();
  CHECK(said.code == 0);
  CHECK(includes(said.err, "its driver starts in the cluster, as job/x-"));
  CHECK(includes(said.err, "wait for it with: mlk wait x-"));
  CHECK(said.out.size() == std::string("x-abcde\n").size());
  CHECK(cluster.names("jobs").starts_with(said.out.substr(0, 7) + "-driver-"));
  const auto again = cluster.detach();
  CHECK(again.out == said.out);
  CHECK(includes(again.err, "its driver goes on in the cluster"));
}

TEST_CASE("if the driver's account is missing, mlk prints the account, Role and RoleBinding to create") {
  Rbac cluster;
  cluster.has_account = false;
  const auto said = cluster.detach();
  CHECK(said.code == 4);
  CHECK(includes(said.err, "runs as ServiceAccount mlk-driver of namespace 'default', which is not there"));
  CHECK(includes(said.err, "--create-rbac"));
  CHECK(cluster.is_empty());
  std::vector<std::string> kinds;
  std::size_t at = 0;
  while (at < said.out.size()) {
    REQUIRE(said.out.compare(at, 4, "---\n") == 0);
    const std::size_t next = std::min(said.out.find("\n---\n", at), said.out.size() - 1);
    const json object = mlk::to_json(mlk::parse_yaml(said.out.substr(at + 4, next + 1 - at - 4), "rights"));
    kinds.push_back(object["kind"]);
    CHECK(object["metadata"]["name"] == "mlk-driver");
    CHECK(object["metadata"]["namespace"] == "default");
    at = next + 1;
  }
  CHECK(kinds == std::vector<std::string>{"ServiceAccount", "Role", "RoleBinding"});
}

TEST_CASE("the error names the missing right if the driver's account lacks one") {
  Rbac cluster;
  for (const char* taken : {"get pods/log", "patch leases", "get secrets"}) {
    cluster.taken = taken;
    const auto said = cluster.detach();
    CHECK(said.code == 4);
    CHECK(includes(said.err, std::string("may not ") + taken + ": ServiceAccount mlk-driver"));
    CHECK(includes(said.out, "kind: Role\n"));
    CHECK(cluster.is_empty());
  }
  cluster.taken = "all";
  CHECK(includes(cluster.detach().err, "mlk-driver of namespace 'default', which has no Role"));
}

TEST_CASE("--create-rbac creates the driver's account if the account is missing") {
  Rbac cluster;
  CHECK(cluster.detach({"--create-rbac"}).code == 0);
  CHECK(cluster.created.empty());
  cluster.has_account = false;
  const auto said = cluster.detach({"--create-rbac"});
  CHECK(said.code == 0);
  CHECK(cluster.created == std::vector<std::string>{"ServiceAccount", "Role", "RoleBinding"});
  CHECK(includes(said.err, "created ServiceAccount, Role and RoleBinding mlk-driver"));
}

TEST_CASE("--create-rbac fails and creates nothing if the user may not create a Role") {
  Rbac cluster;
  cluster.has_account = cluster.may_create = false;
  const auto said = cluster.detach({"--create-rbac"});
  CHECK(said.code == 4);
  CHECK(includes(said.err, "ServiceAccount mlk-driver cannot be created: "));
  CHECK(includes(said.out, "kind: RoleBinding\n"));
  CHECK(cluster.is_empty());
}

TEST_CASE("a user can detach a sweep even without the rights of a driver") {
  Rbac cluster;
  CHECK(cluster.detach().code == 0);
  CHECK(cluster.asked_for_leases == 1);  // for the driver's account
}

TEST_CASE("a user can detach a sweep even without the right to check the driver's account") {
  Rbac cluster;
  cluster.may_look = cluster.may_impersonate = false;
  const auto said = cluster.detach();
  INFO(said.err);
  CHECK(said.code == 0);
  CHECK(includes(said.err, "you may not ask for the rights of ServiceAccount mlk-driver"));
}

TEST_CASE("mlk sweep --detach --dry-run=server checks the driver's account and creates nothing") {
  Rbac cluster;
  const auto good = cluster.detach({"--dry-run=server"});
  CHECK(good.code == 0);
  CHECK(includes(good.err, "-driver-"));
  cluster.has_account = false;
  CHECK(cluster.detach({"--dry-run=server", "--create-rbac"}).code == 4);
  CHECK(cluster.created.empty());
  CHECK(cluster.is_empty());
}

TEST_CASE("mlk sweep --detach creates no sweep if the cluster refuses the driver's Job") {
  Rbac cluster;
  cluster.before([](const Request& request) -> std::optional<Answer> {
    if (includes(request.path, "/serviceaccounts/")) return answer_of(200, {{"kind", "ServiceAccount"}});
    if (request.method != "POST" || !request.path.ends_with("/jobs")) return std::nullopt;
    return mlk::test::refusal(403, "Forbidden", "no Jobs for you");
  });
  const auto said = cluster.detach();
  CHECK(said.code == 6);
  CHECK(includes(said.err, "no Jobs for you"));
  CHECK(cluster.is_empty());
}

TEST_CASE("mlk sweep refuses flags that contradict --detach, and flags that need --detach if it is missing") {
  Rbac cluster;
  CHECK(includes(cluster.detach({"--wait"}).err, "--detach returns at once"));
  CHECK(cluster.detach({"--timeout", "1m"}).code == 2);
  const auto alone = cluster.mlk({"sweep", cluster.file(), "lr=1,2", "--create-rbac"});
  CHECK(alone.code == 2);
  CHECK(includes(alone.err, "need --detach"));
  CHECK(cluster.is_empty());
}

TEST_CASE("the driver of a sweep names the right that it lacks") {
  Rbac cluster;
  const std::string sweep = cluster.detach().out.substr(0, 7);
  const std::string name = cluster.names("jobs");
  const std::string key = name.substr(name.size() - 6, 5);
  cluster.taken = "watch pods";
  const auto said = cluster.mlk({"drive", sweep, key});
  CHECK(said.code == 4);
  CHECK(includes(said.err, "the driver may not watch pods in namespace 'default'"));
  cluster.taken = "";
  CHECK(includes(cluster.mlk({"drive", sweep, "other"}).err, "not found"));
}

TEST_CASE("the driver's image comes from the flag, else from the environment, else from the experiment") {
  Rbac cluster;
  const auto image_after = [&](std::vector<std::string> more, const std::string& by_environment) {
    Tree tree;
    tree.env["MLK_DRIVER_IMAGE"] = by_environment;
    std::vector<std::string> words{"sweep",    cluster.file(), "lr=1,2",
                                   "--detach", "--kubeconfig", cluster.kubeconfig()};
    words.insert(words.end(), more.begin(), more.end());
    CHECK(tree.run(words) == 0);
    const json jobs = cluster.ask("GET", mlk::test::jobs_path)["items"];
    REQUIRE(jobs.size() == 1);
    return jobs[0]["spec"]["template"]["spec"]["containers"][0]["image"].get<std::string>();
  };
  CHECK(image_after({}, "") == "i");
  CHECK(image_after({}, "e") == "e");
  CHECK(image_after({"--driver-image", "f"}, "e") == "f");
}

TEST_CASE("mlk logs accepts --role driver for a detached sweep") {
  Rbac cluster;
  const std::string sweep = cluster.detach().out.substr(0, 7);
  CHECK(cluster.mlk({"logs", sweep, "--role", "driver"}).code == 0);
  CHECK(cluster.mlk({"logs", sweep, "--role", "drivers"}).code == 2);
}

TEST_CASE("mlk-sweep(1) lists exactly the rights that the Role of the driver has") {
  std::ifstream page(mlk::test::source_dir() / "man" / "mlk-sweep.1");
  std::set<std::string> told, given;
  for (std::string line; std::getline(page, line);) {
    const std::size_t gap = line.find("   ");
    const bool is_row =
        gap != line.npos && (includes(line, "get, ") || includes(line, "list, ") || line.ends_with("get"));
    if (!is_row || line.starts_with(".")) continue;
    for (const std::string& resource : mlk::split(line.substr(0, gap), ',')) {
      for (const std::string& verb : mlk::split(line.substr(gap), ','))
        told.insert(std::string(mlk::trim(verb)) + " " + std::string(mlk::trim(resource)));
    }
  }
  for (const auto& right :
       mlk::sweeps::driver_questions(mlk::sweeps::render_driver_rights(mlk::Templates(), "n")))
    given.insert(mlk::sweeps::words_of(right));
  CHECK(mlk::join({told.begin(), told.end()}, ", ") == mlk::join({given.begin(), given.end()}, ", "));
}
