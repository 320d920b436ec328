#include <cstdlib>
#include <functional>
#include <malloc.h>
#include <stdexcept>

#include <doctest/doctest.h>

#include "runtime/base/freed_memory.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "tests/unit/runtime/system_calls.h"

TEST_SUITE_BEGIN("runtime/checkpoint/checkpoint_format_bounds");

namespace mlk::rt {
namespace {
namespace checkpoint_format_bounds {

// The name of the second tensor begins with the name of the first.
const std::vector<TensorInfo> alike = {{"w", {2, 2}, 0, 4}, {"w2", {3}, 4, 3}};

SafeTensor named(const std::string& name, std::vector<std::int64_t> shape) {
  return {name, std::move(shape), 0, 0};
}

std::string words_of(const std::function<void()>& body) {
  try {
    body();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

std::string refusal(const std::string& files) {
  return words_of([&] { decode_manifest(R"({"schema":1,"step":1,"position":2,"files":)" + files + "}"); });
}

std::string file_named(const std::string& name) {
  return "{\"name\":\"" + name + "\",\"bytes\":1,\"crc32c\":2}";
}

}  // namespace checkpoint_format_bounds

TEST_CASE("restart() empties a snapshot, and sets the new step and position") {
  Snapshot snapshot;
  CHECK(snapshot.slots() == 0);
  snapshot.restart(1, 2, 8);
  const std::vector<float> values = {1, 2, 3};
  snapshot.add(0, 0, values);
  CHECK(snapshot.slots() == 0);
  snapshot.add(3, 0, values);
  snapshot.add(1, 0, values);
  CHECK(snapshot.slots() == 3);
  snapshot.history = {4, 5};
  snapshot.restart(6, 7, 2);
  CHECK(snapshot.step == 6);
  CHECK(snapshot.position == 7);
  CHECK(snapshot.pieces.empty());
  CHECK(snapshot.values.empty());
  CHECK(snapshot.values.capacity() >= 6);  // the snapshot keeps its memory
  CHECK(snapshot.history == RunHistory{});
  CHECK(snapshot.slots() == 0);
}

TEST_CASE("a tensor is found by its whole name, even if the name of another tensor begins with it") {
  using namespace checkpoint_format_bounds;
  CHECK(find_piece(named("w", {2, 2}), alike) == Piece{0, 0, 4});
  CHECK(find_piece(named("w2", {3}), alike) == Piece{0, 4, 3});
  CHECK(find_piece(named("w[0:1]", {1}), alike) == Piece{0, 0, 1});
  CHECK(find_piece(named("w[3:4]", {1}), alike) == Piece{0, 3, 1});
  CHECK(find_piece(named("w2[0:3]", {3}), alike) == Piece{0, 4, 3});
  CHECK(find_piece(named("optimizer.0.w", {2, 2}), alike) == Piece{1, 0, 4});
  CHECK(find_piece(named("optimizer.7.w2[1:3]", {2}), alike) == Piece{8, 5, 2});
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, std::vector<std::int64_t>>>{{"w", {4}},
                                                                      {"w", {2, 3}},
                                                                      {"w[0:5]", {5}},
                                                                      {"w[2:2]", {0}},
                                                                      {"w[3:2]", {-1}},
                                                                      {"w[0:2]", {3}},
                                                                      {"w[0:2]", {1, 2}},
                                                                      {"w[0:2", {2}},
                                                                      {"w[0:", {2}},
                                                                      {"w[0", {2}},
                                                                      {"w[", {2}},
                                                                      {"w[0-2]", {2}},
                                                                      {"w[0:2]x", {2}},
                                                                      {"w(0:2]", {2}},
                                                                      {"w[:2]", {2}},
                                                                      {"w[-1:2]", {3}},
                                                                      {"w2[0:4]", {4}},
                                                                      {"w3", {3}},
                                                                      {"v", {2, 2}},
                                                                      {"optimizer.8.w", {2, 2}},
                                                                      {"optimizer.w", {2, 2}},
                                                                      {"optimizer.1w", {2, 2}},
                                                                      {"optimizer.1", {2, 2}},
                                                                      {"optimizer.", {2, 2}}}) {
    CAPTURE(name);
    CHECK(words_of([&] { find_piece(named(name, shape), alike); }) ==
          "its tensors are not those of the model: " + name);
  }
}

TEST_CASE(
    "require_whole() reports one error for missing or repeated floats, and another if the pieces end early") {
  using checkpoint_format_bounds::words_of;
  const std::string twice = "its files leave out some of the model or hold it twice";
  const std::string not_whole = "its files do not hold the whole model";
  CHECK(words_of([] { require_whole({{0, 0, 4}, {0, 3, 5}}, 8); }) == twice);
  CHECK(words_of([] { require_whole({{0, 0, 8}, {2, 0, 8}}, 8); }) == twice);
  CHECK(words_of([] { require_whole({{0, 0, 7}}, 8); }) == not_whole);
  CHECK(words_of([] { require_whole({}, 8); }) == not_whole);
  CHECK(words_of([] { require_whole({{0, 0, 8}, {1, 0, 7}}, 8); }) == not_whole);
  CHECK(require_whole({{2, 0, 8}, {0, 0, 8}, {1, 0, 8}}, 8) == 2);
}

TEST_CASE("a manifest is one line of JSON") {
  CHECK(encode({7, 448, {{"a", 1000, 4'294'967'295}, {"b", 8, 0}}}) ==
        R"({"files":[{"bytes":1000,"crc32c":4294967295,"name":"a"},{"bytes":8,"crc32c":0,"name":"b"}],)"
        R"("position":448,"schema":1,"step":7})"
        "\n");
}

TEST_CASE("a manifest is refused if it names more than 4096 files, or a file outside of its own folder") {
  using namespace checkpoint_format_bounds;
  const auto many = [](std::size_t count) {
    std::string files = "[" + file_named("x");
    for (std::size_t i = 1; i < count; ++i) files += "," + file_named("x");
    return files + "]";
  };
  CHECK(refusal(many(4096)) == "");
  CHECK(refusal(many(4097)) == "its manifest names too many files");
  CHECK(refusal("[" + file_named("a.b") + "]") == "");
  for (const char* name : {"", ".", "..", ".x", "/x", "a/b", "a/"}) {
    CHECK(refusal("[" + file_named("a") + "," + file_named(name) + "]") ==
          std::string("its manifest names a file elsewhere: ") + name);
  }
  CHECK(refusal(R"([{"name":"x","bytes":-1,"crc32c":1}])") == "manifest.json: bytes is not a whole number");
  CHECK(refusal(R"([{"name":"x","bytes":18446744073709551615,"crc32c":1}])") == "");
  CHECK(refusal(R"([{"name":1,"bytes":1,"crc32c":1}])").starts_with("manifest.json: "));
  CHECK(words_of([] { decode_manifest(R"({"schema":1,"step":1,"position":-2,"files":[]})"); }) ==
        "manifest.json: position is not a whole number");
}

TEST_CASE("keep_freed_memory() keeps freed blocks of 15 MiB in the process until 75 MiB are free") {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  constexpr int other_allocator = 77;
  const int result = test::in_child([] {
    constexpr std::size_t mebibyte = 1 << 20;
    const auto mapped = [] { return mallinfo2().hblks; };
    std::size_t before = mapped();
    // Larger than the C library's default threshold for mmap, and smaller than the threshold that is set
    // here.
    void* volatile chunk = std::malloc(40 * mebibyte);
    if (mapped() != before + 1) return other_allocator;
    keep_freed_memory();
    before = mapped();
    void* volatile blocks[6];
    for (void* volatile& block : blocks) block = std::malloc(15 * mebibyte);
    if (mapped() != before) return 1;
    void* volatile large = std::malloc(17 * mebibyte);
    if (mapped() != before + 1) return 2;
    std::free(large);
    const std::size_t all = mallinfo2().arena;
    for (int i = 5; i >= 2; --i) std::free(blocks[i]);
    if (mallinfo2().arena != all) return 3;  // 60 MiB are free, and kept
    std::free(blocks[1]);
    if (mallinfo2().arena >= all) return 4;  // 75 MiB are too many
    std::free(blocks[0]);
    std::free(chunk);
    return 0;
  });
  if (result == other_allocator) {
    MESSAGE("skipped: memory does not come from the C library");
    return;
  }
  CHECK(result == 0);
#endif
}

}  // namespace
}  // namespace mlk::rt
