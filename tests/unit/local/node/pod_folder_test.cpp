// The records that the server and a pod's supervisor exchange, in both directions, and invalid records.
#include "cli/local/node/pod_folder.h"

#include <doctest/doctest.h>

#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/pod_folder");

namespace mlk::local {
namespace {

using samples::json;

struct Records {
  samples::Folder folder;
  PodFolder pod{folder.path() / "uid-1"};
  Records() { std::filesystem::create_directories(pod.path()); }
  void put(const std::string& file, const std::string& text) const {
    samples::write_text(pod.path() / file, text);
  }
};

TEST_CASE("PodFolder reads back each record with the values that were written") {
  const Records records;
  const PodFolder& pod = records.pod;
  CHECK(pod.uid() == "uid-1");
  CHECK(pod.mark() == "MLK_LOCAL_POD=uid-1");
  pod.write(Start{"lab/p", 7, {"work", "hard"}, {{"A", "1"}, {"B", ""}}, "/work"});
  const auto start = pod.start();
  REQUIRE(start);
  CHECK(start->pod == "lab/p");
  CHECK(start->grace_seconds == 7);
  CHECK(start->argv == std::vector<std::string>{"work", "hard"});
  CHECK(start->env == std::vector<std::pair<std::string, std::string>>{{"A", "1"}, {"B", ""}});
  CHECK(start->working_folder == "/work");
  pod.write(Stop{9, shutdown_reason});
  REQUIRE(pod.stop());
  CHECK(pod.stop()->grace_seconds == 9);
  CHECK(pod.stop()->reason == "shutdown");
  const ProcessId self = ProcessId::of_this_process();
  pod.write(Started{"2026-11-21T12:00:00Z", 42, self});
  REQUIRE(pod.started());
  CHECK(pod.started()->at == "2026-11-21T12:00:00Z");
  CHECK(pod.started()->group == 42);
  CHECK(pod.started()->supervisor == self);
  pod.write(Exit{137, 9, "2026-11-21T12:00:05Z", "2026-11-21T12:00:00Z", "Lost", "gone"});
  const auto exit = pod.exit();
  REQUIRE(exit);
  CHECK(exit->code == 137);
  CHECK(exit->signal == 9);
  CHECK(exit->at == "2026-11-21T12:00:05Z");
  CHECK(exit->started_at == "2026-11-21T12:00:00Z");
  CHECK(exit->reason == "Lost");
  CHECK(exit->message == "gone");
}

TEST_CASE("a missing, cut or malformed record is read as nullopt") {
  const Records records;
  const PodFolder& pod = records.pod;
  CHECK_FALSE(pod.start());
  CHECK_FALSE(pod.stop());
  CHECK_FALSE(pod.started());
  CHECK_FALSE(pod.exit());
  for (const char* text : {"", "{", "[]", "3", R"({"at": 3})", R"({"at": "x", "reason": null})"}) {
    for (const char* file : {"process.json", "stop.json", "started.json", "exit.json"})
      records.put(file, text);
    CHECK_FALSE(pod.start());
    CHECK_FALSE(pod.stop());
    CHECK_FALSE(pod.exit());
  }
}

TEST_CASE("if the record of a pod's end has an invalid exit code, the code counts as 255") {
  const Records records;
  for (const char* code : {R"("0")", "-1", "null", "99999999999"}) {
    records.put(
        "exit.json",
        std::string(
            R"({"at": "a", "started_at": "b", "reason": "", "message": "", "signal": 1.5, "code": )") +
            code + "}");
    REQUIRE(records.pod.exit());
    CHECK(records.pod.exit()->code == 255);
    CHECK(records.pod.exit()->signal == 0);
  }
}

TEST_CASE("ask_to_stop() writes the request, even if no supervisor runs") {
  const Records records;
  CHECK_FALSE(records.pod.ask_to_stop({5, ""}));
  REQUIRE(records.pod.stop());
  CHECK(records.pod.stop()->grace_seconds == 5);
}

}  // namespace
}  // namespace mlk::local
