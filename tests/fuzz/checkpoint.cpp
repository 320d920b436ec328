// Checkpoints with one changed file. The manifest may or may not agree with the change.
#include "runtime/checkpoint/checkpoint.h"

#include <cstdint>
#include <fcntl.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/crc32c.h"
#include "runtime/base/exit_code.h"
#include "tests/fuzz/demand.h"
#include "tests/unit/runtime/temporary_folder.h"

using namespace mlk::rt;
using mlk::fuzz::demand;
namespace fs = std::filesystem;
namespace test = mlk::test;
using nlohmann::json;

namespace {

const std::vector<TensorInfo> tensors = {{"weight", {3, 4}, 0, 12}, {"bias", {4}, 12, 4}};
constexpr std::size_t floats = 16;

struct File {
  fs::path path;
  std::string text;
};

// A good checkpoint, and the contents of its files.
struct Good {
  test::TemporaryFolder folder;
  Log log{"fuzzer", open("/dev/null", O_WRONLY | O_CLOEXEC)};
  std::vector<File> files;

  Good() {
    Snapshot snapshot;
    snapshot.restart(7, 112, 2 * floats);
    for (std::size_t part = 0; part < 2; ++part) snapshot.add(part, 0, std::vector<float>(floats, 0.5f));
    demand(CheckpointStore(folder.path(), 1, log).save(snapshot, tensors));
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      if (entry.is_regular_file()) files.push_back({entry.path(), test::read_file(entry.path())});
    }
    demand(files.size() >= 2);
  }
};

std::string changed(FuzzedDataProvider& input, std::string text) {
  const auto at = input.ConsumeIntegralInRange<std::size_t>(0, text.size() - 1);
  switch (input.ConsumeIntegralInRange(0, 3)) {
    case 0:
      return input.ConsumeRandomLengthString(600);
    case 1:
      return text.substr(0, at);
    case 2:
      return text.insert(at, input.ConsumeRandomLengthString(40));
    default: {
      const std::string piece = input.ConsumeRandomLengthString(40);
      return text.replace(at, piece.size(), piece);
    }
  }
}

// Returns the manifest with the present size and checksum of the file.
std::string agreeing(const std::string& manifest, const fs::path& file) {
  json parsed = json::parse(manifest, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("files") || !parsed["files"].is_array()) return manifest;
  const std::string text = test::read_file(file);
  for (json& entry : parsed["files"]) {
    if (!entry.is_object() || entry.value("name", json()) != file.filename().string()) continue;
    entry["bytes"] = text.size();
    entry["crc32c"] = crc32c(text.data(), text.size());
  }
  return parsed.dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Good good;
  FuzzedDataProvider input(data, size);
  const auto victim = input.ConsumeIntegralInRange<std::size_t>(0, good.files.size() - 1);
  const bool agrees = input.ConsumeBool();
  for (std::size_t i = 0; i < good.files.size(); ++i) {
    test::write_file(good.files[i].path,
                     i == victim ? changed(input, good.files[i].text) : good.files[i].text);
  }
  for (const File& manifest : good.files) {
    if (!agrees || manifest.path.extension() != ".json") continue;
    for (const File& file : good.files) {
      if (file.path != manifest.path)
        test::write_file(manifest.path, agreeing(test::read_file(manifest.path), file.path));
    }
  }
  try {
    const auto state = CheckpointStore(good.folder.path(), 1, good.log).load_newest(tensors);
    demand(state && state->parameters.size() == floats);
  } catch (const Failure& failure) {
    demand(failure.code == ExitCode::checkpoint_unusable);
  }
  return 0;
}
