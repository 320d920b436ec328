// Garbage collection while other threads create objects.
#include "cli/local/garbage.h"

#include <atomic>
#include <thread>
#include <tuple>

#include <doctest/doctest.h>

#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/garbage");

using namespace mlk::local;
using mlk::local::samples::Folder;

namespace {

json named(const std::string& name) {
  return {{"metadata", {{"name", name}, {"namespace", "ns"}, {"uid", "u-" + name}}}};
}

json owned_by(const std::string& owner, const std::string& name) {
  json made = named(name);
  made["metadata"]["ownerReferences"] = json::array({{{"uid", "u-" + owner}, {"name", owner}}});
  return made;
}

}  // namespace

TEST_CASE("the collector deletes an object whose owner does not exist, and no other object") {
  const Folder folder;
  Store store(folder.path());
  store.create("configmaps", named("owner"));
  store.create("secrets", owned_by("owner", "kept"));
  store.create("secrets", owned_by("gone", "orphan"));
  store.create("secrets", named("nobodys"));
  collect_garbage(store, std::chrono::system_clock::now());
  CHECK(store.find("secrets", "ns", "kept"));
  CHECK_FALSE(store.find("secrets", "ns", "orphan"));
  CHECK(store.find("secrets", "ns", "nobodys"));
}

TEST_CASE("a dependent is kept while at least one of its owners exists") {
  const Folder folder;
  Store store(folder.path());
  store.create("configmaps", named("owner"));
  for (const auto& [name, first, second] :
       {std::tuple{"a", "owner", "gone"}, {"b", "gone", "owner"}, {"c", "gone", "gone-too"}}) {
    json both = owned_by(first, name);
    both["metadata"]["ownerReferences"].push_back(owned_by(second, name)["metadata"]["ownerReferences"][0]);
    store.create("secrets", both);
  }
  collect_garbage(store, std::chrono::system_clock::now());
  CHECK(store.find("secrets", "ns", "a"));
  CHECK(store.find("secrets", "ns", "b"));
  CHECK_FALSE(store.find("secrets", "ns", "c"));
}

TEST_CASE("the collector keeps an object that is created right after its owner") {
  const Folder folder;
  Store store(folder.path());
  std::atomic<bool> done = false;
  std::thread collector([&] {
    while (!done) collect_garbage(store, std::chrono::system_clock::now());
  });
  constexpr int count = 1000;
  for (int i = 0; i < count; ++i) {
    const std::string owner = "owner-" + std::to_string(i), owned = "owned-" + std::to_string(i);
    store.create("configmaps", named(owner));
    store.create("secrets", owned_by(owner, owned));
    if (i % 2 == 0 || !store.find("secrets", "ns", owned)) continue;
    store.modify("secrets", "ns", owned, [](json& object) { object["metadata"].erase("ownerReferences"); });
    store.remove("configmaps", "ns", owner);
  }
  done = true;
  collector.join();
  CHECK(store.list("secrets").size() == count);
}
