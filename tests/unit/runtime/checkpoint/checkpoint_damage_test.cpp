// Which checkpoint is loaded if some are torn, damaged or of another model.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/base/crc32c.h"
#include "runtime/base/exit_code.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "tests/unit/runtime/saved_checkpoints.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/checkpoint/checkpoint_damage");

using namespace mlk::rt;
using namespace mlk::test;
namespace fs = std::filesystem;

namespace {

// Changes the byte at this distance from the end of a file.
void flip_from_end(const fs::path& path, std::size_t at) {
  std::string text = read_file(path);
  text.at(text.size() - at) ^= 0x10;
  write_file(path, text);
}

}  // namespace

TEST_CASE("an incomplete or damaged checkpoint is skipped, and the previous checkpoint is loaded") {
  const auto damage = [](const char* what, auto change) {
    Checkpoints run;
    run.save(1);
    run.save(2);
    CAPTURE(what);
    change(run.at(2));
    CHECK(run.loaded() == 1);
  };
  damage("no manifest", [](const fs::path& path) { fs::remove(path / "manifest.json"); });
  damage("no state", [](const fs::path& path) { fs::remove(path / "state.safetensors"); });
  damage("empty folder", [](const fs::path& path) {
    fs::remove(path / "manifest.json");
    fs::remove(path / "state.safetensors");
  });
  damage("another byte in the data",
         [](const fs::path& path) { flip_from_end(path / "state.safetensors", 4); });
  damage("another byte in the header",
         [](const fs::path& path) { flip_from_end(path / "state.safetensors", 27 * 4 + 20); });
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
  damage("a manifest that is nested without end", [](const fs::path& path) {
    std::string deep = std::string(400'000, '[') + "1" + std::string(400'000, ']');
    write_file(path / "manifest.json", R"({"schema":)" + deep + "}");
  });
  damage("a state whose header is nested without end", [](const fs::path& path) {
    std::string header = R"({"__metadata__":)" + std::string(400'000, '[') + std::string(400'000, ']') + "}";
    const std::uint64_t length = header.size();
    const std::string file = std::string(reinterpret_cast<const char*>(&length), sizeof length) + header;
    write_file(path / "state.safetensors", file);
    const Manifest manifest{2, 128, {{"state.safetensors", file.size(), crc32c(file.data(), file.size())}}};
    write_file(path / "manifest.json", encode(manifest));
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

TEST_CASE("a checkpoint is skipped if its state file is cut off at any length") {
  Checkpoints run;
  run.save(1);
  run.save(2);
  const fs::path path = run.at(2) / "state.safetensors";
  const std::string whole = read_file(path);
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 5) {
    write_file(path, whole.substr(0, size));
    CHECK(run.loaded() == 1);
  }
  write_file(path, whole);
  CHECK(run.loaded() == 2);
}

TEST_CASE(
    "load_newest gives the newest or the previous checkpoint if a byte of the newest manifest is changed") {
  Checkpoints run;
  run.save(11);
  run.save(12);
  const fs::path path = run.at(12) / "manifest.json";
  const std::string whole = read_file(path);
  for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
    for (const char change : {'\x01', '\x02', '\x08', '\x10'}) {
      std::string text = whole;
      text[i] = static_cast<char>(text[i] ^ change);
      write_file(path, text);
      CAPTURE(text);
      const std::uint64_t step = run.loaded();
      CHECK((step == 11 || step == 12));
    }
  }
}

TEST_CASE("a checkpoint in the folder of another step is skipped") {
  Checkpoints run;
  run.save(1);
  fs::copy(run.at(1), run.at(9), fs::copy_options::recursive);
  CHECK(run.loaded() == 1);
  // Shows that load_newest did not load that folder: without the right folder no checkpoint is usable.
  fs::remove_all(run.at(1));
  CHECK_THROWS_AS(run.store().load_newest(two_tensors), Failure);
}

TEST_CASE(
    "if no checkpoint is usable, load_newest throws a failure that names the newest checkpoint and its "
    "fault") {
  Checkpoints run;
  run.save(1);
  run.save(2);
  fs::remove(run.at(1) / "manifest.json");
  flip_from_end(run.at(2) / "state.safetensors", 4);
  try {
    run.store().load_newest(two_tensors);
    FAIL("loaded");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::checkpoint_unusable);
    CHECK(std::string(failure.what()) == "no checkpoint can be used: " + run.at(2).string() +
                                             ": state.safetensors does not match its checksum");
  }
}

TEST_CASE("a checkpoint of another model is not loaded") {
  Checkpoints run;
  run.save(1);
  std::vector<TensorInfo> renamed = two_tensors, reshaped = two_tensors, wider = two_tensors;
  renamed[0].name = "layers.9.weight";
  reshaped[0].shape = {2, 3};
  wider[1] = {"layers.0.bias", {4}, 6, 4};
  for (const auto& other : {renamed, reshaped, wider, std::vector<TensorInfo>{}}) {
    try {
      run.store().load_newest(other);
      FAIL("loaded");
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::checkpoint_unusable);
    }
  }
}

TEST_CASE("a save replaces a damaged checkpoint of the same step") {
  Checkpoints run;
  run.save(1, 2);
  run.save(2, 2);
  flip_from_end(run.at(2) / "state.safetensors", 4);
  run.save(2, 2);
  CHECK(run.loaded() == 2);
}

TEST_CASE("a save of step 11 keeps step 10, although the checkpoints of later steps are damaged") {
  Checkpoints run;
  run.save(10, 2);
  for (std::uint64_t step : {20u, 30u}) {
    run.save(step, 9);
    fs::remove(run.at(step) / "manifest.json");
  }
  run.save(11, 2);
  CHECK(run.loaded() == 11);
  CHECK(fs::exists(run.at(10)));
}
