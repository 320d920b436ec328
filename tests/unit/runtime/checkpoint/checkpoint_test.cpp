#include "runtime/checkpoint/checkpoint.h"

#include <csignal>
#include <cstring>
#include <sched.h>
#include <set>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/base/crc32c.h"
#include "runtime/base/exit_code.h"
#include "runtime/checkpoint/safetensors.h"
#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/saved_checkpoints.h"
#include "tests/unit/runtime/system_calls.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/checkpoint/checkpoint");

using namespace mlk::rt;
using namespace mlk::test;
namespace fs = std::filesystem;

namespace {

template <class Body>
void killed_at_second_rename(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    body();
    _exit(0);
  }
  int status = 0, renames = 0;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    ptrace(PTRACE_SETOPTIONS, child, nullptr,
           PTRACE_O_TRACESYSGOOD);  // without this, calls look like signals
    __ptrace_syscall_info call{};
    ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call);
    bool plain = call.entry.nr == SYS_renameat2 && call.entry.args[4] == 0;
#ifdef SYS_rename
    plain = plain || call.entry.nr == SYS_rename;
#endif
    if (call.op == PTRACE_SYSCALL_INFO_ENTRY && plain && ++renames == 2) kill(child, SIGKILL);
    ptrace(PTRACE_SYSCALL, child, nullptr, WSTOPSIG(status) == SIGALRM ? SIGALRM : 0);
  }
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGKILL);
}

}  // namespace

TEST_CASE("load_newest returns nothing if the folder has no checkpoint") {
  Checkpoints run;
  CHECK_FALSE(run.store().load_newest(two_tensors));
  fs::create_directories(run.checkpoints);
  write_file(run.checkpoints / "notes.txt", "not mine");
  fs::create_directories(run.checkpoints / "step-x");
  fs::create_directories(run.checkpoints / ".tmp-abc");
  CHECK_FALSE(run.store().load_newest(two_tensors));
}

TEST_CASE("the newest checkpoint is loaded as it was saved") {
  Checkpoints run;
  run.save(5);
  CHECK(run.loaded() == 5);
  run.save(1000);
  run.save(900'000'000'000);
  CHECK(run.loaded() == 900'000'000'000);
}

TEST_CASE("a checkpoint without an optimizer's state is saved and loaded") {
  Checkpoints run;
  const TrainingState state = state_at(3, 9, 0);
  REQUIRE(run.store().save(snapshot_of(state), two_tensors));
  const auto loaded = run.store().load_newest(two_tensors);
  REQUIRE(loaded);
  CHECK(loaded->parameters == state.parameters);
  CHECK(loaded->optimizer_state.empty());
}

TEST_CASE("a checkpoint keeps the counts of restarts and lost samples, which are 0 if none were given") {
  Checkpoints run;
  run.save(3);
  CHECK(run.store().load_newest(two_tensors)->history == RunHistory{});
  Snapshot snapshot = snapshot_of(state_at(4, 9));
  snapshot.history = {2, 640};
  REQUIRE(run.store().save(snapshot, two_tensors));
  CHECK(run.store().load_newest(two_tensors)->history == RunHistory{2, 640});
}

TEST_CASE("a checkpoint is a safetensors file and a manifest that describes it") {
  Checkpoints run;
  run.save(7);
  const std::string bytes = read_file(run.at(7) / "state.safetensors");
  const SafeTensorsFile file = parse_safetensors(bytes, bytes.size());
  REQUIRE(file.tensors.size() == 6);
  CHECK(file.tensors[0].name == "layers.0.weight");
  CHECK(file.tensors[0].shape == std::vector<std::int64_t>{3, 2});
  CHECK(file.tensors[3].name == "optimizer.0.layers.0.bias");
  CHECK(file.tensors[4].name == "optimizer.1.layers.0.weight");
  CHECK(file.metadata ==
        std::map<std::string, std::string>{{"step", "7"}, {"position", "448"}, {"slots", "2"}});
  float second = 0;
  std::memcpy(&second, bytes.data() + file.data_begin + 4, 4);
  CHECK(second == state_at(7, 9).parameters[1]);
  CHECK(nlohmann::json::parse(read_file(run.at(7) / "manifest.json")) ==
        nlohmann::json{{"schema", 1},
                       {"step", 7},
                       {"position", 448},
                       {"files",
                        {{{"name", "state.safetensors"},
                          {"bytes", bytes.size()},
                          {"crc32c", crc32c(bytes.data(), bytes.size())}}}}});
}

TEST_CASE("a checkpoint of several servers has one file for each server, and loads as one state") {
  const std::vector<TensorInfo> shared = {{"w", {3, 50000}, 0, 150000}, {"b", {3}, 150000, 3}};
  for (std::uint32_t servers : {1u, 2u, 3u, 5u}) {
    CAPTURE(servers);
    Checkpoints run;
    const CheckpointStore store = run.store();
    const auto chunks = cut_chunks(shared, servers);
    const TrainingState state = state_at(12, 150003);
    const std::string aside = CheckpointStore::name_aside(12);
    Manifest manifest{12, 12 * 64, {}};
    for (std::uint32_t server = 0; server < servers; ++server) {
      const std::string name = "server-" + std::to_string(server) + ".safetensors";
      manifest.files.push_back(store.write(aside, name, shard_of(state, chunks, server), shared));
    }
    CHECK_FALSE(store.load_newest(shared));  // not visible before it is complete
    store.commit(aside, manifest);
    CHECK(run.names() == std::set<std::string>{"step-000000000012"});
    CHECK(load_and_check(store, shared) == 12);

    // Without one of the files, or with a file twice, the folder is not a checkpoint.
    manifest.files.erase(manifest.files.begin());
    write_file(run.at(12) / "manifest.json", encode(manifest));
    CHECK_THROWS_AS(store.load_newest(shared), Failure);
    if (servers == 1) continue;
    manifest.files.push_back(manifest.files.front());
    write_file(run.at(12) / "manifest.json", encode(manifest));
    CHECK_THROWS_AS(store.load_newest(shared), Failure);
  }
}

TEST_CASE("a checkpoint is not committed while one of its files is missing or too short") {
  Checkpoints run;
  const CheckpointStore store = run.store();
  const std::string aside = CheckpointStore::name_aside(3);
  WrittenFile file = store.write(aside, "server-0.safetensors", snapshot_of(state_at(3, 9)), two_tensors);
  CHECK_THROWS(store.commit(aside, {3, 192, {file, {"server-1.safetensors", 100, 1}}}));
  ++file.bytes;
  CHECK_THROWS(store.commit(aside, {3, 192, {file}}));
  CHECK_FALSE(store.load_newest(two_tensors));
}

TEST_CASE("write() refuses a name that leads out of the folder, and discard() and remove_mark() ignore it") {
  Checkpoints run;
  fs::create_directories(run.checkpoints.parent_path() / "x");
  for (const char* name : {"", "x", "..", "../x", ".tmp-1/../..", ".tmp-1/../../x", "/tmp/x"}) {
    CAPTURE(name);
    run.store().discard(name);
    CHECK_THROWS(run.store().write(name, "f", snapshot_of(state_at(1, 9)), two_tensors));
    CHECK_FALSE(run.store().remove_mark(name));
  }
  CHECK_FALSE(fs::exists(run.checkpoints));
  CHECK(fs::exists(run.checkpoints.parent_path() / "x"));
}

TEST_CASE("discard() removes a temporary folder, but neither a saved checkpoint nor any other folder") {
  Checkpoints run;
  const fs::path beside = run.checkpoints.parent_path() / "x";
  REQUIRE(run.store().save(snapshot_of(state_at(1, 9)), two_tensors));
  const std::string saved = fs::directory_iterator(run.checkpoints)->path().filename();
  const std::string aside = CheckpointStore::name_aside(2);
  for (const fs::path& folder : {beside, run.checkpoints / aside, run.checkpoints / ".tmp-1"})
    fs::create_directories(folder);
  for (const std::string& name :
       {std::string("../x"), std::string(".tmp-1/../../x"), beside.string(), saved}) {
    CAPTURE(name);
    run.store().discard(name);
    CHECK_FALSE(run.store().remove_mark(name));
    CHECK(fs::exists(beside));
    CHECK(run.store().newest_step() == 1);
  }
  run.store().discard(aside);
  CHECK_FALSE(fs::exists(run.checkpoints / aside));
}

TEST_CASE(
    "a save replaces the checkpoint of the same step, even if the file system cannot exchange two names") {
  Checkpoints run;
  run.save(7);
  const auto before = fs::last_write_time(run.at(7) / "manifest.json");
  CHECK(in_child([&] {
          if (!refuse_rename_flags()) return 2;
          return run.store().save(snapshot_of(state_at(7, 9)), two_tensors) ? 0 : 1;
        }) == 0);
  CHECK(fs::last_write_time(run.at(7) / "manifest.json") > before);
  CHECK(run.names() == std::set<std::string>{run.at(7).filename()});
  CHECK(run.loaded() == 7);
}

TEST_CASE(
    "a checkpoint stays usable if a process is killed while it replaces this checkpoint by another of the "
    "same step") {
  Checkpoints run;
  run.save(6);
  run.save(7);
  killed_at_second_rename([&] {
    if (refuse_rename_flags()) run.store().save(snapshot_of(state_at(7, 9)), two_tensors);
  });
  CHECK_FALSE(fs::exists(run.at(7)));
  CHECK(run.loaded() == 7);
  run.save(7);
  CHECK(run.names() == std::set<std::string>{run.at(6).filename(), run.at(7).filename()});
  CHECK(run.loaded() == 7);
}

TEST_CASE("remove_mark() finds a mark in the folder where it was left, and in no other folder") {
  Checkpoints run, other;
  const std::string mark = CheckpointStore::name_mark();
  CHECK(run.store().leave_mark(mark));
  CHECK(run.store().leave_mark(mark));  // by a server that joins again
  CHECK_FALSE(other.store().remove_mark(mark));
  CHECK(run.store().remove_mark(mark));
  CHECK_FALSE(run.store().remove_mark(mark));
  CHECK(run.names().empty());
  write_file(other.checkpoints.parent_path(), "a file is in the way");
  CHECK_FALSE(other.store().leave_mark(mark));
}

TEST_CASE("a save keeps only the newest checkpoints, and removes leftovers of a killed process") {
  Checkpoints run;
  fs::create_directories(run.checkpoints / ".tmp-killed");
  write_file(run.checkpoints / ".tmp-killed" / "state.safetensors", "half");
  for (std::uint64_t step = 1; step <= 5; ++step) run.save(step, 2);
  CHECK(run.names() == std::set<std::string>{"step-000000000004", "step-000000000005"});
}

TEST_CASE("a save on a full disk returns false, leaves nothing behind, and keeps the older checkpoint") {
  Checkpoints run;
  run.save(1);
  const auto before = run.names();
  // A limit on the size of files fails writes in the middle, as a full disk does, and needs no privilege.
  CHECK(in_child([&] {
          std::signal(SIGXFSZ, SIG_IGN);
          const rlimit limit{200, 200};
          if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
          return run.store().save(snapshot_of(state_at(2, 9)), two_tensors) ? 2 : 42;
        }) == 42);
  CHECK(run.names() == before);
  CHECK(run.loaded() == 1);
}

TEST_CASE("a save on a disk that is really full returns false, and the older checkpoints stay usable") {
  constexpr int no_mount = 77;
  Checkpoints run;
  fs::create_directories(run.checkpoints);
  const int result = in_child([&] {
    const std::string path = run.checkpoints.string();
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", path.c_str(), "tmpfs", 0, "size=64k") != 0) {
      return no_mount;
    }
    const std::vector<TensorInfo> large = {{"w", {5000}, 0, 5000}};
    const auto save = [&](std::uint64_t step) {
      return run.store().save(snapshot_of(state_at(step, 5000, 0)), large);
    };
    // 20 KiB each: the third or fourth does not fit, and the older ones can still be loaded.
    if (!save(1)) return 3;
    if (save(2) && save(3) && save(4)) return 4;
    for (const auto& entry : fs::directory_iterator(run.checkpoints)) {
      if (entry.path().filename().string().starts_with(".tmp-")) return 5;
    }
    return run.store().load_newest(large) ? 42 : 6;
  });
  if (result == no_mount) {
    MESSAGE("skipped: not root, so no small disk can be mounted");
    return;
  }
  CHECK(result == 42);
}

TEST_CASE("a save into a read-only folder returns false, and the checkpoints in the folder stay usable") {
  constexpr int no_mount = 77;
  Checkpoints run;
  fs::create_directories(run.checkpoints);
  const int result = in_child([&] {
    const char* path = run.checkpoints.c_str();
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", path, "tmpfs", 0, "size=1m") != 0) {
      return no_mount;
    }
    if (!run.store().save(snapshot_of(state_at(1, 9)), two_tensors)) return 3;
    if (mount("tmpfs", path, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m") != 0) return no_mount;
    if (run.store().save(snapshot_of(state_at(2, 9)), two_tensors)) return 4;
    const auto loaded = run.store().load_newest(two_tensors);
    return loaded && loaded->step == 1 ? 42 : 5;
  });
  if (result == no_mount) {
    MESSAGE("skipped: not root, so nothing can be mounted");
    return;
  }
  CHECK(result == 42);
}

TEST_CASE("a save returns false if its folder cannot be made") {
  Checkpoints run;
  fs::create_directories(run.checkpoints.parent_path());
  write_file(run.checkpoints, "a file is in the way");
  CHECK_FALSE(run.store().save(snapshot_of(state_at(1, 9)), two_tensors));
}
