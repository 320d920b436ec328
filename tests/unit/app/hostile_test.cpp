// Runs read-only commands against a server with answers that no API server should send: fields that are
// missing, of a wrong type, nested, huge, or full of terminal control sequences. For every answer, a command
// ends with a documented exit code, and its output does not move the cursor.

#include <atomic>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "cli/run/facts/labels.h"
#include "cli/run/state/record.h"
#include "cli/session/session.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "cli/util/unicode.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/run/fixture.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("app/hostile");

namespace {

using nlohmann::json;
using Strings = std::vector<std::string>;

constexpr int cases = 500;
const std::string evil_color = "\x1b[5;31;7m";
const std::string evil = evil_color +
                         "EVIL\x1b]0;t\x07\u009b2J\u009d\u202e\u2066\u061c\u2028\r\x1b[K\x7f\x01" +
                         std::string(1, '\0') + "\n\t\b";

json nested(int depth) {
  json value = 1;
  for (int i = 0; i < depth; ++i) value = i % 2 == 0 ? json::array({value}) : json{{"a", value}};
  return value;
}

// The values that replace a field. nullopt: the field is missing.
std::vector<std::optional<json>> replacements() {
  return {std::nullopt,
          nullptr,
          true,
          -1,
          0,
          1.5,
          1e308,
          18446744073709551615u,
          std::numeric_limits<std::int64_t>::min(),
          "",
          "x",
          evil,
          evil,  // repeated, so that it comes as often as other text
          evil,
          std::string(300'000, 'y') + evil,
          "9999-12-31T23:59:59Z",
          "0000-00-00T00:00:00Z",
          "0-4000000000,7,-3,a,5-1",
          "-99999999999999999999",
          R"({"schema":1,"phase":"Failed","result":{"step":1e300},"ranks":{"a":[]}})",
          json::array(),
          json::object(),
          json::array({nullptr, 1, "x", json::array(), json{{"name", 3}, {"state", 7}, {"type", {}}}}),
          json(Strings(3000, evil)),
          json{{evil, evil}},
          nested(20),
          nested(150)};
}

// Every place in the object, also the places within JSON that is stored as text. The key of a place within
// such a text begins with "\n".
using Place = Strings;

void collect(const json& value, Place& here, std::vector<Place>& places) {
  if (value.is_object() || value.is_array()) {
    for (const auto& [key, child] : value.items()) {
      if (key == "managedFields") continue;
      here.push_back(key);
      places.push_back(here);
      collect(child, here, places);
      here.pop_back();
    }
  } else if (value.is_string()) {
    const json inner = mlk::json_or_null(value.get_ref<const std::string&>());
    if (!inner.is_object()) return;
    here.push_back("\n");
    collect(inner, here, places);
    here.pop_back();
  }
}

void replace(json& value, const Place& place, std::size_t at, const std::optional<json>& by) {
  if (place[at] == "\n") {
    json inner = mlk::json_or_null(value.get<std::string>());
    replace(inner, place, at + 1, by);
    value = inner.dump();
    return;
  }
  const bool last = at + 1 == place.size();
  if (value.is_array()) {
    const std::size_t index = std::stoul(place[at]);
    if (!last) return replace(value[index], place, at + 1, by);
    by ? void(value[index] = *by) : value.erase(index);
  } else {
    if (!last) return replace(value[place[at]], place, at + 1, by);
    by ? void(value[place[at]] = *by) : void(value.erase(place[at]));
  }
}

// The objects of one run, and a server that sends them.
struct World {
  std::map<std::string, json> lists;  // "configmaps", "jobs", "pods", "events"
  std::string run, log;
  std::optional<std::string> raw;  // the answer instead of every list
};

World world_of(const std::string& fixture) {
  const mlk::test::Fixture loaded = mlk::test::load(fixture);
  World world;
  world.run = loaded.objects.owner.at("metadata").at("name");
  json owner = loaded.objects.owner;
  owner.merge_patch(mlk::record_patch(loaded.observed()));
  world.lists = {{"configmaps", json::array({owner})},
                 {"jobs", loaded.objects.jobs},
                 {"pods", loaded.objects.pods},
                 {"events", loaded.objects.events}};
  world.log = "2026-11-21T07:40:25Z mlk step=3 loss=0.5 accuracy=nan x=1e999\n";
  return world;
}

class HostileServer {
 public:
  HostileServer() {
    server_.http->Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      if (request.path.ends_with("/log")) return response.set_content(world.log, "text/plain");
      if (world.raw) return answer(response, 200, *world.raw);
      if (request.path == "/version") {
        const json version = {{"major", "1"}, {"minor", "31"}, {"gitVersion", "v1.31.0" + evil}};
        return answer(response, 200, version.dump());
      }
      const Strings parts = mlk::split(request.path, '/');
      const std::string last = parts.back();
      if (const auto list = world.lists.find(last); list != world.lists.end()) {
        return answer(response, 200,
                      json{{"metadata", {{"resourceVersion", "1"}}}, {"items", list->second}}.dump());
      }
      const json& owners = world.lists.at("configmaps");
      if (last != world.run || !owners.is_array() || owners.empty()) {
        return answer(response, 404, status_body(404, "NotFound", "not found"));
      }
      answer(response, 200, owners.front().dump());
    });
    server_.http->Post(".*", [](const httplib::Request&, httplib::Response& response) {
      const json review = {
          {"status", {{"allowed", evil}, {"userInfo", {{"username", "me" + evil}, {"groups", 3}}}}}};
      answer(response, 201, review.dump());
    });
    const std::string url = server_.start().server;
    kubeconfig =
        folder_.write("config", "current-context: c\nclusters: [{name: k, cluster: {server: '" + url +
                                    "'}}]\nusers: [{name: u, user: {}}]\ncontexts: [{name: c, context: "
                                    "{cluster: k, user: u, namespace: default}}]\n");
  }

  World world;
  std::string kubeconfig;

 private:
  TemporaryFolder folder_;
  FakeServer server_;
};

struct Outcome {
  int code = 0;
  std::string out, err;
};

Outcome run(const HostileServer& server, Strings arguments, bool terminal) {
  std::ostringstream out, err;
  const std::atomic<int> interrupted{0};
  mlk::Session session{.out = out,
                       .err = err,
                       .out_is_terminal = terminal,
                       .err_is_terminal = terminal,
                       .version = "0",
                       .interrupted = interrupted,
                       .env = [](const std::string&) { return std::string(); },
                       .global = {}};
  session.global.cluster.kubeconfig = server.kubeconfig;  // for __complete, which has no flags
  if (arguments.front() != "__complete") {
    arguments.insert(arguments.end(), {"--kubeconfig", server.kubeconfig});
    if (terminal) arguments.insert(arguments.end(), {"--color", "always"});
  }
  const int code = mlk::run(arguments, session);
  return {code, out.str(), err.str()};
}

// The characters of a text that mlk may not print. Our own colours are allowed.
std::string unprintable(std::string_view text, bool colors) {
  std::string found;
  while (!text.empty()) {
    std::size_t size = colors ? mlk::color_sequence(text) : 0;
    if (size == 0) {
      const mlk::Character read = mlk::first_character(text);
      size = read.bytes;
      const bool blank = read.code == '\n' || read.code == '\t';
      if (!read.valid || (mlk::controls_terminal(read.code) && !blank)) found += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return found;
}

void check(const HostileServer& server, const Strings& command, bool terminal, const std::string& what) {
  const Outcome outcome = run(server, command, terminal);
  const std::string told = what + ": mlk " + mlk::join(command, " ") + ": " + outcome.err.substr(0, 300);
  const bool documented = outcome.code == 0 || outcome.code == 3 || outcome.code == 4;
  CHECK_MESSAGE(documented, told, " exit code ", outcome.code);
  const bool understood = outcome.err.find("internal error") == std::string::npos;
  CHECK_MESSAGE(understood, told);
  for (const std::string& text : {outcome.out, outcome.err}) {
    const std::string bad = unprintable(text, terminal);
    CHECK_MESSAGE(bad.empty(), told, " prints ",
                  json(bad).dump(-1, ' ', true, json::error_handler_t::replace));
    // Only logs may print colours of programs.
    const bool ours = command.front() == "logs" || text.find(evil_color) == std::string::npos;
    CHECK_MESSAGE(ours, told, " lets a colour through");
  }
  if (command.back() == "json" && outcome.code == 0)
    CHECK_NOTHROW_MESSAGE(mlk::parse_json(outcome.out, "x"), told);
}

std::vector<Strings> commands_for(const std::string& run) {
  return {{"ls"},
          {"status", run, "-o", "json"},
          {"logs", run},
          {"status", run},
          {"ls", "-o", "json"},
          {"__complete", "status", ""},
          {"ls", "-o", "name"}};
}

std::string text_of(const Place& place) {
  std::string text;
  for (const std::string& key : place) text += key == "\n" ? "/(text)" : "/" + key;
  return text;
}

}  // namespace

TEST_CASE("no wrong value in an answer of the API server crashes a command or controls the terminal") {
  HostileServer server;
  std::mt19937 random(16);
  const auto any = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  const Strings fixtures = {
      "running",    "failed_exit_code", "succeeded", "restarting", "stopped",
      "evicted",    "unschedulable",    "node_lost", "queued",     "image_cannot_be_pulled",
      "failed_oom", "missing_secret"};
  std::vector<World> worlds;
  for (const std::string& fixture : fixtures) worlds.push_back(world_of(fixture));
  const std::vector<std::optional<json>> values = replacements();
  for (int number = 0; number < cases; ++number) {
    World world = worlds[any(worlds.size())];
    json all = world.lists;
    std::string what;
    for (std::size_t changes = 1 + any(3); changes > 0; --changes) {
      std::vector<Place> places;
      Place here;
      collect(all, here, places);
      std::erase_if(places, [](const Place& place) { return place.size() < 2; });
      if (places.empty()) break;
      const Place& place = places[any(places.size())];
      const std::size_t value = any(values.size());
      replace(all, place, 0, values[value]);
      what += text_of(place) + " := #" + std::to_string(value) + " ";
    }
    world.lists = all.get<std::map<std::string, json>>();
    server.world = std::move(world);
    const std::vector<Strings> commands = commands_for(server.world.run);
    for (int i : {number, number + 3}) {
      check(server, commands[static_cast<std::size_t>(i) % commands.size()], number % 2 == 0, what);
    }
  }
}

TEST_CASE("control characters in the texts of an API server do not reach the terminal") {
  HostileServer server;
  for (const char* fixture : {"failed_exit_code", "running", "unschedulable", "evicted", "succeeded"}) {
    const World plain = world_of(fixture);
    json all = plain.lists;
    std::vector<Place> places;
    Place here;
    collect(all, here, places);
    // Changes all places at once, except the places by which mlk identifies a run, its ranks and its states.
    for (const Place& place : places) {
      const std::string path = text_of(place);
      json* at = &all;
      bool within_text = false;
      for (const std::string& key : place) {
        if (key == "\n") within_text = true;
        if (within_text) break;
        at = at->is_array() ? &(*at)[std::stoul(key)] : &(*at)[key];
      }
      const bool needed = path.find("/metadata/name") != std::string::npos ||
                          path.ends_with(mlk::labels::run) || path.ends_with("/phase") ||
                          path.ends_with("/type") || path.ends_with("/status") || path.ends_with("uid") ||
                          path.ends_with("Time") || path.ends_with("Timestamp") ||
                          path.find("job-name") != std::string::npos;
      if (!within_text && at->is_string() && !needed) *at = evil + at->get<std::string>() + evil;
    }
    server.world = plain;
    server.world.lists = all.get<std::map<std::string, json>>();
    server.world.log = "2026-11-21T07:40:25Z " + evil + "\xff\x9b\n" + evil +
                       "\n\n2026-11-21T07:40:26Z mlk step=4 " + evil + "=" + evil + " loss=1\n";
    for (const Strings& command : commands_for(plain.run)) {
      check(server, command, false, fixture);
      check(server, command, true, fixture);
    }
  }
}

TEST_CASE("control characters in the names of runs, Jobs and pods do not reach the terminal") {
  HostileServer server;
  const World plain = world_of("running");
  std::string all = json(plain.lists).dump(), quoted = json(plain.run + evil).dump();
  quoted = quoted.substr(1, quoted.size() - 2);
  for (std::size_t at = 0; (at = all.find(plain.run, at)) != std::string::npos; at += quoted.size())
    all.replace(at, plain.run.size(), quoted);
  server.world = plain;
  server.world.lists = json::parse(all).get<std::map<std::string, json>>();
  for (const Strings& command : {Strings{"ls"},
                                 {"ls", "-o", "name"},
                                 {"ls", "-o", "wide"},
                                 {"ls", "-o", "json"},
                                 {"__complete", "status", ""}}) {
    check(server, command, false, "names");
    check(server, command, true, "names");
    if (command.front() == "ls") CHECK(run(server, command, true).out.find(plain.run) != std::string::npos);
  }
}

TEST_CASE("a command fails with exit code 4 if an answer is cut, nested too deeply or not JSON") {
  HostileServer server;
  server.world = world_of("running");
  const std::string deep = std::string(120'000, '[') + std::string(120'000, ']');
  for (const std::string& raw :
       {deep, R"({"items": [{"metadata": )" + deep + "}]}", std::string("{\"items\": ["),
        std::string("\xff\x9b"), evil, std::string("null"), std::string("3"), std::string()}) {
    server.world.raw = raw;
    for (const Strings& command : {Strings{"ls"}, Strings{"status", "x"}, Strings{"logs", "x"}}) {
      const Outcome outcome = run(server, command, true);
      CHECK(outcome.code == 4);
      CHECK(unprintable(outcome.out + outcome.err, true).empty());
    }
    CHECK(run(server, {"__complete", "status", ""}, true).code == 0);
  }
}

TEST_CASE("the terminal gets no control characters from the API server's version, warnings or user name") {
  HostileServer server;
  server.world = world_of("running");
  for (const bool terminal : {false, true}) {
    check(server, {"context"}, terminal, "context");
    check(server, {"context", "-o", "json"}, terminal, "context");
  }
  std::ostringstream out, err;
  const std::atomic<int> interrupted{0};
  mlk::Session session{.out = out,
                       .err = err,
                       .version = "0",
                       .interrupted = interrupted,
                       .env = [](const std::string&) { return std::string(); },
                       .global = {}};
  session.warn(evil);
  session.note(evil);
  CHECK(unprintable(err.str(), false).empty());
}
