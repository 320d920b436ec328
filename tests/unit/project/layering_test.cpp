// Checks the sources against the rooms of cmake/rooms.txt: a file includes only headers of the rooms that its
// own room may include. Also checks that cli/ stays portable.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/paths.h"
#include "tests/unit/project/rooms.h"

TEST_SUITE_BEGIN("project/layering");

namespace fs = std::filesystem;

using mlk::test::room_of;
using mlk::test::rooms;
using mlk::test::SourceFile;
using mlk::test::sources_below;

namespace {

// The headers of the checkout that a file includes.
std::vector<std::string> own_includes(const SourceFile& source) {
  static const std::regex include("^\\s*#\\s*include\\s+\"([^\"]+)\"");
  std::vector<std::string> found;
  for (const std::string& line : source.lines) {
    std::smatch match;
    if (std::regex_search(line, match, include)) found.push_back(match[1]);
  }
  return found;
}

// A header and its source are one node: "cli/run/state/observe".
using Graph = std::map<std::string, std::set<std::string>>;

std::string node_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

// For each node, all nodes that this node includes, directly or through other nodes.
Graph reachable(const Graph& graph) {
  Graph out;
  for (const auto& [start, unused] : graph) {
    std::vector<std::string> open{start};
    while (!open.empty()) {
      const std::string node = open.back();
      open.pop_back();
      const auto next = graph.find(node);
      if (next == graph.end()) continue;
      for (const std::string& each : next->second) {
        if (out[start].insert(each).second) open.push_back(each);
      }
    }
  }
  return out;
}

// The circles of files within rooms. A circle is a set of nodes that include each other, directly or through
// other nodes.
std::set<std::set<std::string>> circles_of_files() {
  Graph graph;
  for (const SourceFile& source : sources_below(mlk::test::roots_of_rooms())) {
    const std::string path = source.path.string();
    for (const std::string& included : own_includes(source)) {
      if (room_of(included) == room_of(path) && node_of(included) != node_of(path))
        graph[node_of(path)].insert(node_of(included));
    }
  }
  const Graph reached = reachable(graph);
  std::set<std::set<std::string>> circles;
  for (const auto& [node, others] : reached) {
    if (others.count(node) == 0) continue;
    std::set<std::string> circle{node};
    for (const std::string& other : others) {
      const auto back = reached.find(other);
      if (back != reached.end() && back->second.count(node) == 1) circle.insert(other);
    }
    circles.insert(std::move(circle));
  }
  return circles;
}

}  // namespace

TEST_CASE("a file includes only headers of its own folder and of the folders that cmake/rooms.txt allows") {
  const std::vector<SourceFile> all = sources_below(mlk::test::roots_of_rooms());
  REQUIRE(all.size() > 20);
  for (const SourceFile& source : all) {
    const std::string path = source.path.string(), room = room_of(path);
    REQUIRE_MESSAGE(rooms().count(room) == 1, path, " lies outside the map");
    for (const std::string& included : own_includes(source)) {
      const std::string target = room_of(included);
      CHECK_MESSAGE(!target.empty(), path, ": ", included, " is not written from the root of the checkout");
      const bool down = target == room || rooms().at(room).may_include.count(target) == 1;
      CHECK_MESSAGE(down, path, ": ", included, " points up the map");
    }
  }
}

TEST_CASE("files of one folder include each other in a circle only in the listed cases") {
  const std::set<std::set<std::string>> known = {
      // Overrides and rules use the types of load.h, and load.cpp applies both.
      {"cli/experiment/load", "cli/experiment/overrides", "cli/experiment/rules"},
      // client.cpp requests lists with list.h, and both throw errors that failure.h makes.
      {"cli/kube/client", "cli/kube/failure", "cli/kube/list"},
      // A user entry of a kubeconfig may name a plugin, and the plugin gets parts of the kubeconfig.
      {"cli/kube/login/exec_plugin", "cli/kube/login/kubeconfig", "cli/kube/login/user_entry"},
      // Both ways to start a sweep use the StartRequest of start.h.
      {"sweeps/start/job_trials", "sweeps/start/prepare_driven", "sweeps/start/start"},
      // The run of a trial is a part of the sweep's state, and trial_runs.cpp reads results with observe.h.
      {"sweeps/trials/control", "sweeps/trials/observe", "sweeps/trials/trial_runs"},
      // Each of the next three circles has an interface and the factory of the interface.
      {"runtime/data/dataset", "runtime/data/image_dataset", "runtime/data/token_dataset"},
      {"runtime/model/cnn", "runtime/model/dense_layers", "runtime/model/gpt", "runtime/model/mlp",
       "runtime/model/model"},
      {"runtime/transport/transport", "runtime/transport/transport_impl"},
  };
  CHECK(known.size() <= 8);
  for (const std::set<std::string>& circle : circles_of_files()) {
    std::string names;
    for (const std::string& node : circle) names += " " + node;
    CHECK_MESSAGE(known.count(circle) == 1, "a circle:", names);
  }
  for (const std::set<std::string>& circle : known)
    CHECK_MESSAGE(circles_of_files().count(circle) == 1, *circle.begin(), " is in no circle any more");
}

TEST_CASE("the map in ARCHITECTURE.md shows every folder of cmake/rooms.txt with its description") {
  std::ifstream in(fs::path(mlk::test::source_dir()) / "ARCHITECTURE.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const auto& [folder, room] : rooms()) {
    const std::string name = folder.substr(folder.rfind('/') + 1);
    const std::regex line("\n *(\\S+/)?" + name + "/ +" +
                          std::regex_replace(room.what, std::regex("[+.()]"), "\\$&"));
    CHECK_MESSAGE(std::regex_search(page, line), folder, ": ", room.what);
  }
}

TEST_CASE("cli/ and sweeps/ use no calls that only Linux has, except in the local cluster") {
  const std::regex linux_only(
      "sys/(epoll|inotify|signalfd|eventfd|timerfd)\\.h|\\b(accept4|pipe2|epoll_wait|signalfd)\\s*\\(|\"/"
      "proc/");
  // These files belong to the local cluster, which requires Linux.
  const std::set<std::string> known_linux_only = {"cli/local/own_program.cpp",
                                                  "cli/local/node/processes.cpp"};
  for (const SourceFile& source : sources_below({"cli", "sweeps"})) {
    if (known_linux_only.count(source.path.string())) continue;
    for (const std::string& line : source.lines) {
      const bool portable = !std::regex_search(line, linux_only);
      CHECK_MESSAGE(portable, source.path.string(), ": ", line);
    }
  }
}

TEST_CASE("only listed files of cli/ and sweeps/ send signals or accept connections") {
  const struct {
    std::regex call;
    std::set<std::string> doors;
  } rules[] = {
      // The id of an ended process may belong to another process, and the id -1 means all processes.
      // process.cpp ends only its own children.
      {std::regex("\\b(kill|killpg|pidfd_send_signal)\\s*\\("),
       {"cli/local/node/processes.cpp", "cli/util/process.cpp"}},
      // The server limits the connections, the bytes and the time of unauthenticated clients.
      {std::regex("\\baccept\\s*\\(|SSL_accept|\\b(SSL)?Server\\s*\\{|httplib::(SSL)?Server"),
       {"cli/local/api/http_server.cpp", "cli/local/api/tls_connection.cpp"}},
  };
  for (const auto& rule : rules) {
    std::set<std::string> used;
    for (const SourceFile& source : sources_below({"cli", "sweeps"})) {
      for (const std::string& line : source.lines) {
        const std::string code = line.substr(0, line.find("//"));
        if (!std::regex_search(code, rule.call)) continue;
        used.insert(source.path.string());
        const bool is_door = rule.doors.count(source.path.string()) == 1;
        CHECK_MESSAGE(is_door, source.path.string(), ": ", line);
      }
    }
    for (const std::string& door : rule.doors)
      CHECK_MESSAGE(used.count(door) == 1, door, " needs no exception");
  }
}

TEST_CASE("cli/experiment and cli/render use no clock, randomness, environment, printing or files") {
  const std::regex impure(
      "\\b(system_clock|steady_clock|random_bytes|random_device|getenv|std::cout|std::cerr|printf|ifstream|"
      "ofstream|fopen|read_file)\\b");
  for (const SourceFile& source : sources_below({"cli/experiment", "cli/render"})) {
    for (const std::string& line : source.lines) {
      if (line.find_first_not_of(' ') != std::string::npos &&
          line.substr(line.find_first_not_of(' '), 2) == "//")
        continue;
      const bool pure = !std::regex_search(line, impure);
      CHECK_MESSAGE(pure, source.path.string(), ": ", line);
    }
  }
}

TEST_CASE("source files have at most 450 lines, and files of tests at most 600") {
  const auto check_lines = [](const std::vector<std::string>& roots, std::size_t most) {
    for (const SourceFile& source : sources_below(roots)) {
      const bool small = source.lines.size() <= most;
      CHECK_MESSAGE(small, source.path.string(), " has ", source.lines.size(), " lines");
    }
  };
  check_lines(mlk::test::roots_of_rooms(), 450);
  check_lines({"tests"}, 600);
}

TEST_CASE("a folder of cmake/rooms.txt has at most 3500 lines of source files") {
  std::map<std::string, std::size_t> lines;
  for (const SourceFile& source : sources_below(mlk::test::roots_of_rooms()))
    lines[room_of(source.path.string())] += source.lines.size();
  for (const auto& [room, count] : lines) {
    const bool small = count <= 3500;
    CHECK_MESSAGE(small, room, " has ", count, " lines");
  }
}
