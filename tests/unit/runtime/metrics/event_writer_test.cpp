// Event files are written by another thread, which may be slow.
#include "runtime/metrics/event_writer.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/metrics/event_writer");

using namespace mlk::rt;

namespace {

// A disk that blocks every write until let_go().
struct StuckDisk {
  std::mutex mutex;
  std::condition_variable changed;
  bool stuck = true, reached = false;
  std::vector<std::uint64_t> written;

  // The thread that writes may outlive the writer, and then needs the disk.
  static EventWriter::Write write(std::shared_ptr<StuckDisk> disk) {
    return [disk = std::move(disk)](const EventWriter::Report& report) {
      std::unique_lock lock(disk->mutex);
      disk->reached = true;
      disk->changed.notify_all();
      disk->changed.wait(lock, [&disk] { return !disk->stuck; });
      disk->written.push_back(report.step);
    };
  }
  // Waits until the first write is blocked.
  void await_write() {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(60), [this] { return reached; }));
  }
  void let_go() {
    const std::lock_guard lock(mutex);
    stuck = false;
    changed.notify_all();
  }
};

}  // namespace

TEST_CASE("write() does not wait for the disk, and drops reports beyond the limit of the queue") {
  const auto disk = std::make_shared<StuckDisk>();
  {
    EventWriter writer(StuckDisk::write(disk), Log("test", -1));
    writer.write(0, {});
    disk->await_write();  // from now on the thread takes no report out of the queue
    for (std::uint64_t step = 1; step < EventWriter::most_waiting + 100; ++step) writer.write(step, {});
    CHECK(disk->written.empty());
    disk->let_go();
  }
  const std::lock_guard lock(disk->mutex);
  REQUIRE(disk->written.size() == EventWriter::most_waiting + 1);
  for (std::size_t i = 0; i < disk->written.size(); ++i) CHECK(disk->written[i] == i);
}

TEST_CASE("an event file has all reports of the run when its writer ends") {
  const mlk::test::TemporaryFolder folder;
  {
    const EventWriter unused(folder / "none", Log("test", -1));
  }
  CHECK_FALSE(std::filesystem::exists(folder / "none"));
  std::size_t expected = 0;
  {
    EventWriter writer(folder / "events", Log("test", -1));
    const std::vector<Scalar> scalars = {{"loss", 0.5}};
    for (std::uint64_t step = 1; step <= 20; ++step) {
      writer.write(step, scalars);
      expected += tfrecord(scalars_event(1, step, scalars)).size();
    }
    expected += tfrecord(version_event(1)).size() + tfrecord(restart_event(1, 1)).size();
  }
  const std::filesystem::directory_iterator files(folder / "events");
  REQUIRE(files != std::filesystem::directory_iterator());
  CHECK(files->file_size() == expected);
}
