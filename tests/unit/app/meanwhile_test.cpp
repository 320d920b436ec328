// Tests actions of other users while a command asks a question, or between two requests of the command.

#include <atomic>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "cli/util/json_path.h"
#include "tests/unit/app/home_folder.h"
#include "tests/unit/app/tree.h"
#include "tests/unit/fake_cluster.h"
#include "tests/unit/registry/played_image.h"

TEST_SUITE_BEGIN("app/meanwhile");

namespace mlk {
namespace {

using nlohmann::json;
using test::FakeCluster;
using test::HomeFolder;
using test::Tree;

struct Told {
  int code;
  std::string out, err;
  bool has(const std::string& part) const { return err.find(part) != std::string::npos; }
};

// mlk at a terminal: the user says yes, and `meanwhile` happens before that.
struct Terminal : FakeCluster {
  std::function<void()> meanwhile = [] {};
  int asked = 0;

  Told type(std::vector<std::string> words) {
    Tree tree;
    tree.session.read_answer = [this] {
      ++asked;
      meanwhile();
      return "y\n";
    };
    words.insert(words.end(), {"--kubeconfig", kubeconfig()});
    const int code = tree.run(words);
    return {code, tree.out.str(), tree.err.str()};
  }
  // A run of one worker that runs since yesterday.
  void add_run(const std::string& run) {
    ask("POST", test::config_maps_path, test::owner_of(run, run.substr(0, 1)));
    ask("POST", test::jobs_path, test::job_of(run));
    store.create("pods", test::pod_of(run, "Running"));
    store.modify("configmaps", "default", run, [](json& owner) {
      owner["metadata"]["creationTimestamp"] =
          format_time(std::chrono::system_clock::now() - std::chrono::hours(24));
    });
  }
  void end_run(const std::string& run) {
    store.modify("jobs", "default", run + "-worker", [](json& job) {
      job["status"]["startTime"] = "2026-11-21T07:00:00Z";
      job["status"]["conditions"] = {{{"type", "Complete"}, {"status", "True"}}};
    });
  }
  bool is_suspended(const std::string& run) {
    return at_path(ask("GET", test::jobs_path + "/" + run + "-worker"), {"spec", "suspend"}) == true;
  }
};

struct TwoRuns : Terminal {
  TwoRuns() {
    add_run("a-aaaaa");
    add_run("b-bbbbb");
  }
};

const std::vector<std::string> deletes{"delete", "--no-wait", "--where", "phase==Running"},
    stops{"stop", "--timeout", "0", "--where", "phase==Running"};

// A repository with an image that mlk has built, and a terminal.
struct Repository : Terminal {
  const HomeFolder home;
  PlayedRegistry played;
  std::string digest = add_image(played, "team/x", "", {"a layer"});
  std::string tag = "mlk-" + digest.substr(7, 12);
  // Called before the registry answers this request.
  std::function<void(const PlayedRegistry::Request&)> before_request = [](const auto&) {};

  Repository() {
    played.manifests["team/x"][tag] = played.manifests["team/x"][digest];
    played.before = [this](const PlayedRegistry::Request& request, PlayedRegistry::Response& response) {
      before_request(request);
      if (!request.path.ends_with("/tags/list")) return false;
      response.set_content(json{{"tags", {tag}}}.dump(), "application/json");
      return true;
    };
  }
  void name_the_image() {
    json owner = test::owner_of("c-ccccc", "c");
    owner["metadata"]["labels"]["mlk.dev/hash"] = "0123";
    owner["metadata"]["annotations"]["mlk.dev/image"] = played.name + "/team/x@" + digest;
    ask("POST", test::config_maps_path, owner);
  }
  Told clear() { return type({"image", "gc", played.name + "/team/x"}); }
  bool has_image() { return played.manifests["team/x"].contains(digest); }
};

// An experiment whose code goes into an image.
struct Builds : Terminal {
  const HomeFolder home;
  PlayedRegistry played;
  const TemporaryFolder folder;
  std::filesystem::path file;

  explicit Builds(const std::string& more = "") {
    add_image(played, "base/x", "1", {"a layer"});
    folder.write("code/main.sh", "echo\n");
    file = folder.write("x.yaml", "name: x\nmode: single\nrun: sh main.sh ${N}\nenv: {N: '" + more +
                                      "'}\nimage: " + played.name + "/base/x:1\nregistry: " + played.name +
                                      "/team\ncode: {path: code, layer: true}\n");
  }
  // Runs `action` when mlk sends an owner that names an image to the cluster.
  void before_the_owner_is_there(const std::function<void()>& action) {
    before([action](const local::Request& request) -> std::optional<local::Answer> {
      const bool of_owner = request.method == "POST" && request.path == test::config_maps_path &&
                            request.body.find("mlk.dev/image") != std::string::npos;
      if (of_owner) action();
      return std::nullopt;
    });
  }
  // Whether the image that the owner names is in the registry.
  bool has_image(const std::string& run) {
    const std::string image =
        kube::annotation_of(ask("GET", test::config_maps_path + "/" + run), "mlk.dev/image");
    const std::size_t at = image.find('@');
    REQUIRE_MESSAGE(at != image.npos, image);
    return played.manifests["team/x"].contains(image.substr(at + 1));
  }
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

TEST_CASE(
    "mlk delete and mlk stop do not change a selected run if it ends between the question and the answer") {
  for (const auto& words : {deletes, stops}) {
    INFO(words.front());
    TwoRuns terminal;
    terminal.meanwhile = [&] { terminal.end_run("a-aaaaa"); };
    const Told told = terminal.type(words);
    CHECK(terminal.asked == 1);
    CHECK(told.has(words.front() + " 2: "));
    CHECK(told.has("a-aaaaa stays: phase==Running does not hold any more\n"));
    CHECK(terminal.has("configmaps", "a-aaaaa"));
    CHECK_FALSE(terminal.is_suspended("a-aaaaa"));
    if (words.front() == "delete") {
      CHECK_FALSE(terminal.has("configmaps", "b-bbbbb"));
    } else {
      CHECK(terminal.is_suspended("b-bbbbb"));
    }
  }
}

TEST_CASE("mlk delete and mlk stop do not change a run that is created between the question and the answer") {
  for (const auto& words : {deletes, stops}) {
    INFO(words.front());
    TwoRuns terminal;
    terminal.meanwhile = [&] { terminal.add_run("c-ccccc"); };
    const Told told = terminal.type(words);
    CHECK_FALSE(told.has("c-ccccc"));
    CHECK(terminal.has("configmaps", "c-ccccc"));
    CHECK_FALSE(terminal.is_suspended("c-ccccc"));
  }
}

TEST_CASE("mlk delete and mlk stop do not change a new run that has taken the name of a selected run") {
  for (const auto& words : {deletes, stops}) {
    INFO(words.front());
    TwoRuns terminal;
    terminal.meanwhile = [&] {
      terminal.store.remove("configmaps", "default", "a-aaaaa");
      terminal.ask("POST", test::config_maps_path, test::owner_of("a-aaaaa", "a"));
    };
    const Told told = terminal.type(words);
    CHECK(told.has("a-aaaaa stays: it was deleted meanwhile, and another one has its name\n"));
    CHECK(terminal.has("configmaps", "a-aaaaa"));
    CHECK_FALSE(terminal.is_suspended("a-aaaaa"));
  }
}

TEST_CASE("mlk image gc deletes an image that no run names, after the user has agreed") {
  Repository repository;
  const Told told = repository.clear();
  CHECK(told.code == 0);
  CHECK(repository.asked == 1);
  CHECK(told.has("deleted 1 image;"));
  CHECK_FALSE(repository.has_image());
}

TEST_CASE("mlk image gc keeps an image if a run begins to name it before the user answers") {
  Repository repository;
  repository.meanwhile = [&] { repository.name_the_image(); };
  const Told told = repository.clear();
  CHECK(told.has(repository.tag + " stays: it is in use now\n"));
  CHECK(told.has("deleted 0 images;"));
  CHECK(repository.played.count("DELETE ") == 0);
}

TEST_CASE("mlk image gc restores a deleted image if a run names it during the deletion") {
  Repository repository;
  repository.before_request = [&](const PlayedRegistry::Request& request) {
    if (request.method == "DELETE") repository.name_the_image();
  };
  const Told told = repository.clear();
  CHECK(told.code == 0);
  CHECK(told.has(repository.tag + " is there again: it is in use now\n"));
  CHECK(told.has("deleted 0 images;"));
  CHECK(repository.played.count("DELETE ") == 1);
  CHECK(repository.played.count("PUT /v2/team/x/manifests/" + repository.tag) == 1);
  CHECK(repository.has_image());
}

TEST_CASE("mlk sends an image again if the image is deleted before the run or sweep exists") {
  for (const bool is_sweep : {false, true}) {
    Builds builds(is_sweep ? "${sweep.n}" : "1");
    builds.before_the_owner_is_there([&] {
      const std::lock_guard lock(builds.played.mutex);
      builds.played.manifests["team/x"].clear();
    });
    const Told told = is_sweep ? builds.type({"sweep", builds.file.string(), "n=1,2"})
                               : builds.type({"submit", builds.file.string()});
    INFO(told.err);
    REQUIRE(told.code == 0);
    CHECK(told.has("meanwhile: it is sent again\n"));
    CHECK(builds.has_image(first_line(told.out)));
  }
}

TEST_CASE("mlk submits a run even if the registry does not say whether the image still exists") {
  Builds builds("1");
  std::atomic<bool> is_silent = false;
  builds.before_the_owner_is_there([&] { is_silent = true; });
  builds.played.before = [&](const PlayedRegistry::Request&, PlayedRegistry::Response& response) {
    if (is_silent) response.status = 403;
    return is_silent.load();
  };
  const Told told = builds.type({"submit", builds.file.string()});
  INFO(told.err);
  CHECK(told.code == 0);
  CHECK(told.has(" is still there could not be asked: registry " + builds.played.name));
  CHECK(builds.has_image(first_line(told.out)));
}

TEST_CASE("mlk sends an image only once if the image stays in the registry") {
  Builds builds("1");
  const Told told = builds.type({"submit", builds.file.string()});
  INFO(told.err);
  REQUIRE(told.code == 0);
  CHECK_FALSE(told.has("sent again"));
  CHECK(builds.has_image(first_line(told.out)));
  CHECK(builds.played.count("PUT /v2/team/x/manifests/") == 1);
}

}  // namespace mlk
