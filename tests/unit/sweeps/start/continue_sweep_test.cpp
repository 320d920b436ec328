#include "sweeps/start/continue_sweep.h"

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "sweeps/search/identity.h"
#include "tests/unit/sweeps/sweeper.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("sweeps/start/continue_sweep");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

std::string with_code(const std::string& image, const std::string& path = "/d",
                      const std::string& steps = "1") {
  return "name: x\nmode: single\nimage: " + image + "\ntrain: {data: {path: " + path + "}, steps: " + steps +
         ", optimizer: {lr: 0.5}}\n";
}

std::string kin_of(const std::string& text, const std::string& words = "lr=0.1") {
  return Sweeper(text).define({words}).kin;
}

}  // namespace

TEST_CASE("two sweeps are of the same kind if they differ only in image, program, data or values") {
  const std::string kin = kin_of(with_code("a"));
  CHECK(kin_of(with_code("b", "/other")) == kin);
  CHECK(kin_of(with_code("a"), "lr=7,8") == kin);
  CHECK(kin_of(with_code("a") + "data: [{name: d, mount: /d, pvc: p}]\n") == kin);
  CHECK(kin_of(with_code("a", "/d", "2")) != kin);
  CHECK(kin_of(with_code("a"), "batch=16") != kin);
  CHECK(kin_of(with_code("a") + "sweep: {objective: minimize loss}\n") != kin);
  CHECK(kin_of("name: x\nmode: single\nrun: a ${sweep.lr}\n") ==
        kin_of("name: x\nmode: single\nrun: b ${sweep.lr}\n"));
}

TEST_CASE("a sweep that continues with --same keeps old trials, and starts new ones with the new image") {
  Sweeper old(with_code("old"));
  const Started first = old.start({"lr=0.1,0.2"});
  old.set_job_status(first.sweep + "-trials-0", "0-1");
  old.file.text = with_code("new");
  Definition sweep = old.define({"lr=0.1,0.2,0.3"});
  REQUIRE(sweep.identity.run != first.sweep);
  kube::Client client(old.cluster.config());
  const auto same = go_on_with_same(client, "default", sweep);
  REQUIRE(same);
  CHECK(same->sweep == first.sweep);
  CHECK(same->trials == 2);
  CHECK(same->candidates == 1);
  CHECK(same->other);
  const Started more = start_by_cluster(client, old.request(sweep), old.hooks());
  CHECK(more.sweep == first.sweep);
  CHECK(more.started == 1);
  CHECK(more.trials == 3);
  CHECK(old.trials(first.sweep).size() == 3);
  const auto image = [&](int job) {
    const json object = old.cluster.ask("GET", test::jobs_path + "/" + job_name(first.sweep, job));
    return object["spec"]["template"]["spec"]["containers"][0]["image"];
  };
  CHECK(image(0) == "old");
  CHECK(image(1) == "new");
}

TEST_CASE("--same continues the newest sweep of the same kind") {
  Sweeper sweeper(with_code("a"));
  kube::Client client(sweeper.cluster.config());
  Definition sweep = sweeper.define({"lr=0.1"});
  CHECK_FALSE(go_on_with_same(client, "default", sweep));
  sweeper.start({"batch=16"});
  CHECK_FALSE(go_on_with_same(client, "default", sweep));
  const auto owner = [](const std::string& name, const std::string& created, const std::string& kin) {
    json out = test::owner_of(name);
    out["metadata"]["labels"][labels::sweep] = name;
    out["metadata"]["creationTimestamp"] = created;
    out["data"]["sweep"] = json{{"kin", kin}}.dump();
    return out;
  };
  json going = owner("x-4", "2026-11-24T10:00:00Z", "k");
  going["metadata"]["deletionTimestamp"] = "2026-11-24T11:00:00Z";
  const std::vector<json> found =
      of_kin({owner("x-1", "2026-11-23T10:00:00Z", "k"), owner("x-2", "2026-11-23T11:00:00Z", "k"),
              owner("x-3", "2026-11-23T12:00:00Z", "l"), going},
             "k");
  REQUIRE(found.size() == 2);
  CHECK(kube::name_of(found.front()) == "x-2");
}

TEST_CASE("find_with_other_code() finds a sweep that differs only in its code") {
  Sweeper sweeper("name: x\nmode: single\nimage: a\nrun: python3 x.py ${sweep.lr}\ncode: .\n");
  const TemporaryFolder folder;
  folder.write("x.py", "1");
  sweeper.file.folder = folder.path();
  kube::Client client(sweeper.cluster.config());
  const auto found = [&] {
    const std::optional<json> owner = find_with_other_code(client, "default", sweeper.define({"lr=1,2"}));
    return owner ? kube::name_of(*owner) : "";
  };
  CHECK(found() == "");
  const std::string first = sweeper.start({"lr=1"}).sweep;
  CHECK(found() == "");
  folder.write("notes", "n");
  CHECK(found() == first);
  const std::string text = sweeper.file.text;
  sweeper.file.text = text + "env: {A: b}\n";
  CHECK(found() == "");
  sweeper.file.text = "name: x\nmode: single\nimage: b\nrun: python3 x.py ${sweep.lr}\ncode: .\n";
  CHECK(found() == "");
  sweeper.file.text = text;
  const std::string second = sweeper.start({"lr=1"}).sweep;
  CHECK(second != first);
  CHECK(found() == "");
}

TEST_CASE("a sweep that continues with other files gives the copies of these files another name") {
  Sweeper sweeper(with_code("a"));
  Definition sweep = sweeper.define({"lr=0.1"});
  json owner = test::owner_of("x-abcde");
  owner["metadata"]["labels"][labels::hash] = "0123456789abcdef";
  owner["data"]["digests"] = "{}";
  adopt(sweep, owner);
  CHECK(sweep.identity.run == "x-abcde");
  CHECK(sweep.identity.hash == "0123456789abcdef");
  CHECK(sweep.files_of == "x-abcde");
  owner["data"]["digests"] = R"({"code.tar":"1","code.python":"2"})";
  adopt(sweep, owner);
  CHECK(sweep.files_of == "x-abcde");
  owner["data"]["digests"] = R"({"d":{"f":"1"}})";
  adopt(sweep, owner);
  CHECK(sweep.files_of.size() == std::string("x-abcde-fghij").size());
}

TEST_CASE("go_on_with_same() says how many sweeps are of the same kind") {
  Sweeper sweeper(with_code("one"));
  sweeper.start({"lr=0.1"});
  sweeper.file.text = with_code("two");
  const std::string second = sweeper.start({"lr=0.1,0.2"}).sweep;
  kube::Client client(sweeper.cluster.config());
  sweeper.file.text = with_code("three");
  Definition third = sweeper.define({"lr=0.1"});
  const auto of_two = go_on_with_same(client, "default", third);
  REQUIRE(of_two);
  CHECK(of_two->candidates == 2);
  CHECK(of_two->other);
  CHECK(third.identity.run == of_two->sweep);
  CHECK(third.files_of == of_two->sweep);
  Sweeper alone(with_code("two"));
  CHECK(alone.start({"lr=0.1,0.2"}).sweep == second);
  kube::Client client_of_one(alone.cluster.config());
  Definition same = alone.define({"lr=0.1,0.2,0.3"});
  const auto of_one = go_on_with_same(client_of_one, "default", same);
  REQUIRE(of_one);
  CHECK_FALSE(of_one->other);
  CHECK(of_one->trials == 2);
  CHECK(of_one->candidates == 1);
  CHECK(same.identity.run == second);
}
