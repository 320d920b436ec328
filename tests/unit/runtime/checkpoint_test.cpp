#include "runtime/checkpoint.h"

#include <csignal>
#include <cstring>
#include <sched.h>
#include <set>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/crc32c.h"
#include "runtime/exit_code.h"
#include "runtime/safetensors.h"
#include "tests/unit/runtime/temporary_folder.h"

using namespace mlk::rt;
using namespace mlk::test;
namespace fs = std::filesystem;

namespace {

const std::vector<TensorInfo> tensors = {{"layers.0.weight", {3, 2}, 0, 6}, {"layers.0.bias", {3}, 6, 3}};

TrainingState state_at(std::uint64_t step) {
  TrainingState state{step, step * 64, {}, {}};
  for (int i = 0; i < 9; ++i) {
    state.parameters.push_back(static_cast<float>(step) + static_cast<float>(i) / 16);
  }
  for (int i = 0; i < 18; ++i) state.optimizer_state.push_back(-static_cast<float>(i));  // two slots
  return state;
}

struct Bench {
  TemporaryFolder folder;
  fs::path checkpoints = folder.path() / "run" / "checkpoints";
  Log log{"test", -1};

  CheckpointStore store(int keep = 3) const { return CheckpointStore(checkpoints.string(), keep, log); }
  fs::path at(std::uint64_t step) const {
    char name[32];
    std::snprintf(name, sizeof name, "step-%012lu", static_cast<unsigned long>(step));
    return checkpoints / name;
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(checkpoints))
      found.insert(entry.path().filename().string());
    return found;
  }
  void save(std::uint64_t step, int keep = 3) const { REQUIRE(store(keep).save(state_at(step), tensors)); }
  // The step of what is loaded, after a look at all of it.
  std::uint64_t loaded() const {
    const auto state = store().load_newest(tensors);
    REQUIRE(state);
    CHECK(state->position == state->step * 64);
    CHECK(state->parameters == state_at(state->step).parameters);
    CHECK(state->optimizer_state == state_at(state->step).optimizer_state);
    return state->step;
  }
};

// Changes one byte of a file.
void flip(const fs::path& path, std::size_t at) {
  std::string text = read_file(path);
  text.at(at) ^= 0x10;
  write_file(path, text);
}

// Runs `body` in a child and gives its exit code, so that limits and mounts stay out of this process.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("without a checkpoint there is nothing to go on from") {
  Bench bench;
  CHECK_FALSE(bench.store().load_newest(tensors));
  fs::create_directories(bench.checkpoints);
  write_file(bench.checkpoints / "notes.txt", "not mine");
  fs::create_directories(bench.checkpoints / "step-x");
  fs::create_directories(bench.checkpoints / ".tmp-abc");
  CHECK_FALSE(bench.store().load_newest(tensors));
}

TEST_CASE("the newest checkpoint comes back as it was saved") {
  Bench bench;
  bench.save(5);
  CHECK(bench.loaded() == 5);
  bench.save(1000);
  bench.save(900'000'000'000);
  CHECK(bench.loaded() == 900'000'000'000);
}

TEST_CASE("a checkpoint may have no state of an optimizer") {
  Bench bench;
  TrainingState state = state_at(3);
  state.optimizer_state.clear();
  REQUIRE(bench.store().save(state, tensors));
  const auto loaded = bench.store().load_newest(tensors);
  REQUIRE(loaded);
  CHECK(loaded->parameters == state.parameters);
  CHECK(loaded->optimizer_state.empty());
}

TEST_CASE("a checkpoint is a safetensors file and a manifest that describes it") {
  Bench bench;
  bench.save(7);
  const std::string bytes = read_file(bench.at(7) / "state.safetensors");
  const SafeTensorsFile file = parse_safetensors(bytes);
  REQUIRE(file.tensors.size() == 6);
  CHECK(file.tensors[0].name == "layers.0.weight");
  CHECK(file.tensors[0].shape == std::vector<std::int64_t>{3, 2});
  CHECK(file.tensors[3].name == "optimizer.0.layers.0.bias");
  CHECK(file.tensors[4].name == "optimizer.1.layers.0.weight");
  CHECK(file.metadata == std::map<std::string, std::string>{{"step", "7"}, {"position", "448"}});
  float second = 0;
  std::memcpy(&second, bytes.data() + file.data_begin + 4, 4);
  CHECK(second == state_at(7).parameters[1]);
  CHECK(nlohmann::json::parse(read_file(bench.at(7) / "manifest.json")) ==
        nlohmann::json{{"schema", 1},
                       {"step", 7},
                       {"position", 448},
                       {"files",
                        {{{"name", "state.safetensors"},
                          {"bytes", bytes.size()},
                          {"crc32c", crc32c(bytes.data(), bytes.size())}}}}});
}

TEST_CASE("only the newest are kept, and what a killed process left goes") {
  Bench bench;
  fs::create_directories(bench.checkpoints / ".tmp-killed");
  write_file(bench.checkpoints / ".tmp-killed" / "state.safetensors", "half");
  for (std::uint64_t step = 1; step <= 5; ++step) bench.save(step, 2);
  CHECK(bench.names() == std::set<std::string>{"step-000000000004", "step-000000000005"});
}

TEST_CASE("a torn or damaged checkpoint is passed over for the one before") {
  const auto damage = [](const char* what, auto change) {
    Bench bench;
    bench.save(1);
    bench.save(2);
    CAPTURE(what);
    change(bench.at(2));
    CHECK(bench.loaded() == 1);
  };
  damage("no manifest", [](const fs::path& path) { fs::remove(path / "manifest.json"); });
  damage("no state", [](const fs::path& path) { fs::remove(path / "state.safetensors"); });
  damage("empty folder", [](const fs::path& path) {
    fs::remove(path / "manifest.json");
    fs::remove(path / "state.safetensors");
  });
  damage("another byte in the data", [](const fs::path& path) { flip(path / "state.safetensors", 400); });
  damage("another byte in the header", [](const fs::path& path) { flip(path / "state.safetensors", 12); });
  damage("a short manifest", [](const fs::path& path) { fs::resize_file(path / "manifest.json", 20); });
  damage("a manifest that is no object",
         [](const fs::path& path) { write_file(path / "manifest.json", "[]"); });
  damage("a manifest without files", [](const fs::path& path) {
    write_file(path / "manifest.json", R"({"schema":1,"step":2,"position":2,"files":[]})");
  });
  damage("a manifest of another version", [](const fs::path& path) {
    auto manifest = nlohmann::json::parse(read_file(path / "manifest.json"));
    manifest["schema"] = 2;
    write_file(path / "manifest.json", manifest.dump());
  });
  damage("a huge manifest",
         [](const fs::path& path) { fs::resize_file(path / "manifest.json", 1ull << 40); });
  damage("a huge state",
         [](const fs::path& path) { fs::resize_file(path / "state.safetensors", 1ull << 40); });
  damage("a folder in place of the state", [](const fs::path& path) {
    fs::remove(path / "state.safetensors");
    fs::create_directory(path / "state.safetensors");
  });
}

TEST_CASE("a state that is cut off anywhere is passed over") {
  Bench bench;
  bench.save(1);
  bench.save(2);
  const fs::path path = bench.at(2) / "state.safetensors";
  const std::string whole = read_file(path);
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 5) {
    write_file(path, whole.substr(0, size));
    CHECK(bench.loaded() == 1);
  }
  write_file(path, whole);
  CHECK(bench.loaded() == 2);
}

TEST_CASE("when none can be used, that is a failure that names the newest and its reason") {
  Bench bench;
  bench.save(1);
  bench.save(2);
  fs::remove(bench.at(1) / "manifest.json");
  flip(bench.at(2) / "state.safetensors", 400);
  try {
    bench.store().load_newest(tensors);
    FAIL("loaded");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::checkpoint_unusable);
    CHECK(std::string(failure.what()) == "no checkpoint can be used: " + bench.at(2).string() +
                                             ": state.safetensors does not match its checksum");
  }
}

TEST_CASE("a checkpoint of another model is not taken") {
  Bench bench;
  bench.save(1);
  std::vector<TensorInfo> renamed = tensors, reshaped = tensors, wider = tensors;
  renamed[0].name = "layers.9.weight";
  reshaped[0].shape = {2, 3};
  wider[1] = {"layers.0.bias", {4}, 6, 4};
  for (const auto& other : {renamed, reshaped, wider, std::vector<TensorInfo>{}}) {
    try {
      bench.store().load_newest(other);
      FAIL("loaded");
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::checkpoint_unusable);
    }
  }
}

TEST_CASE("a step that is trained again replaces its damaged checkpoint") {
  Bench bench;
  bench.save(1, 2);
  bench.save(2, 2);
  flip(bench.at(2) / "state.safetensors", 400);
  bench.save(2, 2);
  CHECK(bench.loaded() == 2);
}

TEST_CASE("damaged checkpoints ahead of the training do not push out the good ones behind it") {
  Bench bench;
  bench.save(10, 2);
  for (std::uint64_t step : {20u, 30u}) {
    bench.save(step, 9);
    fs::remove(bench.at(step) / "manifest.json");
  }
  bench.save(11, 2);
  CHECK(bench.loaded() == 11);
  CHECK(fs::exists(bench.at(10)));
}

TEST_CASE("a save that hits a full disk is a warning, leaves nothing behind, and the older one stays") {
  Bench bench;
  bench.save(1);
  const auto before = bench.names();
  // A limit on the size of files fails writes in the middle, as a full disk does, and needs no privilege.
  CHECK(in_child([&] {
          std::signal(SIGXFSZ, SIG_IGN);
          const rlimit limit{200, 200};
          if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
          return bench.store().save(state_at(2), tensors) ? 2 : 42;
        }) == 42);
  CHECK(bench.names() == before);
  CHECK(bench.loaded() == 1);
}

TEST_CASE("a disk that is really full is a warning") {
  constexpr int no_mount = 77;
  Bench bench;
  fs::create_directories(bench.checkpoints);
  const int result = in_child([&] {
    const std::string path = bench.checkpoints.string();
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", path.c_str(), "tmpfs", 0, "size=64k") != 0) {
      return no_mount;
    }
    const std::vector<TensorInfo> large = {{"w", {5000}, 0, 5000}};
    const auto save = [&](std::uint64_t step) {
      return bench.store().save({step, step, std::vector<float>(5000), {}}, large);
    };
    // 20 KiB each: the third or fourth does not fit, and the older ones can still be loaded.
    if (!save(1)) return 3;
    if (save(2) && save(3) && save(4)) return 4;
    for (const auto& entry : fs::directory_iterator(bench.checkpoints)) {
      if (entry.path().filename().string().starts_with(".tmp-")) return 5;
    }
    return bench.store().load_newest(large) ? 42 : 6;
  });
  if (result == no_mount) {
    MESSAGE("skipped: not root, so no small disk can be mounted");
    return;
  }
  CHECK(result == 42);
}

TEST_CASE("a folder that cannot be made is a warning") {
  Bench bench;
  fs::create_directories(bench.checkpoints.parent_path());
  write_file(bench.checkpoints, "a file is in the way");
  CHECK_FALSE(bench.store().save(state_at(1), tensors));
}

TEST_CASE("a process that is killed while it saves leaves a checkpoint that can be used") {
  Bench bench;
  bench.save(1, 2);
  for (int round = 0; round < 30; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      CheckpointStore store = bench.store(2);
      for (std::uint64_t step = 2;; ++step) store.save(state_at(step), tensors);
    }
    usleep(static_cast<useconds_t>(500 + 397 * round));
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    CHECK(bench.loaded() >= 1);
  }
}
