// When a log begins a new file, which lines a reader gets, and when a follower stops.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <sys/stat.h>
#include <thread>

#include <doctest/doctest.h>

#include "cli/local/node/log_writer.h"
#include "cli/local/node/pod_log.h"
#include "cli/util/files.h"
#include "cli/util/text.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/node/log_rotation");

namespace mlk::local {
namespace {

namespace log_rotation {

using samples::Folder;
using samples::read_log;
using samples::write_text;

// The entries of a log file, without their stamps.
std::vector<std::string> entries(const std::filesystem::path& file) {
  std::vector<std::string> all;
  std::ifstream log(file);
  for (std::string line; std::getline(log, line);) all.push_back(line.substr(line.find(' ') + 1));
  return all;
}
using Lines = std::vector<std::string>;

std::string entry(int second, const std::string& text) {
  return "2026-11-21T12:00:" + std::string(second < 10 ? "0" : "") + std::to_string(second) +
         ".000000001Z stdout " + text + "\n";
}

TEST_CASE("a log is rotated at half of its limit, and the rotation drops the older file") {
  const Folder folder;
  const std::filesystem::path current = folder.path() / "log", older = folder.path() / "log.1";
  const auto in = [](const std::filesystem::path& file) {
    return std::filesystem::exists(file) ? read_file(file, 1000) : "none";
  };
  LogFile file(current, 21);
  CHECK(in(current).empty());
  file.append("1234567890123\n");  // longer than the limit, but an empty file is not rotated
  CHECK(in(current) == "1234567890123\n");
  CHECK(in(older) == "none");
  file.append("56789\n");
  CHECK(in(current) == "56789\n");
  CHECK(in(older) == "1234567890123\n");
  file.append("890\n");  // ten bytes are half of the limit
  CHECK(in(current) == "56789\n890\n");
  file.append("\n");
  CHECK(in(current) == "\n");
  CHECK(in(older) == "56789\n890\n");
}

TEST_CASE("a log that is opened again keeps its lines, and their size counts towards the limit") {
  const Folder folder;
  write_text(folder.path() / "log", "12345678\n");
  {
    LogFile file(folder.path() / "log", 20);
    file.append("\n");
  }
  CHECK(read_file(folder.path() / "log", 100) == "12345678\n\n");
  LogFile file(folder.path() / "log", 20);
  file.append("x\n");
  CHECK(read_file(folder.path() / "log", 100) == "x\n");
  CHECK(read_file(folder.path() / "log.1", 100) == "12345678\n\n");
}

TEST_CASE("a log says how many lines were lost while its file could not be created") {
  const Folder folder;
  LogFile file(folder.path() / "later/log", 1 << 20);
  file.append("a\nb\n");
  file.append("c\n");
  std::filesystem::create_directory(folder.path() / "later");
  file.append("2026-11-21T12:00:00.000000001Z stdout F d\n");
  file.append("2026-11-21T12:00:00.000000002Z stdout F e\n");
  CHECK(
      entries(folder.path() / "later/log") ==
      Lines{"stderr F mlk: 3 lines are missing here: they could not be written", "stdout F d", "stdout F e"});
}

TEST_CASE("the files of a log have mode 0600, and only one stays open after any number of rotations") {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const Folder folder;
  const auto before = descriptors();
  {
    LogFile file(folder.path() / "log", 20);
    const auto with_one = descriptors();
    CHECK(with_one == before + 1);
    for (int i = 0; i < 20; ++i) file.append("12345678\n");
    CHECK(descriptors() == with_one);
  }
  CHECK(descriptors() == before);
  for (const char* name : {"log", "log.1"}) {
    struct stat info{};
    REQUIRE(::stat((folder.path() / name).c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0600);
  }
}

TEST_CASE("each entry of the log has a time, a stream, and a mark if it ends a line") {
  const Folder folder;
  LogFile file(folder.path() / "log", 1 << 20);
  LogStream out(file, "stdout"), err(file, "stderr");
  const auto before = std::chrono::system_clock::now();
  out.feed("one\ntw");
  err.feed("problem\n");
  out.feed("o\n\nrest");
  err.finish();
  out.finish();
  out.finish();
  const auto after = std::chrono::system_clock::now();
  CHECK(entries(folder.path() / "log") ==
        Lines{"stdout F one", "stderr F problem", "stdout F two", "stdout F ", "stdout F rest"});
  std::ifstream log(folder.path() / "log");
  for (std::string line; std::getline(log, line);) {
    const auto read = parse_log_line(line);
    REQUIRE(read);
    CHECK(read->stamp.size() == std::string("2026-11-21T12:00:00.123456789Z").size());
    CHECK(read->time >= before - std::chrono::seconds(1));
    CHECK(read->time <= after + std::chrono::seconds(1));
  }
}

TEST_CASE("a long line is divided into entries of 16 KiB, and its last entry is marked as the end") {
  constexpr std::size_t part = 16 * 1024;
  const Folder folder;
  LogFile file(folder.path() / "log", 1 << 20);
  LogStream out(file, "stdout");
  const auto sizes = [&] {
    std::vector<std::string> all;
    for (const std::string& line : entries(folder.path() / "log"))
      all.push_back(line.substr(7, 1) + std::to_string(line.size() - 9));
    return all;
  };
  const std::string P = "P" + std::to_string(part), F = "F" + std::to_string(part);
  out.feed(std::string(part, 'x'));
  CHECK(sizes().empty());
  out.feed("x");
  CHECK(sizes() == Lines{P});
  out.feed(std::string(part, 'x'));
  CHECK(sizes() == Lines{P, P});
  out.feed("\n");
  CHECK(sizes() == Lines{P, P, "F1"});
  out.feed(std::string(2 * part, 'y') + "\nz");
  CHECK(sizes() == Lines{P, P, "F1", P, F});
  out.finish();
  CHECK(sizes() == Lines{P, P, "F1", P, F, "F1"});
  out.feed(std::string(3 * part + 5, 'a'));
  CHECK(sizes() == Lines{P, P, "F1", P, F, "F1", P, P, P});
  out.finish();
  CHECK(sizes() == Lines{P, P, "F1", P, F, "F1", P, P, P, "F5"});
}

TEST_CASE("a progress bar becomes a line of the log after 2 s, but other unfinished text does not") {
  const Folder folder;
  LogFile file(folder.path() / "log", 1 << 20);
  LogStream out(file, "stdout");
  const auto at = [](int time) { return LogStream::Clock::time_point{} + std::chrono::milliseconds(time); };
  const auto log = [&] { return entries(folder.path() / "log"); };
  out.feed("Password: ", at(0));
  CHECK_FALSE(out.due());
  out.feed("\n\r", at(0));
  CHECK_FALSE(out.due());
  out.feed(" 10%", at(100));
  CHECK(out.due() == at(2100));
  out.feed("\r 11%", at(1900));
  CHECK(out.due() == at(2100));
  CHECK_FALSE(out.pass_on(at(2099)));
  CHECK(log() == Lines{"stdout F Password: "});
  CHECK(out.pass_on(at(2100)));
  CHECK(log().back() == "stdout F \r 10%\r 11%");
  CHECK_FALSE(out.due());
  CHECK_FALSE(out.pass_on(at(9000)));
  out.feed("12%\r", at(9000));  // another kind of bar
  CHECK(out.pass_on(at(11000)));
  CHECK(log().back() == "stdout F 12%");
  out.feed("13%\r", at(12000));
  out.feed("done\n", at(12001));
  CHECK_FALSE(out.due());
  out.feed("\r14%", at(13000));
  out.finish();
  CHECK_FALSE(out.due());
  CHECK(log() == Lines{"stdout F Password: ", "stdout F \r 10%\r 11%", "stdout F 12%", "stdout F 13%\rdone",
                       "stdout F \r14%"});
}

TEST_CASE("parse_log_line() reads whole and partial lines, and refuses invalid ones") {
  const auto full = parse_log_line("2026-11-21T12:00:00Z stdout F a  b ");
  REQUIRE(full);
  CHECK(full->time == samples::noon);
  CHECK(full->stamp == "2026-11-21T12:00:00Z");
  CHECK(full->text == "a  b ");
  CHECK(full->full);
  const auto partly = parse_log_line("2026-11-21T12:00:00Z stderr P x");
  REQUIRE(partly);
  CHECK(partly->text == "x");
  CHECK_FALSE(partly->full);
  for (const char* empty : {"2026-11-21T12:00:00Z stdout F", "2026-11-21T12:00:00Z stdout F "}) {
    REQUIRE(parse_log_line(empty));
    CHECK(parse_log_line(empty)->text.empty());
    CHECK(parse_log_line(empty)->full);
  }
  for (const char* bad : {"2026-11-21T12:00:00Z stdout ", "2026-11-21T12:00:00Z stdout Fx y",
                          "2026-11-21T12:00:00Z stdout f y", " stdout F y", "2026-11-21T12:00:00Z  "})
    CHECK_FALSE(parse_log_line(bad));
}

TEST_CASE("tail() returns at most the given number of entries and of bytes, from both files") {
  const Folder folder;
  write_text(folder.path() / "p/log.1", entry(0, "F one") + "not an entry\n" + entry(1, "F two"));
  write_text(folder.path() / "p/log", entry(2, "P thr") + entry(3, "F ee") + entry(4, "F four"));
  const PodLogs logs(folder.path());
  CHECK(logs.tail("p", 100, 100) == "one\ntwo\nthree\nfour\n");
  CHECK(logs.tail("p", 5, 100) == "one\ntwo\nthree\nfour\n");
  CHECK(logs.tail("p", 4, 100) == "two\nthree\nfour\n");
  CHECK(logs.tail("p", 1, 100) == "four\n");
  CHECK(logs.tail("p", 0, 100).empty());
  CHECK(logs.tail("p", 100, 19) == "one\ntwo\nthree\nfour\n");
  CHECK(logs.tail("p", 100, 18) == "ne\ntwo\nthree\nfour\n");
  CHECK(logs.tail("p", 100, 1) == "\n");
  CHECK(logs.tail("none", 100, 100).empty());
}

TEST_CASE("tail_lines counts the lines of both log files, and a negative number means no lines") {
  const Folder folder;
  write_text(folder.path() / "p/log.1", entry(0, "F one") + entry(1, "F two"));
  write_text(folder.path() / "p/log", entry(2, "F three"));
  const auto tail = [&](long long lines) {
    LogOptions options;
    options.tail_lines = lines;
    return read_log(folder.path(), options);
  };
  CHECK(tail(-1).empty());
  CHECK(tail(2) == "two\nthree\n");
  CHECK(tail(3) == "one\ntwo\nthree\n");
  CHECK(tail(4) == "one\ntwo\nthree\n");
  std::filesystem::remove(folder.path() / "p/log");
  CHECK(read_log(folder.path(), {}) == "one\ntwo\n");  // as before the new file exists
}

TEST_CASE("if timestamps are wanted, each line begins with its time, even a line of several entries") {
  const Folder folder;
  write_text(folder.path() / "p/log",
             entry(0, "F zero") + entry(1, "P on") + entry(1, "P e") + entry(2, "F !") + entry(3, "F two"));
  LogOptions options;
  options.timestamps = true;
  options.since = *parse_time("2026-11-21T12:00:01.000000001Z");
  CHECK(read_log(folder.path(), options) ==
        "2026-11-21T12:00:01.000000001Z one!\n2026-11-21T12:00:03.000000001Z two\n");
}

TEST_CASE("an unfinished line of an older file is not joined to the next file's first line") {
  const Folder folder;
  write_text(folder.path() / "p/log.1", entry(0, "F one") + "2026-11-21T12:00:01.000000001Z stdout F unfin");
  write_text(folder.path() / "p/log", entry(2, "F two"));
  CHECK(read_log(folder.path(), {}) == "one\ntwo\n");
}

TEST_CASE("a reader that does not follow the log stops at the end of the log") {
  const Folder folder;
  std::string log;
  for (int i = 0; i < 5000; ++i) log += entry(i % 60, "F " + std::string(50, 'x'));
  write_text(folder.path() / "p/log", log);
  PodLogs logs(folder.path());
  std::vector<std::size_t> parts;
  int rounds = 0;
  logs.read(
      "p", {},
      [&](std::string_view part) {
        parts.push_back(part.size());
        return true;
      },
      [&] { return ++rounds < 10; }, [] { return false; });
  CHECK(rounds == 0);
  // Each part ends with the line that reaches 64 KiB. The last part has the remaining lines.
  CHECK(parts ==
        std::vector<std::size_t>{65'535 + 51, 65'535 + 51, 65'535 + 51, 255'000 - 3 * (65'535 + 51)});
}

TEST_CASE("read() ends when the reader returns false, or when the limit of bytes is reached") {
  const Folder folder;
  std::string log;
  for (int i = 0; i < 5000; ++i) log += entry(i % 60, "F " + std::string(50, 'x'));
  write_text(folder.path() / "p/log", log);
  PodLogs logs(folder.path());
  for (const bool follow : {false, true}) {
    for (const bool tail : {false, true}) {
      LogOptions options;
      options.follow = follow;
      if (tail) options.tail_lines = 4000;
      int parts = 0;
      logs.read(
          "p", options, [&](std::string_view) { return ++parts < 2; }, [] { return true; },
          [] { return false; });
      CHECK(parts == 2);
      options.limit_bytes = 100;
      std::string text;
      logs.read(
          "p", options,
          [&](std::string_view part) {
            text += part;
            return true;
          },
          [] { return true; }, [] { return false; });
      CHECK(text.size() == 100);
    }
  }
  int asked = 0;
  LogOptions follow;
  follow.follow = true;
  logs.read(
      "p", follow, [](std::string_view) { return true; },
      [&] {
        ++asked;
        return false;
      },
      [] { return false; });
  CHECK(asked == 1);
}

// A follower in its own thread. It stores the text that it got, and counts how often it checked whether the
// pod has ended.
class LogFollower {
 public:
  LogFollower(PodLogs& logs, const std::string& uid)
      : thread_([this, &logs, uid] {
          LogOptions options;
          options.follow = true;
          logs.read(
              uid, options,
              [&](std::string_view part) {
                const std::lock_guard lock(mutex_);
                text_ += part;
                return true;
              },
              [] { return true; },
              [&] {
                ++looks_;
                return ended_.load();
              });
        }) {}
  ~LogFollower() { thread_.join(); }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  bool gets(const std::string& wanted) {
    for (int i = 0; i < 6000 && text() != wanted; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return text() == wanted;
  }
  void end() { ended_ = true; }
  int looks() const { return looks_; }

 private:
  std::mutex mutex_;
  std::string text_;
  std::atomic<bool> ended_{false};
  std::atomic<int> looks_{0};
  std::thread thread_;
};

TEST_CASE(
    "a follower of a pod's log gets the lines of this pod only, even after another follower has ended") {
  const Folder folder;
  for (const char* uid : {"p", "q"})
    write_text(folder.path() / uid / "log", entry(0, std::string("F ") + uid));
  PodLogs logs(folder.path());
  LogFollower first(logs, "p");
  {
    LogFollower second(logs, "p"), other(logs, "q");
    CHECK(first.gets("p\n"));
    CHECK(second.gets("p\n"));
    CHECK(other.gets("q\n"));
    second.end();
    other.end();
    logs.announce("unknown");
    logs.announce_all();
  }
  std::ofstream(folder.path() / "p/log", std::ios::app) << entry(1, "F again");
  logs.announce("p");
  CHECK(first.gets("p\nagain\n"));
  first.end();
  logs.announce("p");
}

TEST_CASE("if a follower begins before its pod has a log, it gets all lines that are written later") {
  const Folder folder;
  std::filesystem::create_directories(folder.path() / "p");
  PodLogs logs(folder.path());
  {
    LogFollower follower(logs, "p");
    for (int i = 0; i < 6000 && follower.looks() == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(follower.text().empty());
    write_text(folder.path() / "p/log", entry(0, "F one"));
    logs.announce("p");
    CHECK(follower.gets("one\n"));
    follower.end();
    logs.announce_all();
  }
  // The reader also reads lines without an announcement if they were written before it saw the end.
  std::string text;
  LogOptions options;
  options.follow = true;
  logs.read(
      "p", options,
      [&](std::string_view part) {
        text += part;
        return true;
      },
      [] { return true; },
      [&] {
        if (text.empty()) std::ofstream(folder.path() / "p/log", std::ios::app) << entry(1, "F two");
        return true;
      });
  CHECK(text == "one\ntwo\n");
}

}  // namespace log_rotation

}  // namespace
}  // namespace mlk::local
