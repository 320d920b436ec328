// The files of a store, its history and its bounds, and the listeners of changes.
#include <atomic>
#include <sys/stat.h>
#include <thread>

#include <doctest/doctest.h>

#include "cli/local/state/store.h"
#include "cli/util/files.h"
#include "cli/util/hash.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/state/store_files");

namespace mlk::local {
namespace {

using namespace samples;
using namespace nlohmann::literals;

const std::chrono::steady_clock::time_point past{};

json stored_thing(const std::string& name_space, const std::string& name, const std::string& value = "1") {
  json made = {{"metadata", {{"name", name}}}, {"data", {{"v", value}}}};
  if (!name_space.empty()) made["metadata"]["namespace"] = name_space;
  return made;
}

// "namespace/name=value" of each object.
std::vector<std::string> seen_in(const std::vector<Object>& objects) {
  std::vector<std::string> result;
  for (const Object& object : objects)
    result.push_back(object->at("metadata").value("namespace", "") + "/" +
                     object->at("metadata").at("name").get<std::string>() + "=" +
                     object->at("data").at("v").get<std::string>());
  return result;
}

std::string refused_by_store(const std::function<void()>& action) {
  try {
    action();
  } catch (const StatusError& refusal) {
    return std::to_string(refusal.code()) + " " + refusal.reason() + " " + refusal.what();
  }
  return "done";
}

std::string text_in(const std::filesystem::path& file) { return read_file(file, 1 << 22); }

TEST_CASE("an object has its own file of mode 0600, which is removed with the object") {
  const Folder folder;
  Store store(folder.path());
  const Object a = store.create("configmaps", stored_thing("ns", "a"));
  const Object node = store.create("nodes", stored_thing("", "n"));
  const std::filesystem::path of_a = folder.path() / "configmaps/ns/a.json";
  const std::filesystem::path of_node = folder.path() / "nodes/~/n.json";
  CHECK(json::parse(text_in(of_a)) == *a);
  CHECK(json::parse(text_in(of_node)) == *node);
  struct stat info{};
  REQUIRE(::stat(of_a.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(store.remove("configmaps", "ns", "a"));
  CHECK_FALSE(std::filesystem::exists(of_a));
  CHECK_FALSE(store.remove("configmaps", "ns", "a"));
  store.modify("nodes", "", "n",
               [](json& object) { object["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"; });
  CHECK_FALSE(std::filesystem::exists(of_node));
}

TEST_CASE(
    "an object's file is named like the object, but a name of more than 200 bytes is cut and made unique") {
  const Folder folder;
  Store store(folder.path());
  const std::string fits(200, 'a'), longer(201, 'b');
  store.create("configmaps", stored_thing("ns", fits));
  store.create("configmaps", stored_thing("ns", longer));
  const std::filesystem::path place = folder.path() / "configmaps/ns";
  CHECK(std::filesystem::exists(place / (fits + ".json")));
  CHECK(std::filesystem::exists(place /
                                (std::string(150, 'b') + "~" + sha256_hex(longer).substr(0, 32) + ".json")));
}

TEST_CASE("the first version of a new store is 1, and the first version after the next start is 10001") {
  const Folder folder;
  {
    Store store(folder.path());
    CHECK(store.revision() == 1);
    CHECK(text_in(folder.path() / "revision") == "10000");
    CHECK(store.create("configmaps", stored_thing("ns", "a"))->at("metadata").at("resourceVersion") == "2");
    CHECK(store.revision() == 2);
    CHECK(text_in(folder.path() / "revision") == "10000");
  }
  CHECK(Store(folder.path()).revision() == 10001);
  CHECK(text_in(folder.path() / "revision") == "20000");
}

TEST_CASE("the versions of a store begin after the highest version of its objects") {
  const Folder folder;
  for (const char* version : {"700", "650"}) {
    json old = stored_thing("ns", std::string("v") + version);
    old["metadata"]["resourceVersion"] = version;
    write_text(folder.path() / "configmaps/ns" / ("v" + std::string(version) + ".json"), old.dump());
  }
  write_text(folder.path() / "revision", "600");
  CHECK(Store(folder.path()).revision() == 701);
  CHECK(text_in(folder.path() / "revision") == "10700");
}

TEST_CASE("a file whose content is no valid object is renamed, and a file without .json is ignored") {
  const Folder folder;
  const std::filesystem::path place = folder.path() / "configmaps/ns";
  const char* version = R"("resourceVersion": "5")";
  const std::pair<const char*, std::string> bad[] = {
      {"no-name", std::string(R"({"metadata": {)") + version + "}}"},
      {"no-version", R"({"metadata": {"name": "a"}})"},
      {"odd-version", R"({"metadata": {"name": "a", "resourceVersion": "x"}})"},
      {"no-metadata", "{}"},
      {"list", "[]"},
      {"empty", ""}};
  for (const auto& [name, text] : bad) write_text(place / (std::string(name) + ".json"), text);
  write_text(place / "good.json", std::string(R"({"metadata": {"name": "g", "namespace": "ns", )") + version +
                                      R"(}, "data": {"v": "1"}})");
  write_text(place / "note.txt", "x");
  const Store store(folder.path());
  CHECK(seen_in(store.list("configmaps")) == std::vector<std::string>{"ns/g=1"});
  for (const auto& [name, text] : bad) {
    CAPTURE(name);
    CHECK_FALSE(std::filesystem::exists(place / (std::string(name) + ".json")));
    CHECK(text_in(place / (std::string(name) + ".json.broken")) == text);
  }
  CHECK(std::filesystem::exists(place / "note.txt"));
}

TEST_CASE("list() sorts the objects of one kind by namespace and name") {
  const Folder folder;
  Store store(folder.path());
  for (const auto& [plural, space, name] : {std::tuple{"pods", "b", "a"},
                                            {"pods", "a-b", "z"},
                                            {"pods", "a", "z"},
                                            {"pods", "a", "a.b"},
                                            {"pods", "a", "a"},
                                            {"podsets", "a", "x"},
                                            {"nodes", "", "n"},
                                            {"services", "a", "s"}})
    store.create(plural, stored_thing(space, name));
  CHECK(seen_in(store.list("pods")) ==
        std::vector<std::string>{"a/a=1", "a/a.b=1", "a/z=1", "a-b/z=1", "b/a=1"});
  CHECK(seen_in(store.list("pods", "a")) == std::vector<std::string>{"a/a=1", "a/a.b=1", "a/z=1"});
  CHECK(seen_in(store.list("pods", "a-b")) == std::vector<std::string>{"a-b/z=1"});
  CHECK(store.list("pods", "aa").empty());
  CHECK(store.list("none").empty());
  CHECK(store.find("pods", "b", "a"));
  CHECK_FALSE(store.find("pods", "a", "none"));
  CHECK_FALSE(store.find("pods", "", "a"));
  CHECK_FALSE(store.find("services", "a", "a"));
  const Store::Snapshot snapshot = store.snapshot("podsets", "");
  CHECK(seen_in(snapshot.objects) == std::vector<std::string>{"a/x=1"});
  CHECK(snapshot.revision == store.revision());
}

TEST_CASE("an object of more than 1.5 MiB is refused, and the stored object stays unchanged") {
  const Folder folder;
  Store store(folder.path());
  json full = stored_thing("ns", "a", "");
  full["metadata"]["resourceVersion"] = "2";
  const std::size_t room = 3 * 512 * 1024 - full.dump().size();
  const auto refused = [&](const std::string& name, std::size_t size) {
    return refused_by_store(
        [&] { store.create("configmaps", stored_thing("ns", name, std::string(size, 'x'))); });
  };
  CHECK(refused("a", room + 1) ==
        "413 RequestEntityTooLarge configmaps \"a\" is too large: at most 1572864 bytes");
  CHECK_FALSE(store.find("configmaps", "ns", "a"));
  CHECK(refused("a", room) == "done");
  const auto grow = [](json& object) { object["data"]["v"] = object["data"]["v"].get<std::string>() + "x"; };
  CHECK(refused_by_store([&] { store.modify("configmaps", "ns", "a", grow); }).starts_with("413 "));
  CHECK(store.get("configmaps", "ns", "a")->at("data").at("v").get<std::string>().size() == room);
}

TEST_CASE("modify() ignores a version that its callback sets, and a check can prevent remove()") {
  const Folder folder;
  Store store(folder.path());
  store.create("configmaps", stored_thing("ns", "a"));
  const Object changed = store.modify("configmaps", "ns", "a", [](json& object) {
    object["metadata"]["resourceVersion"] = "77";
    object["data"]["v"] = "2";
  });
  CHECK(*changed == *store.get("configmaps", "ns", "a"));
  CHECK(changed->at("metadata").at("resourceVersion") == "3");
  store.modify("configmaps", "ns", "a", [](json& object) {
    object["metadata"]["resourceVersion"] = "77";
  });  // this changes nothing else
  CHECK(store.revision() == 3);
  CHECK(refused_by_store([&] {
          store.modify("configmaps", "ns", "a", [](json& object) {
            object["data"]["v"] = "3";
            throw bad_request("no");
          });
        }) == "400 BadRequest no");
  CHECK(refused_by_store([&] {
          store.remove("configmaps", "ns", "a", [](const json& object) {
            throw conflict("configmaps", object.at("metadata").at("name"), "kept");
          });
        }).starts_with("409 Conflict "));
  CHECK(seen_in(store.list("configmaps")) == std::vector<std::string>{"ns/a=2"});
  CHECK(store.remove("configmaps", "ns", "a", [](const json&) {}));
}

TEST_CASE("a deleted object is removed when it has the grace period 0 and no finalizer") {
  const auto left = [](const json& metadata) {
    const Folder folder;
    Store store(folder.path());
    store.create("pods", stored_thing("ns", "a"));
    const Object last =
        store.modify("pods", "ns", "a", [&](json& object) { object["metadata"].merge_patch(metadata); });
    CHECK(last->at("metadata").at("name") == "a");
    return store.find("pods", "ns", "a") != nullptr;
  };
  const char* time = "2026-11-21T12:00:00Z";
  CHECK_FALSE(left({{"deletionTimestamp", time}}));
  CHECK_FALSE(left({{"deletionTimestamp", time}, {"deletionGracePeriodSeconds", 0}}));
  CHECK_FALSE(left({{"deletionTimestamp", time}, {"finalizers", json::array()}}));
  CHECK(left({{"deletionTimestamp", time}, {"deletionGracePeriodSeconds", 1}}));
  CHECK(left({{"deletionTimestamp", time}, {"finalizers", {"x.io/f"}}}));
  CHECK(left({{"deletionGracePeriodSeconds", 0}}));
}

TEST_CASE("changes_after() returns the version of each change, and the object before and after the change") {
  const Folder folder;
  Store store(folder.path());
  std::uint64_t seen = store.revision();
  const Object made = store.create("configmaps", stored_thing("ns", "a"));
  const Object secret = store.create("secrets", stored_thing("ns", "s"));
  const Object changed =
      store.modify("configmaps", "ns", "a", [](json& object) { object["data"]["v"] = "2"; });
  store.remove("configmaps", "ns", "a");
  std::uint64_t of_maps = seen;
  const std::vector<Change> changes = store.changes_after(seen, "", past);
  REQUIRE(changes.size() == 4);
  CHECK(seen == 5);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(changes[i].revision == i + 2);
    CHECK(changes[i].plural == (i == 1 ? "secrets" : "configmaps"));
    CHECK(changes[i].object->at("metadata").at("resourceVersion") == std::to_string(i + 2));
  }
  CHECK(changes[0].type == Change::Type::added);
  CHECK(changes[0].before == nullptr);
  CHECK(changes[1].object == secret);
  CHECK(changes[2].type == Change::Type::modified);
  CHECK(changes[2].before == made);
  CHECK(changes[2].object == changed);
  CHECK(changes[3].type == Change::Type::deleted);
  CHECK(changes[3].before == changed);
  CHECK(changes[3].object->at("data").at("v") == "2");
  CHECK(store.changes_after(of_maps, "configmaps", past).size() == 3);
  CHECK(of_maps == 5);
  std::uint64_t middle = 3, none = 1;
  CHECK(store.changes_after(middle, "configmaps", past).size() == 2);
  CHECK(store.changes_after(none, "pods", past).empty());
  CHECK(none == 5);
  std::uint64_t ahead = 99;
  CHECK(store.changes_after(ahead, "", past).empty());
  CHECK(ahead == 99);
  std::uint64_t before_all = 0;
  CHECK(refused_by_store([&] { store.changes_after(before_all, "", past); }) ==
        "410 Expired too old resource version: 0 (1)");
}

TEST_CASE("snapshot_at() returns the objects that existed at an earlier version") {
  const Folder folder;
  Store store(folder.path());
  store.create("configmaps", stored_thing("a", "x"));
  store.create("configmaps", stored_thing("b", "x"));
  store.create("configmaps", stored_thing("b", "gone"));
  store.create("secrets", stored_thing("a", "s"));
  const std::uint64_t then = store.revision();
  for (const char* value : {"2", "3"})
    store.modify("configmaps", "a", "x", [&](json& object) { object["data"]["v"] = value; });
  store.remove("configmaps", "b", "gone");
  store.create("configmaps", stored_thing("b", "gone", "again"));
  store.create("configmaps", stored_thing("a", "new"));
  store.remove("secrets", "a", "s");
  const auto seen_at = [&](const char* plural, const std::string& space, std::uint64_t revision) {
    const Store::Snapshot snapshot = store.snapshot_at(plural, space, revision);
    CHECK(snapshot.revision == revision);
    return seen_in(snapshot.objects);
  };
  using Texts = std::vector<std::string>;
  CHECK(seen_at("configmaps", "", then) == Texts{"a/x=1", "b/gone=1", "b/x=1"});
  CHECK(seen_at("configmaps", "a", then) == Texts{"a/x=1"});
  CHECK(seen_at("configmaps", "b", then) == Texts{"b/gone=1", "b/x=1"});
  CHECK(seen_at("secrets", "", then) == Texts{"a/s=1"});
  CHECK(seen_at("configmaps", "", then + 1) == Texts{"a/x=2", "b/gone=1", "b/x=1"});
  CHECK(seen_at("configmaps", "", then + 3) == Texts{"a/x=3", "b/x=1"});
  CHECK(seen_at("configmaps", "", store.revision()) == Texts{"a/new=1", "a/x=3", "b/gone=again", "b/x=1"});
  CHECK(seen_at("configmaps", "", 1).empty());
  CHECK(refused_by_store([&] { store.snapshot_at("configmaps", "", 0); }) ==
        "410 Expired The provided continue parameter is too old");
}

TEST_CASE("the history of a store has at most 64 MiB of objects; a request for an older version gets 410") {
  const Folder folder;
  Store store(folder.path());
  json sample = stored_thing("ns", "a", "");
  sample["metadata"]["resourceVersion"] = "00";
  const std::string mebibyte((1 << 20) - sample.dump().size(), 'x');
  for (int i = 2; i < 10; ++i) store.create("configmaps", stored_thing("ns", std::to_string(i), "small"));
  CHECK(store.revision() == 9);
  store.create("configmaps", stored_thing("ns", "a", mebibyte));
  for (int i = 11; i <= 73; ++i)
    store.modify("configmaps", "ns", "a", [&](json& object) {
      std::string text = mebibyte;
      text[0] = static_cast<char>('A' + i % 2);
      object["data"]["v"] = text;
    });
  // After eight small changes there are 64 changes of 1 MiB each, so the history does not have the small
  // changes any more.
  std::uint64_t seen = 8;
  CHECK(refused_by_store([&] { store.changes_after(seen, "", past); }) ==
        "410 Expired too old resource version: 8 (9)");
  seen = 9;
  CHECK(store.changes_after(seen, "", past).size() == 64);
  store.remove("configmaps", "ns", "a");
  seen = 9;
  CHECK(refused_by_store([&] { store.changes_after(seen, "", past); }) ==
        "410 Expired too old resource version: 9 (10)");
  CHECK(refused_by_store([&] { store.snapshot_at("configmaps", "", 9); }).starts_with("410 "));
  seen = 10;
  CHECK(store.changes_after(seen, "", past).size() == 64);
}

TEST_CASE("the listener of a store is called once for each change") {
  const Folder folder;
  Store store(folder.path());
  int calls = 0;
  store.on_change([&] { ++calls; });
  store.create("configmaps", stored_thing("ns", "a"));
  CHECK(calls == 1);
  store.modify("configmaps", "ns", "a", [](json&) {});
  CHECK(calls == 1);
  store.modify("configmaps", "ns", "a", [](json& object) { object["data"]["v"] = "2"; });
  CHECK(calls == 2);
  store.remove("configmaps", "ns", "a");
  CHECK(calls == 3);
  store.remove("configmaps", "ns", "a");
  CHECK(calls == 3);
  store.on_change(nullptr);
  store.create("configmaps", stored_thing("ns", "a"));
  CHECK(calls == 3);
}

TEST_CASE("changes_after() returns at the first change, or after wake_watches()") {
  const Folder folder;
  Store store(folder.path());
  for (const bool wake : {false, true}) {
    const std::uint64_t since = store.revision();
    std::atomic<bool> over{false};
    std::vector<Change> changes;
    std::thread waiting([&] {
      std::uint64_t seen = since;
      changes =
          store.changes_after(seen, "secrets", std::chrono::steady_clock::now() + std::chrono::seconds(30));
      over = true;
    });
    if (!wake) {
      store.create("configmaps", stored_thing("ns", "a"));
      store.create("secrets", stored_thing("ns", "s"));
    }
    while (wake && !over) {
      store.wake_watches();
      std::this_thread::yield();
    }
    waiting.join();
    CHECK(changes.size() == (wake ? 0 : 1));
  }
}

}  // namespace
}  // namespace mlk::local
