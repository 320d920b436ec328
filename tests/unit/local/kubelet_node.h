// A node. The test drives the kubelet, and writes the records of the supervisors.
#pragma once

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "cli/local/node/kubelet.h"
#include "cli/util/files.h"
#include "cli/util/json.h"
#include "tests/unit/local/samples.h"

namespace mlk::local::samples {

struct Node {
  // The kubelet finds the processes of a lost pod by the uid of the pod, also processes that another run of
  // these tests has started. So each run of the tests has its own uid.
  static inline const std::string uid = "kubelet-test-" + std::to_string(::getpid());
  Folder folder;
  Paths paths{folder.path()};
  Store store{paths.objects()};
  PodLogs logs{paths.pods()};
  Kubelet kubelet;
  Time now = noon;

  // The kubelet starts the script as `PROGRAM local supervise FOLDER`. The default script runs until the test
  // is over.
  explicit Node(const std::string& script = "while [ -d \"$3\" ]; do sleep 0.05; done")
      : kubelet(store, logs, paths, program(folder.path(), script)) {}

  static std::filesystem::path program(const std::filesystem::path& folder, const std::string& script) {
    const std::filesystem::path file = folder / "supervisor";
    write_text(file, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
  void create(const json& patch = json::object()) {
    json pod = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata", {{"name", "p"}, {"namespace", "default"}, {"uid", uid}}},
        {"spec", {{"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"work", "hard"}}}}}}}};
    pod.merge_patch(patch);
    store.create("pods", pod);
  }
  void step(bool sweep = false) {
    now += std::chrono::seconds(1);
    kubelet.step(now, sweep);
  }
  // Creates the pod. The first step schedules the pod, and the second step starts its supervisor.
  void start(const json& patch = json::object()) {
    create(patch);
    step();
    step();
    REQUIRE(record().start());
  }
  PodFolder record() const { return PodFolder(paths.pods() / uid); }
  template <typename Record>
  void supervisor_says(const Record& what) {
    record().write(what);
    kubelet.notice(uid);
    step();
  }
  void runs() { supervisor_says(Started{"2026-11-21T12:00:05Z", 4000000, nobody()}); }
  static ProcessId nobody() {
    ProcessId id = ProcessId::of_this_process();
    id.pid = 4000000;  // above all possible process ids
    return id;
  }
  json pod() const { return *store.get("pods", "default", "p"); }
  json at(const char* path) const { return pod().value(json::json_pointer(path), json()); }
  std::string phase() const { return at("/status/phase").get<std::string>(); }
  json state() const { return at("/status/containerStatuses/0/state"); }
  // "Type Reason: message" of each event, sorted.
  std::vector<std::string> events() const {
    std::vector<std::string> all;
    for (const Object& event : store.list("events"))
      all.push_back(event->at("type").get<std::string>() + " " + event->at("reason").get<std::string>() +
                    ": " + event->at("message").get<std::string>());
    std::ranges::sort(all);
    return all;
  }
  void delete_pod(int grace) {
    store.modify("pods", "default", "p", [&](json& pod) {
      pod["metadata"]["deletionTimestamp"] = format_time(now);
      pod["metadata"]["deletionGracePeriodSeconds"] = grace;
    });
    step();
  }
};

inline bool holds_in_time(const std::function<bool()>& done) {
  for (int i = 0; i < 6000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// Creates another pod of the node, with a name of its own.
inline void create_pod(Node& node, const std::string& name, json spec = json::object()) {
  json whole = {{"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"work"}}}}}};
  whole.merge_patch(spec);
  node.store.create(
      "pods", {{"apiVersion", "v1"},
               {"kind", "Pod"},
               {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", Node::uid + "-" + name}}},
               {"spec", whole}});
}

inline PodFolder record_of(const Node& node, const std::string& name) {
  return PodFolder(node.paths.pods() / (Node::uid + "-" + name));
}

inline json addresses_in(const Node& node) {
  return parse_json(read_file(node.paths.root / "addresses.json", 100000), "");
}

// Waits until `count` supervisors have ended, and returns whether they did. Each supervisor has written its
// process id to the file "started".
inline bool have_ended(const Node& node, std::size_t count) {
  return holds_in_time([&] {
    std::ifstream file(node.folder.path() / "started");
    std::size_t ended = 0;
    for (std::string pid; std::getline(file, pid);) {
      std::ifstream stat("/proc/" + pid + "/stat");
      std::string word;
      stat >> word >> word >> word;
      ended += word.empty() || word == "Z" ? 1u : 0u;
    }
    return ended == count;
  });
}

}  // namespace mlk::local::samples
