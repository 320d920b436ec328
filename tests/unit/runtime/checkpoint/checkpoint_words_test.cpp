// The messages about checkpoints, and what happens to other files in their folder.
#include <cerrno>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>

#include <doctest/doctest.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/exit_code.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/metrics/reporter.h"
#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/event_records.h"
#include "tests/unit/runtime/system_calls.h"

TEST_SUITE_BEGIN("runtime/checkpoint/checkpoint_words");

namespace mlk::rt {
namespace {
namespace checkpoint_words {

using namespace test;
namespace fs = std::filesystem;

const std::vector<TensorInfo> nine = {{"w", {3, 2}, 0, 6}, {"b", {3}, 6, 3}};

struct Kept {
  TemporaryFolder folder;
  KeptLog kept;
  fs::path path = folder.path() / "run" / "checkpoints";

  CheckpointStore store(int keep = 9) const { return CheckpointStore(path.string(), keep, kept.log()); }
  bool save(std::uint64_t step, int keep = 9) const {
    return store(keep).save(snapshot_of(state_at(step, 9)), nine);
  }
  fs::path at(std::uint64_t step) const { return folder_of_step(path, step); }
  fs::path state_at_step(std::uint64_t step) const { return at(step) / "state.safetensors"; }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(path)) found.insert(entry.path().filename().string());
    return found;
  }
  // Why the checkpoint of step 2, the only one, cannot be loaded.
  std::string refusal() const {
    try {
      store().load_newest(nine);
      return "";
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::checkpoint_unusable);
      const std::string what = failure.what(), prefix = "no checkpoint can be used: " + at(2).string() + ": ";
      REQUIRE(what.starts_with(prefix));
      return what.substr(prefix.size());
    }
  }
  // A file that the manifest describes, with this metadata.
  void put_state(const std::map<std::string, std::string>& metadata, std::uint64_t manifest_step = 2,
                 std::uint64_t manifest_position = 128) const {
    const Snapshot snapshot = snapshot_of(state_at(2, 9));
    std::string text = safetensors_header(name_pieces(snapshot.pieces, nine), metadata);
    text.append(reinterpret_cast<const char*>(snapshot.values.data()),
                snapshot.values.size() * sizeof(float));
    write_file(state_at_step(2), text);
    const WrittenFile file{"state.safetensors", text.size(), crc32c(text.data(), text.size())};
    write_file(at(2) / "manifest.json", encode({manifest_step, manifest_position, {file}}));
  }
};

template <class Body>
std::string thrown_by(Body body) {
  try {
    body();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace checkpoint_words

TEST_CASE("name_aside() and name_mark() give unique names that begin with .tmp- and .mark-") {
  const std::string aside = CheckpointStore::name_aside(42), mark = CheckpointStore::name_mark();
  CHECK(std::regex_match(aside, std::regex("\\.tmp-000000000042-[0-9a-f]{16}")));
  CHECK(std::regex_match(mark, std::regex("\\.mark-[0-9a-f]{16}")));
  CHECK(CheckpointStore::name_aside(1'234'567'890'123).starts_with(".tmp-1234567890123-"));
  CHECK(CheckpointStore::name_aside(42) != aside);
  CHECK(CheckpointStore::name_mark() != mark);
}

TEST_CASE("newest_step() reads only the names of folders, and newest_is_whole() also checks the files") {
  using namespace checkpoint_words;
  const Kept run;
  CHECK(run.store().newest_step() == 0);
  CHECK_FALSE(run.store().newest_is_whole());
  REQUIRE(run.save(3));
  REQUIRE(run.save(10));
  CHECK(run.store().newest_step() == 10);
  CHECK(run.store().newest_is_whole());
  fs::copy(run.at(3), run.at(11), fs::copy_options::recursive);
  CHECK(run.store().newest_step() == 11);
  CHECK_FALSE(run.store().newest_is_whole());  // its content is of step 3
  fs::remove_all(run.at(11));
  fs::create_directory(run.path / "step-20x");
  fs::create_directory(run.path / "step-20-x");
  fs::create_directory(run.path / "step-");
  fs::create_directory(run.path / "astep-30");
  CHECK(run.store().newest_step() == 10);
  fs::create_directory(run.path / "step-12");
  CHECK(run.store().newest_step() == 12);
  CHECK_FALSE(run.store().newest_is_whole());
  fs::remove_all(run.path / "step-12");
  const std::string good = read_file(run.state_at_step(10));
  for (const std::string& text : {good + "x", good.substr(0, good.size() - 1), std::string()}) {
    write_file(run.state_at_step(10), text);
    CHECK_FALSE(run.store().newest_is_whole());
  }
  write_file(run.state_at_step(10), good);
  CHECK(run.store().newest_is_whole());
}

TEST_CASE("files of a run are made with the permissions 0644, reduced by the umask") {
  using namespace checkpoint_words;
  const Kept run;
  REQUIRE(run.save(1));
  REQUIRE(run.store().leave_mark(".mark-1"));
  EventFile(run.folder / "events", run.kept.log()).write(1, {}, 1);
  std::ostringstream metrics;
  Reporter(metrics, run.folder / "result", 0).finish(true, "");
  const mode_t mask = umask(0);
  umask(mask);
  for (const fs::path& path :
       {run.state_at_step(1), run.at(1) / "manifest.json",
        fs::directory_iterator(run.folder / "events")->path(), fs::path(run.folder / "result")}) {
    CAPTURE(path);
    CHECK(static_cast<mode_t>(fs::status(path).permissions()) == (0644 & ~mask));
  }
}

TEST_CASE("a save removes temporary folders of killed processes, except folders of later steps") {
  using namespace checkpoint_words;
  const Kept run;
  for (const char* name : {".tmp-000000000004-a", ".tmp-000000000005-b", ".tmp-000000000006-c", ".tmp-7",
                           ".tmp-5", ".tmp-9x", ".tmp-killed", ".mark-1", "notes"})
    fs::create_directories(run.path / name);
  write_file(run.path / ".tmp-000000000004-a" / "half", "x");
  REQUIRE(run.save(5));
  CHECK(run.names() ==
        std::set<std::string>{".tmp-000000000006-c", ".tmp-7", ".mark-1", "notes", "step-000000000005"});
  CHECK(run.kept.text() == "");
}

TEST_CASE("a save keeps the configured number of checkpoints up to its own step, and all later ones") {
  using namespace checkpoint_words;
  const Kept run;
  for (const std::uint64_t step : {1, 2, 3, 8}) REQUIRE(run.save(step));
  REQUIRE(run.save(4, 3));
  CHECK(run.names() == std::set<std::string>{"step-000000000002", "step-000000000003", "step-000000000004",
                                             "step-000000000008"});
  REQUIRE(run.save(9, 1));
  CHECK(run.names() == std::set<std::string>{"step-000000000009"});
}

TEST_CASE("a save succeeds even if a folder of the same step has more leading zeros in its name") {
  using namespace checkpoint_words;
  const Kept run;
  REQUIRE(run.save(7));
  const fs::path older = run.path / "step-0000000000007";
  fs::create_directories(older / "full");
  CHECK(in_child([&] {
          if (!refuse_rename_flags()) return 2;
          return run.save(7) ? 0 : 1;
        }) == 0);
  CHECK(run.names() == std::set<std::string>{"step-000000000007"});
  CHECK(load_and_check(run.store(), nine) == 7);
  CHECK(run.kept.text() == "");
}

TEST_CASE("a checkpoint is complete even if the system writes it in short pieces and with interruptions") {
  using namespace checkpoint_words;
  const Kept run;
  CHECK(in_child([&] {
          if (!come_in_pieces(SYS_write)) return 2;
          return run.save(7) ? 0 : 1;
        }) == 0);
  CHECK(load_and_check(run.store(), nine) == 7);
  CHECK(run.store().newest_is_whole());
}

TEST_CASE("write() writes a large file completely, and returns the right size and checksum") {
  using namespace checkpoint_words;
  const Kept run;
  const std::vector<TensorInfo> large = {{"w", {1000, 700}, 0, 700'000}};  // 2.8 MB, and a state of 2.8 MB
  const TrainingState state = state_at(5, 700'000, 1);
  const std::string aside = CheckpointStore::name_aside(5);
  const std::ptrdiff_t before = open_descriptors();
  const WrittenFile file = run.store().write(aside, "a.safetensors", snapshot_of(state), large);
  CHECK(open_descriptors() == before);
  const std::string text = read_file(run.path / aside / "a.safetensors");
  CHECK(file.name == "a.safetensors");
  CHECK(file.bytes == text.size());
  CHECK(file.crc32c == crc32c(text.data(), text.size()));
  CHECK(thrown_by([&] {
          run.store().write(aside, "a.safetensors", snapshot_of(state), large);
        }).find("File exists") != std::string::npos);
  run.store().commit(aside, {5, state.position, {file}});
  CHECK(load_and_check(run.store(), large, 1) == 5);
  verify_checkpoint(run.at(5), 5);
  std::string damaged = text;
  damaged[2'000'000] ^= 1;  // in its second part
  write_file(run.at(5) / "a.safetensors", damaged);
  CHECK_FALSE(run.store().newest_is_whole());
}

TEST_CASE("the errors of write() and commit() name the folder or the file") {
  using namespace checkpoint_words;
  const Kept run;
  const Snapshot snapshot = snapshot_of(state_at(3, 9));
  CHECK(thrown_by([&] { run.store().write("x", "f", snapshot, nine); }) == "not a folder aside: x");
  CHECK(thrown_by([&] { run.store().write(".tmp-1/x", "f", snapshot, nine); }) ==
        "not a folder aside: .tmp-1/x");
  const WrittenFile file = run.store().write(".tmp-3", "f", snapshot, nine);
  WrittenFile longer = file;
  ++longer.bytes;
  const fs::path folder = run.path / ".tmp-3";
  CHECK(thrown_by([&] { run.store().commit(".tmp-3", {3, 192, {longer}}); }) ==
        (folder / "f").string() + " is not as it was written");
  CHECK(thrown_by([&] { run.store().commit(".tmp-3", {3, 192, {file, {"g", 1, 1}}}); }) ==
        (folder / "g").string() + " is not as it was written");
  run.store().discard(".tmp-3");
  CHECK(run.names().empty());
}

TEST_CASE("a failed save logs a warning with its step and its reason") {
  using namespace checkpoint_words;
  const Kept run;
  fs::create_directories(run.path.parent_path());
  write_file(run.path, "a file is in the way");
  CHECK_FALSE(run.save(12));
  const std::string text = run.kept.text();
  CHECK(text.starts_with("test: warning: no checkpoint of step 12: "));
  CHECK(text.find("Not a directory") != std::string::npos);
  CHECK(text.find('\n') == text.size() - 1);
  run.store().warn(13, "so it is");
  CHECK(run.kept.text() == text + "test: warning: no checkpoint of step 13: so it is\n");
  CHECK(thrown_by([&] { run.store().load_newest(nine); }) == run.path.string() + ": Not a directory");
}

TEST_CASE("the log names each skipped checkpoint with its reason, the newest first") {
  using namespace checkpoint_words;
  const Kept run;
  for (const std::uint64_t step : {1, 2, 3}) REQUIRE(run.save(step));
  fs::copy(run.at(1), run.at(9), fs::copy_options::recursive);
  fs::remove(run.at(3) / "manifest.json");
  CHECK(load_and_check(run.store(), nine) == 2);
  CHECK(run.kept.text() == "test: warning: checkpoint passed over: " + run.at(9).string() +
                               ": it is of step 1\ntest: warning: checkpoint passed over: " +
                               run.at(3).string() + ": manifest.json: No such file or directory\n");
}

TEST_CASE("if a checkpoint is damaged, the error names the file and the fault") {
  using namespace checkpoint_words;
  const Kept run;
  REQUIRE(run.save(2));
  const std::string good = read_file(run.state_at_step(2));
  const auto with_state = [&](const std::string& text) {
    write_file(run.state_at_step(2), text);
    return run.refusal();
  };
  CHECK(with_state(good + "x") ==
        "state.safetensors has " + std::to_string(good.size() + 1) + " bytes, not those of the manifest");
  std::string damaged = good;
  damaged.back() ^= 1;
  CHECK(with_state(damaged) == "state.safetensors does not match its checksum");
  fs::remove(run.state_at_step(2));
  CHECK(run.refusal() == "state.safetensors: No such file or directory");
  CHECK(with_state(good) == "");
  std::string manifest = read_file(run.at(2) / "manifest.json");
  manifest.resize(1 << 20, ' ');
  write_file(run.at(2) / "manifest.json", manifest);
  CHECK(run.refusal() == "");
  write_file(run.at(2) / "manifest.json", manifest + " ");
  CHECK(run.refusal() == "manifest.json is too large");
  write_file(run.at(2) / "manifest.json", "");
  CHECK(run.refusal() != "");
}

TEST_CASE("a checkpoint is refused if the step or position in a file differs from that of the manifest") {
  using namespace checkpoint_words;
  const Kept run;
  REQUIRE(run.save(2));
  const std::map<std::string, std::string> good = {{"step", "2"}, {"position", "128"}, {"slots", "2"}};
  run.put_state(good);
  CHECK(run.refusal() == "");
  const auto changed = [&](const char* key, const std::optional<std::string>& value) {
    auto metadata = good;
    metadata.erase(key);
    if (value) metadata[key] = *value;
    run.put_state(metadata);
    return run.refusal();
  };
  const std::string of_another = "state.safetensors is of another moment than the manifest";
  for (const char* key : {"step", "position"}) {
    CHECK(changed(key, {}) == of_another);
    CHECK(changed(key, "1") == of_another);
    CHECK(changed(key, "2x") == of_another);
  }
  run.put_state(good, 2, 129);
  CHECK(run.refusal() == of_another);
  run.put_state(good, 3, 128);
  CHECK(run.refusal() == of_another);
  for (const char* key : {"restarts", "lost_samples"}) {
    for (const char* value : {"", "x", "1x", "-1", "99999999999999999999"})
      CHECK(changed(key, value) == std::string("safetensors: ") + key + " is not a whole number");
  }
  CHECK(changed("restarts", "3") == "");
  CHECK(run.store().load_newest(nine)->history == RunHistory{3, 0});
  CHECK(changed("lost_samples", "64") == "");
  CHECK(run.store().load_newest(nine)->history == RunHistory{0, 64});
}

TEST_CASE("each count in the history of a loaded checkpoint is the largest of those in its files") {
  using namespace checkpoint_words;
  const std::vector<TensorInfo> one = {{"w", {4}, 0, 4}};
  const Kept run;
  const TrainingState state = state_at(6, 4, 0);
  Manifest manifest{6, state.position, {}};
  const std::string aside = CheckpointStore::name_aside(6);
  const RunHistory histories[] = {{1, 0}, {4, 32}, {2, 64}, {0, 0}};
  for (std::size_t i = 0; i < 4; ++i) {
    Snapshot snapshot;
    snapshot.restart(6, state.position, 1);
    snapshot.history = histories[i];
    snapshot.add(0, i, std::span(state.parameters).subspan(i, 1));
    manifest.files.push_back(run.store().write(aside, std::to_string(i), snapshot, one));
  }
  run.store().commit(aside, manifest);
  const auto loaded = run.store().load_newest(one);
  REQUIRE(loaded);
  CHECK(loaded->history == RunHistory{4, 64});
  CHECK(loaded->parameters == state.parameters);
  CHECK(loaded->step == 6);
  CHECK(loaded->position == state.position);
  CHECK(loaded->state_since == 6);  // there is no state of the optimizer: it begins here
  REQUIRE(run.save(7));
  CHECK(run.store().load_newest(nine)->state_since == 0);
}

TEST_CASE(
    "if the last checkpoint of a trained process cannot be written, the failure is final and says why") {
  const std::string sentence = "trained, but the last checkpoint could not be written";
  CHECK(unsaved("No space left on device").code == ExitCode::checkpoint_unusable);
  CHECK(unsaved("No space left on device").what() == sentence + ": No space left on device");
  CHECK(unsaved("").what() == sentence);
}

TEST_CASE(
    "reason_of() returns the system's message without the name of the file, and other messages unchanged") {
  CHECK(reason_of(std::system_error(ENOSPC, std::generic_category(), "/a/file")) ==
        "No space left on device");
  CHECK(reason_of(std::runtime_error("state.safetensors does not match its checksum")) ==
        "state.safetensors does not match its checksum");
}

TEST_CASE("leave_mark() makes the folder, and remove_mark() removes only files with the name of a mark") {
  using namespace checkpoint_words;
  const Kept run;
  const std::ptrdiff_t before = open_descriptors();
  CHECK(run.store().leave_mark(".mark-1"));
  CHECK(open_descriptors() == before);
  CHECK(run.names() == std::set<std::string>{".mark-1"});
  write_file(run.path / "mark-2", "");
  CHECK_FALSE(run.store().remove_mark("mark-2"));
  CHECK_FALSE(run.store().remove_mark(".mark-2"));
  CHECK(run.store().remove_mark(".mark-1"));
  CHECK(run.names() == std::set<std::string>{"mark-2"});
}

}  // namespace
}  // namespace mlk::rt
