// The map in ARCHITECTURE.md, held to the sources: includes point down only, and cli/ stays portable.

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/paths.h"

namespace fs = std::filesystem;

namespace {

struct Room {
  std::set<std::string> may_include;  // folders; always its own as well
  std::string what;
};

// The lines of cmake/rooms.txt by folder, each after those that it may include.
const std::map<std::string, Room>& rooms() {
  static const std::map<std::string, Room> all = [] {
    std::map<std::string, Room> read;
    std::ifstream in(fs::path(mlk::test::source_dir()) / "cmake/rooms.txt");
    const std::regex form("^([a-z][^ |]*) *\\|([^|]*)\\| *(.+)$");
    for (std::string line; std::getline(in, line);) {
      std::smatch parts;
      if (line.empty() || line[0] == '#') continue;
      REQUIRE_MESSAGE(std::regex_match(line, parts, form), line);
      Room room{{}, parts[3]};
      std::istringstream folders(parts[2]);
      for (std::string folder; folders >> folder;) {
        CHECK_MESSAGE(read.count(folder) == 1, parts[1].str(), " may not include ", folder,
                      ", which does not stand above it");
        room.may_include.insert(folder);
      }
      read[parts[1]] = std::move(room);
    }
    return read;
  }();
  return all;
}

struct Source {
  fs::path path;  // relative to the checkout
  std::string folder;
  std::vector<std::string> lines;
};

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  std::string folder = path.substr(0, slash == std::string::npos ? 0 : slash);
  while (!folder.empty() && rooms().count(folder) == 0) {
    const std::size_t up = folder.rfind('/');
    folder = up == std::string::npos ? "" : folder.substr(0, up);
  }
  return folder;
}

std::vector<Source> sources(const std::vector<std::string>& roots) {
  std::vector<Source> found;
  const fs::path top = mlk::test::source_dir();
  for (const std::string& root : roots) {
    if (!fs::exists(top / root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(top / root)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
      Source source{entry.path().lexically_relative(top), "", {}};
      source.folder = folder_of(source.path.string());
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) source.lines.push_back(line);
      found.push_back(std::move(source));
    }
  }
  return found;
}

}  // namespace

TEST_CASE("includes point down the map only") {
  const std::regex include("^\\s*#\\s*include\\s+\"([^\"]+)\"");
  const std::vector<Source> all = sources({"cli", "sweeps", "runtime", "kernels"});
  REQUIRE(all.size() > 20);
  for (const Source& source : all) {
    REQUIRE_MESSAGE(rooms().count(source.folder) == 1, source.path.string(), " lies outside the map");
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const std::string target = folder_of(match[1].str());
      CHECK_MESSAGE(!target.empty(), source.path.string(), ": ", line,
                    " is not written from the root of the checkout");
      const bool down = target == source.folder || rooms().at(source.folder).may_include.count(target) == 1;
      CHECK_MESSAGE(down, source.path.string(), ": ", line, " points up the map");
    }
  }
}

TEST_CASE("the map in ARCHITECTURE.md shows every room with what it is") {
  std::ifstream in(fs::path(mlk::test::source_dir()) / "ARCHITECTURE.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const auto& [folder, room] : rooms()) {
    const std::string name = folder.substr(folder.rfind('/') + 1);
    const std::regex line("\n *(\\S+/)?" + name + "/ +" +
                          std::regex_replace(room.what, std::regex("[+.()]"), "\\$&"));
    CHECK_MESSAGE(std::regex_search(page, line), folder, ": ", room.what);
  }
}

TEST_CASE("the cli is POSIX only, so that it can run on a Mac") {
  const std::regex linux_only(
      "sys/(epoll|inotify|signalfd|eventfd|timerfd)\\.h|\\b(accept4|pipe2|epoll_wait|signalfd)\\s*\\(|\"/"
      "proc/");
  // Of the cluster on this machine, which is for Linux.
  const std::set<std::string> known_linux_only = {"cli/local/own_program.cpp",
                                                  "cli/local/node/processes.cpp"};
  for (const Source& source : sources({"cli", "sweeps"})) {
    if (known_linux_only.count(source.path.string())) continue;
    for (const std::string& line : source.lines) {
      const bool portable = !std::regex_search(line, linux_only);
      CHECK_MESSAGE(portable, source.path.string(), ": ", line);
    }
  }
}

TEST_CASE(
    "processes are ended, and connections accepted, where it is made sure that they are the right ones") {
  const struct {
    std::regex call;
    std::set<std::string> doors;
  } rules[] = {
      // A number may be another process' by now, and -1 is everybody. process.cpp ends its own children.
      {std::regex("\\b(kill|killpg|pidfd_send_signal)\\s*\\("),
       {"cli/local/node/processes.cpp", "cli/util/process.cpp"}},
      // A stranger who connects is given so many connections, bytes and seconds.
      {std::regex("\\baccept\\s*\\(|SSL_accept|\\b(SSL)?Server\\s*\\{|httplib::(SSL)?Server"),
       {"cli/local/api/http_server.cpp", "cli/local/api/tls_connection.cpp"}},
  };
  for (const auto& rule : rules) {
    std::set<std::string> used;
    for (const Source& source : sources({"cli", "sweeps"})) {
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

TEST_CASE("experiment and render are pure: no clock, randomness, environment, printing or files") {
  const std::regex impure(
      "\\b(system_clock|steady_clock|random_bytes|random_device|getenv|std::cout|std::cerr|printf|ifstream|"
      "ofstream|fopen|read_file)\\b");
  for (const Source& source : sources({"cli/experiment", "cli/render"})) {
    for (const std::string& line : source.lines) {
      if (line.find_first_not_of(' ') != std::string::npos &&
          line.substr(line.find_first_not_of(' '), 2) == "//")
        continue;
      const bool pure = !std::regex_search(line, impure);
      CHECK_MESSAGE(pure, source.path.string(), ": ", line);
    }
  }
}

TEST_CASE("files stay small enough to be read: at most 600 lines") {
  for (const Source& source : sources({"cli", "sweeps", "runtime", "kernels", "tests"})) {
    const bool small = source.lines.size() <= 600;
    CHECK_MESSAGE(small, source.path.string(), " has ", source.lines.size(), " lines");
  }
}
