// Processes that save as fast as they can are killed at random moments. MLK_TEST_KILLS says how often, for
// longer runs than the daily ones: MLK_TEST_KILLS=5000 build/unit_runtime -tc='*killed*'.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/checkpoint/checkpoint_kill");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

int kills() {
  const char* text = std::getenv("MLK_TEST_KILLS");
  return text ? std::atoi(text) : 10;
}

// Whether to kill once more. On a busy machine the first kills may all be too early for a complete
// checkpoint.
bool another(int killed, std::uint64_t newest_step) {
  return killed < kills() || (newest_step == 1 && killed < 50 * kills());
}

// Large enough that many kills hit the write of the data, and small enough that as many kills hit the steps
// after that write.
const std::vector<TensorInfo> killed_tensors = {{"w", {300, 300}, 0, 90000}, {"b", {300}, 90000, 300}};
constexpr std::size_t killed_parameters = 90300;

struct Saving {
  TemporaryFolder folder;
  Log log{"test", -1};
  std::mt19937 random{std::random_device{}()};
  double save_us = 0;  // the time that a save takes here

  explicit Saving(int keep = 2) : keep_(keep) {
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(store().save(snapshot_of(state_at(1, killed_parameters)), killed_tensors));
    save_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }
  CheckpointStore store() const { return CheckpointStore(folder / "checkpoints", keep_, log); }
  template <class Body>
  pid_t start(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(60);
      body();
      _exit(1);
    }
    REQUIRE(child > 0);
    return child;
  }
  static void kill_and_wait(pid_t child) {
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, nullptr, 0) == child);
  }
  void wait_some_time() {
    usleep(static_cast<useconds_t>(std::uniform_real_distribution<double>(0, 4 * save_us)(random)));
  }

 private:
  int keep_;
};

bool tell(int peer, const void* what, std::size_t size) {
  return send(peer, what, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

bool hear(int peer, void* what, std::size_t size) {
  return recv(peer, what, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

struct Round {
  std::uint64_t step = 0;
  char aside[64] = {};
};

// Server 0 sends server 1 the name of the folder, writes its own file, waits for the file of server 1 and
// commits. Each server ends when its socket is closed.
void lead(const CheckpointStore& store, int peer, std::uint64_t step) {
  const auto chunks = cut_chunks(killed_tensors, 2);
  for (;; ++step) {
    Round round{step, {}};
    CheckpointStore::name_aside(step).copy(round.aside, sizeof round.aside - 1);
    if (!tell(peer, &round, sizeof round)) return;
    const auto own = store.write(round.aside, "server-0.safetensors",
                                 shard_of(state_at(step, killed_parameters), chunks, 0), killed_tensors);
    WrittenFile other{"server-1.safetensors", 0, 0};
    if (!hear(peer, &other.bytes, sizeof other.bytes)) return;
    if (!hear(peer, &other.crc32c, sizeof other.crc32c)) return;
    store.commit(round.aside, {step, step * 64, {own, other}});
  }
}

void follow(const CheckpointStore& store, int peer) {
  const auto chunks = cut_chunks(killed_tensors, 2);
  Round round;
  while (hear(peer, &round, sizeof round)) {
    const auto own =
        store.write(round.aside, "server-1.safetensors",
                    shard_of(state_at(round.step, killed_parameters), chunks, 1), killed_tensors);
    if (!tell(peer, &own.bytes, sizeof own.bytes) || !tell(peer, &own.crc32c, sizeof own.crc32c)) return;
  }
}

}  // namespace

TEST_CASE(
    "if a process is killed during a save, it leaves a usable checkpoint, and no incomplete one is visible") {
  Saving run;
  std::uint64_t before = 1;
  for (int i = 0; another(i, before); ++i) {
    const pid_t child = run.start([&] {
      const CheckpointStore store = run.store();
      for (std::uint64_t step = before + 1;; ++step)
        store.save(snapshot_of(state_at(step, killed_parameters)), killed_tensors);
    });
    run.wait_some_time();
    Saving::kill_and_wait(child);
    const std::uint64_t found = load_and_check(run.store(), killed_tensors);
    REQUIRE(found >= before);
    REQUIRE(run.store().newest_step() == found);  // an incomplete checkpoint is not visible
    before = found;
  }
  CHECK(before > 1);
}

TEST_CASE(
    "the newest checkpoint can be loaded while another process saves new checkpoints and removes old ones") {
  Saving run(1);
  const pid_t child = run.start([&] {
    for (std::uint64_t step = 2;; ++step)
      run.store().save(snapshot_of(state_at(step, killed_parameters)), killed_tensors);
  });
  std::uint64_t before = 1;
  for (int i = 0; i < 5 * kills(); ++i) {
    const std::uint64_t found = load_and_check(run.store(), killed_tensors);
    CHECK(found >= before);
    before = found;
  }
  Saving::kill_and_wait(child);
}

TEST_CASE("two servers leave a usable checkpoint if one or both are killed during a save") {
  Saving run;
  std::uint64_t before = 1;
  for (int i = 0; another(i, before); ++i) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const pid_t server_0 = run.start([&] {
      close(ends[1]);
      lead(run.store(), ends[0], before + 1);
    });
    const pid_t follower = run.start([&] {
      close(ends[0]);
      follow(run.store(), ends[1]);
    });
    close(ends[0]);
    close(ends[1]);
    run.wait_some_time();
    const bool server_0_first = i % 2 == 0;
    Saving::kill_and_wait(server_0_first ? server_0 : follower);
    if (i % 3 != 0) run.wait_some_time();
    Saving::kill_and_wait(server_0_first ? follower : server_0);
    const std::uint64_t found = load_and_check(run.store(), killed_tensors);
    REQUIRE(found >= before);
    REQUIRE(run.store().newest_step() == found);  // an incomplete checkpoint is not visible
    before = found;
  }
  CHECK(before > 1);
}

TEST_CASE("the only checkpoint stays usable if a process is killed while it saves the same step") {
  Saving run(1);
  for (int i = 0; i < kills(); ++i) {
    const pid_t child = run.start([&] {
      while (run.store().save(snapshot_of(state_at(1, killed_parameters)), killed_tensors)) {
      }
    });
    run.wait_some_time();
    Saving::kill_and_wait(child);
    REQUIRE(load_and_check(run.store(), killed_tensors) == 1);
  }
}
