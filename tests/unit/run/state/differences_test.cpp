// Tests which values the wide list shows because they differ between runs of one name.
#include "cli/run/state/differences.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("run/state/differences");

namespace mlk {
namespace {

using json = nlohmann::json;

RunStatus run(const std::string& name, const std::string& of, const json& experiment) {
  RunStatus status;
  status.run = name;
  status.name = of;
  status.experiment = experiment;
  return status;
}

using Differences = std::map<std::string, std::string>;

TEST_CASE("differences_of() shows the values in which runs of one name differ") {
  CHECK(differences_of({run("a", "x", {{"train", {{"lr", 0.1}, {"steps", 10}}}, {"image", "i"}}),
                        run("b", "x", {{"train", {{"lr", 0.2}, {"steps", 10}}}, {"image", "j"}})}) ==
        Differences{{"a", "image=i train.lr=0.1"}, {"b", "image=j train.lr=0.2"}});
}

TEST_CASE("differences_of() does not compare runs of different names") {
  CHECK(differences_of({run("a", "x", {{"image", "i"}}), run("b", "y", {{"image", "j"}})}) ==
        Differences{{"a", ""}, {"b", ""}});
  CHECK(differences_of({}).empty());
}

TEST_CASE("differences_of() shows no value for a key that a run lacks") {
  CHECK(differences_of({run("a", "x", {{"image", "i"}}), run("b", "x", {{"other", ""}})}) ==
        Differences{{"a", "image=i"}, {"b", "other="}});
}

TEST_CASE("differences_of() does not compare a sweep with runs") {
  CHECK(differences_of({run("a", "x", nullptr), run("b", "x", {{"image", "i"}})}) ==
        Differences{{"a", ""}, {"b", ""}});
  CHECK(differences_of({run("a", "x", nullptr), run("b", "x", {{"lr", 1}, {"image", "i"}}),
                        run("c", "x", {{"lr", 2}, {"image", "i"}})}) ==
        Differences{{"a", ""}, {"b", "lr=1"}, {"c", "lr=2"}});
}

TEST_CASE("the keys `tags`, `note` and `mode` do not count as differences") {
  CHECK(differences_of({run("a", "x", {{"tags", {1}}, {"note", "n"}, {"mode", "ps"}, {"image", "i"}}),
                        run("b", "x", {{"tags", {2}}, {"note", "m"}, {"mode", "single"}, {"image", "i"}})}) ==
        Differences{{"a", ""}, {"b", ""}});
}

TEST_CASE("differences_of() compares lists and empty maps as whole values") {
  CHECK(differences_of({run("a", "x", {{"list", {1, 2}}, {"map", json::object()}}),
                        run("b", "x", {{"list", {1, 3}}, {"map", {{"k", true}}}})}) ==
        Differences{{"a", "list=[1,2] map={}"}, {"b", "list=[1,3] map.k=true"}});
}

TEST_CASE("differences_of() shows at most six differences of a run") {
  json one, other;
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) {
    one[key] = 1;
    other[key] = 2;
  }
  CHECK(differences_of({run("1", "x", one), run("2", "x", other)})["1"] == "a=1 b=1 c=1 d=1 e=1 f=1");
  one["g"] = 1;
  CHECK(differences_of({run("1", "x", one), run("2", "x", other)})["1"] == "a=1 b=1 c=1 d=1 e=1 f=1 ...");
  const std::string same(40, 'v');
  CHECK(differences_of({run("1", "x", {{"k", same}}), run("2", "x", {{"k", same + "w"}})}) ==
        Differences{{"1", "k=" + same}, {"2", "k=" + same + "..."}});
  CHECK(differences_of({run("1", "x", {{"k\x1b", "\x1b"}}), run("2", "x", json::object())})["1"] == "k?=?");
}

TEST_CASE("differences_of() compares a value as a whole if it is nested too deeply") {
  json deep = 1;
  for (int i = 0; i < 40; ++i) deep = {{"k", deep}};
  const auto differences = differences_of({run("a", "x", deep), run("b", "x", json::object({{"k", 2}}))});
  std::string path = "k";
  for (int i = 1; i < 32; ++i) path += ".k";
  CHECK(differences.at("a").starts_with(path + "={\"k\":"));
}

}  // namespace
}  // namespace mlk
