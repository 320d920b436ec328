#include "tests/unit/runtime/event_records.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "runtime/metrics/event_writer.h"
#include "runtime/metrics/reporter.h"
#include "tests/unit/runtime/system_calls.h"

TEST_SUITE_BEGIN("runtime/metrics/event_records");

namespace mlk::rt {
namespace {
namespace event_records {

using namespace test;
namespace fs = std::filesystem;

std::string varint_of_step(std::uint64_t step) {
  // The varint follows the wall time and the tag of the step.
  const std::string event = scalars_event(0, step, {});
  CHECK(event.substr(9, 1) == "\x10");
  CHECK(event.ends_with(std::string("\x2a\0", 2)));
  return event.substr(10, event.size() - 12);
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::string host() {
  char name[256] = "";
  REQUIRE(gethostname(name, sizeof name - 1) == 0);
  return name;
}

}  // namespace event_records

TEST_CASE("an integer in an event is a varint: seven bits in each byte, the lowest bits first") {
  using event_records::varint_of_step;
  CHECK(varint_of_step(0) == std::string(1, '\0'));
  CHECK(varint_of_step(1) == "\x01");
  CHECK(varint_of_step(127) == "\x7f");
  CHECK(varint_of_step(128) == "\x80\x01");
  CHECK(varint_of_step(16'383) == "\xff\x7f");
  CHECK(varint_of_step(16'384) == "\x80\x80\x01");
  CHECK(varint_of_step(std::numeric_limits<std::uint64_t>::max()) ==
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST_CASE("scalars_event() contains the scalars with their names, in the given order") {
  const std::vector<Scalar> scalars = {{"loss", 0.5}, {"b", -2}};
  const std::string event = scalars_event(1, 3, scalars);
  CHECK(test::event_rest(event) == std::string("\x10\x03\x2a\x17"
                                               "\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f"
                                               "\x0a\x08\x0a\x01"
                                               "b\x15\0\0\0\xc0",
                                               27));
}

TEST_CASE("an event file begins with its version and the step from which it replaces older files") {
  using namespace event_records;
  const TemporaryFolder folder;
  const KeptLog kept;
  const auto before = static_cast<std::uint64_t>(wall_seconds());
  const std::string start = "events.out.tfevents.", end = "." + host() + "." + std::to_string(getpid()) + ".";
  {
    EventFile file(folder / "a", kept.log());
    file.write(7, std::vector<Scalar>{{"loss", 0.5}}, 1.5e9);
    file.write(8, std::vector<Scalar>{{"loss", 0.25}, {"x", 1}}, 1.5e9 + 1);
  }
  const auto after = static_cast<std::uint64_t>(wall_seconds());
  const std::string name = *names_in(folder / "a").begin();
  CHECK(name.starts_with(start));
  CHECK(name.ends_with(end + "0"));
  const std::uint64_t second = std::stoull(name.substr(start.size()));
  CHECK(second >= before);
  CHECK(second <= after);
  const auto events = events_in(folder / "a");
  REQUIRE(events.size() == 4);
  CHECK(events[0].wall_time == 1.5e9);
  CHECK(events[0].rest == event_rest(version_event(0)));
  CHECK(events[1].wall_time == 1.5e9);
  CHECK(events[1].rest == event_rest(restart_event(0, 7)));
  CHECK(events[2].wall_time == 1.5e9);
  CHECK(events[2].rest == event_rest(scalars_event(0, 7, std::vector<Scalar>{{"loss", 0.5}})));
  CHECK(events[3].wall_time == 1.5e9 + 1);
  CHECK(events[3].rest == event_rest(scalars_event(0, 8, std::vector<Scalar>{{"loss", 0.25}, {"x", 1}})));
  CHECK(kept.text() == "");
}

TEST_CASE(
    "if a process makes several event files in one second, their names have different numbers, and none is "
    "overwritten") {
  using namespace event_records;
  const TemporaryFolder folder;
  const KeptLog kept;
  const std::string middle = "." + host() + "." + std::to_string(getpid()) + ".";
  // The three files are usually made within one second. Their names are checked only if that second
  // has not ended.
  std::uint64_t first_second = 0;
  for (int i = 0; i < 3; ++i) {
    EventFile file(folder.path().string(), kept.log());
    const auto before = static_cast<std::uint64_t>(wall_seconds());
    file.write(1, {}, 1);
    if (i == 0) first_second = before;
  }
  CHECK(names_in(folder.path()).size() == 3);
  if (static_cast<std::uint64_t>(wall_seconds()) == first_second) {
    for (const char* count : {"0", "1", "2"})
      CHECK(names_in(folder.path())
                .contains("events.out.tfevents." + std::to_string(first_second) + middle + count));
  }
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    CHECK(entry.file_size() == tfrecord(version_event(1)).size() + tfrecord(restart_event(1, 1)).size() +
                                   tfrecord(scalars_event(1, 1, {})).size());
  }
}

TEST_CASE("an event file is closed when its EventFile is destroyed") {
  using namespace event_records;
  const TemporaryFolder folder;
  const KeptLog kept;
  const std::ptrdiff_t before = open_descriptors();
  {
    EventFile file(folder / "a", kept.log());
    file.write(1, {}, 1);
    CHECK(open_descriptors() == before + 1);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("the log says once why event files cannot be written, and names their folder") {
  using namespace event_records;
  const TemporaryFolder folder;
  write_file(folder / "taken", "");
  const auto said = [](const std::string& path) {
    const KeptLog kept;
    EventFile file(path, kept.log());
    for (std::uint64_t step = 1; step < 4; ++step) file.write(step, {}, 1);
    return kept.text();
  };
  for (const std::string& path : {folder / "taken", folder / "taken/below"}) {
    // The words in between come from the library.
    const std::string text = said(path);
    CHECK(text.starts_with("test: event files in " + path + ": cannot make the folder: "));
    CHECK(text.ends_with("; goes on without them\n"));
    CHECK(text.find('\n') == text.size() - 1);
  }
  CHECK(said("/proc") ==
        "test: event files in /proc: cannot make a file: No such file or directory; goes on without them\n");
}

TEST_CASE("an event file ends when the disk is full, and the log says this once") {
  using namespace event_records;
  const TemporaryFolder folder;
  const KeptLog kept;
  const std::vector<Scalar> scalars = {{"loss", 0.5}};
  const std::size_t begin = tfrecord(version_event(1)).size() + tfrecord(restart_event(1, 1)).size();
  const std::size_t report = tfrecord(scalars_event(1, 1, scalars)).size();
  // Limits: one report and a part of the next, exactly one report, and a part of the file's beginning.
  const std::pair<rlim_t, const char*> limits[] = {{begin + report + 5, "the disk is full"},
                                                   {begin + report, "File too large"},
                                                   {begin - 3, "the disk is full"}};
  std::string expected;
  for (const auto& [limit, why] : limits) {
    const std::string path = folder / std::to_string(limit);
    CHECK(in_child([&] {
            std::signal(SIGXFSZ, SIG_IGN);
            const rlimit bounds{limit, limit};
            EventFile file(path, kept.log());
            if (setrlimit(RLIMIT_FSIZE, &bounds) != 0) return 1;
            for (std::uint64_t step = 1; step < 5; ++step) file.write(step, scalars, 1);
            return 0;
          }) == 0);
    CHECK(names_in(path).size() == 1);
    CHECK(fs::directory_iterator(path)->file_size() == limit);
    expected += "test: event files in " + path + ": cannot write: " + why + "; goes on without them\n";
  }
  // The log is a file as well, and loses the lines beyond the limits.
  const std::string text = kept.text();
  CHECK(expected.starts_with(text.substr(0, text.find('\n') + 1)));
}

TEST_CASE("a report reaches the writing thread with its step, its scalars and the time of the report") {
  using namespace event_records;
  const KeptLog kept;
  std::vector<EventWriter::Report> reports;
  const double before = wall_seconds();
  {
    EventWriter writer([&reports](const EventWriter::Report& report) { reports.push_back(report); },
                       kept.log());
    writer.write(7, std::vector<Scalar>{{"loss", 0.5}, {"x", 3}});
    writer.write(9, {});
  }
  const double after = wall_seconds();
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].step == 7);
  REQUIRE(reports[0].scalars.size() == 2);
  CHECK(reports[0].scalars[0].name == "loss");
  CHECK(reports[0].scalars[0].value == 0.5);
  CHECK(reports[0].scalars[1].name == "x");
  CHECK(reports[0].scalars[1].value == 3);
  CHECK(reports[1].step == 9);
  CHECK(reports[1].scalars.empty());
  CHECK(before <= reports[0].wall_time);
  CHECK(reports[0].wall_time <= reports[1].wall_time);
  CHECK(reports[1].wall_time <= after);
  CHECK(kept.text() == "");
}

TEST_CASE(
    "the writing thread waits for further reports, and an EventWriter ends at once if it has no reports") {
  using namespace event_records;
  const KeptLog kept;
  {
    const EventWriter unused([](const EventWriter::Report&) {}, kept.log());
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t newest = 0;
  {
    EventWriter writer(
        [&](const EventWriter::Report& report) {
          const std::lock_guard lock(mutex);
          newest = report.step;
          changed.notify_all();
        },
        kept.log());
    for (std::uint64_t step = 1; step <= 3; ++step) {
      writer.write(step, {});
      std::unique_lock lock(mutex);
      CHECK(changed.wait_for(lock, std::chrono::seconds(30), [&] { return newest == step; }));
    }
  }
  CHECK(kept.text() == "");
}

TEST_CASE("reports that do not fit into the queue are dropped, and only the first of these is logged") {
  using namespace event_records;
  const KeptLog kept;
  CHECK(EventWriter::most_waiting == 256);
  std::mutex mutex;
  std::condition_variable changed;
  bool stuck = true, begun = false;
  std::vector<std::uint64_t> written;
  {
    EventWriter writer(
        [&](const EventWriter::Report& report) {
          std::unique_lock lock(mutex);
          begun = true;
          changed.notify_all();
          changed.wait(lock, [&] { return !stuck; });
          written.push_back(report.step);
        },
        kept.log());
    const auto let_go = [&] {
      const std::lock_guard lock(mutex);
      stuck = false;
      changed.notify_all();
    };
    writer.write(0, {});
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return begun; });
    }
    // The first report is being written now and is no longer in the queue.
    for (std::uint64_t step = 1; step <= 256; ++step) writer.write(step, {});
    CHECK(kept.text() == "");
    for (std::uint64_t step = 257; step <= 259; ++step) writer.write(step, {});
    let_go();
  }
  CHECK(kept.text() == "test: event files: the disk is too slow, reports are left out\n");
  REQUIRE(written.size() == 257);
  for (std::size_t i = 0; i < written.size(); ++i) CHECK(written[i] == i);
}

TEST_CASE("an event file contains the numbers of each report, and each accuracy once") {
  using namespace event_records;
  const TemporaryFolder folder;
  const KeptLog kept;
  std::ostringstream metrics;
  double now = 100;
  {
    Reporter reporter(metrics, "", 0, [&now] { return now; });
    reporter.write_events(folder / "events", kept.log());
    reporter.started(0, 0);
    Telemetry& telemetry = reporter.telemetry();
    telemetry.run({4, 2, 1, 64, 3});
    telemetry.staleness({5, 3, 2});
    telemetry.step(1, 16, {0.25, 0.5, 1});
    now += 2;
    reporter.evaluation(0.75);
    reporter.report(1, 6, 80, 0.5);
    reporter.report(2, 7, 80, std::numeric_limits<double>::quiet_NaN());
  }
  const auto events = events_in(folder / "events");
  REQUIRE(events.size() == 4);
  const std::vector<Scalar> first = {{"epoch", 6},          {"loss", 0.5},       {"accuracy", 0.75},
                                     {"samples_per_s", 40}, {"compute_ms", 250}, {"data_ms", 500},
                                     {"comm_ms", 1000},     {"world", 4},        {"generation", 2},
                                     {"restarts", 1},       {"staleness", 2.5},  {"staleness_max", 3},
                                     {"lost_samples", 64}};
  const std::vector<Scalar> second = {
      {"epoch", 7},          {"loss", std::numeric_limits<double>::quiet_NaN()},
      {"samples_per_s", 40}, {"world", 4},
      {"generation", 2},     {"restarts", 1},
      {"lost_samples", 64}};
  CHECK(events[1].rest == event_rest(restart_event(0, 1)));
  CHECK(events[2].rest == event_rest(scalars_event(0, 1, first)));
  CHECK(events[3].rest == event_rest(scalars_event(0, 2, second)));
}

}  // namespace
}  // namespace mlk::rt
