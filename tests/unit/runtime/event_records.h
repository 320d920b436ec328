// Reads event files and logs in tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/base/log.h"
#include "runtime/metrics/event_file.h"
#include "tests/unit/runtime/temporary_folder.h"

namespace mlk::test {

// An event of a file: its time, and the other fields of its message.
struct EventRecord {
  double wall_time = 0;
  std::string rest;
};

inline std::string event_rest(const std::string& message) { return message.substr(1 + sizeof(double)); }

// The events of the one file in the folder.
inline std::vector<EventRecord> events_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator files(folder);
  REQUIRE(files != std::filesystem::directory_iterator());
  const std::string text = read_file(files->path());
  std::vector<EventRecord> events;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t size = 0;
    REQUIRE(at + sizeof size <= text.size());
    std::memcpy(&size, text.data() + at, sizeof size);
    REQUIRE(size < text.size());
    const std::string data = text.substr(at + 12, size), record = rt::tfrecord(data);
    CHECK(text.substr(at, record.size()) == record);
    at += record.size();
    EventRecord event;
    REQUIRE(data.size() > 9);
    std::memcpy(&event.wall_time, data.data() + 1, sizeof event.wall_time);
    event.rest = event_rest(data);
    events.push_back(event);
  }
  return events;
}

// A log whose lines the test can read.
class KeptLog {
 public:
  const rt::Log& log() const { return log_; }
  std::string text() const { return read_file(path_); }

 private:
  TemporaryFolder folder_;
  std::string path_ = folder_ / "log";
  struct File {
    explicit File(const std::string& path)
        : fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
    ~File() { close(fd); }
    const int fd;
  };
  const File file_{path_};
  const rt::Log log_{"test", file_.fd};
};

}  // namespace mlk::test
