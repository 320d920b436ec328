#include "runtime/checkpoint/checkpoint_format.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include <doctest/doctest.h>

#include "runtime/ps/machines/protocol.h"

TEST_SUITE_BEGIN("runtime/checkpoint/checkpoint_format");

using namespace mlk::rt;

namespace {

const std::vector<TensorInfo> small = {{"layers.0.weight", {3, 2}, 0, 6}, {"layers.0.bias", {3}, 6, 3}};
// Larger than a chunk, so that servers share it.
const std::vector<TensorInfo> large = {
    {"w", {3, 50000}, 0, 150000}, {"b", {3}, 150000, 3}, {"wide", {70000}, 150003, 70000}};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

SafeTensor tensor(const std::string& name, std::vector<std::int64_t> shape) {
  return {name, std::move(shape), 0, 0};
}

}  // namespace

TEST_CASE(
    "name_pieces() gives a whole tensor its own name and shape, and adds the range to the name of a part of "
    "a tensor") {
  const std::vector<Piece> pieces = {{0, 0, 9}, {2, 0, 6}, {1, 4, 3}};
  const auto named = name_pieces(pieces, small);
  std::vector<std::string> names;
  for (const SafeTensor& one : named) names.push_back(one.name);
  CHECK(names == std::vector<std::string>{"layers.0.weight", "layers.0.bias", "optimizer.1.layers.0.weight",
                                          "optimizer.0.layers.0.weight[4:6]",
                                          "optimizer.0.layers.0.bias[0:1]"});
  CHECK(named[0].shape == std::vector<std::int64_t>{3, 2});
  CHECK(named[3].shape == std::vector<std::int64_t>{2});
  CHECK(named[3].offset == (9 + 6) * sizeof(float));
  CHECK(named[3].size == 2 * sizeof(float));
}

TEST_CASE("adjacent pieces are merged into one piece") {
  Snapshot snapshot;
  const std::vector<float> values(4, 1.0f);
  snapshot.restart(5, 320, 16);
  snapshot.add(0, 0, values);
  snapshot.add(0, 4, values);
  snapshot.add(0, 12, values);
  snapshot.add(1, 16, values);
  CHECK(snapshot.pieces == std::vector<Piece>{{0, 0, 8}, {0, 12, 4}, {1, 16, 4}});
  CHECK(snapshot.values.size() == 16);
  CHECK(snapshot.slots() == 1);
  snapshot.restart(6, 384, 16);
  CHECK(snapshot.pieces.empty());
  CHECK(snapshot.values.empty());
  CHECK(snapshot.values.capacity() >= 16);
}

TEST_CASE(
    "for any number of servers, all their pieces together are the whole model, and are found by their "
    "names") {
  for (std::uint32_t servers = 1; servers <= 6; ++servers) {
    CAPTURE(servers);
    std::vector<Piece> all;
    for (std::uint32_t server = 0; server < servers; ++server) {
      for (std::size_t part = 0; part <= 2; ++part) {
        for (const Chunk& chunk : cut_chunks(large, servers)) {
          if (chunk.server == server) all.push_back({part, chunk.offset, chunk.size});
        }
      }
    }
    std::vector<Piece> found;
    for (const SafeTensor& one : name_pieces(all, large)) found.push_back(find_piece(one, large));
    CHECK(require_whole(found, parameter_count(large)) == 2);
    std::ranges::sort(found);
    std::ranges::sort(all);
    CHECK(found == all);
  }
}

TEST_CASE("a tensor that is not in the model is refused, and the error names the tensor") {
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, std::vector<std::int64_t>>>{{"layers.1.weight", {3, 2}},
                                                                      {"layers.0.weight", {2, 3}},
                                                                      {"layers.0.weight[0:7]", {7}},
                                                                      {"layers.0.weight[2:2]", {0}},
                                                                      {"layers.0.weight[3:2]", {1}},
                                                                      {"layers.0.weight[0:2]", {3}},
                                                                      {"layers.0.weight[0:2", {2}},
                                                                      {"layers.0.weight[0:2]x", {2}},
                                                                      {"layers.0.weight[-1:2]", {3}},
                                                                      {"layers.0.weight[0:2]", {1, 2}},
                                                                      {"layers.0.weightx", {3, 2}},
                                                                      {"optimizer.layers.0.bias", {3}},
                                                                      {"optimizer.8.layers.0.bias", {3}},
                                                                      {"optimizer.-1.layers.0.bias", {3}},
                                                                      {"", {}},
                                                                      {"optimizer.0.", {}}}) {
    CAPTURE(name);
    const std::string error = error_of([&] { find_piece(tensor(name, shape), small); });
    CHECK(error == "its tensors are not those of the model: " + name);
  }
}

TEST_CASE("pieces that leave out floats or hold them twice are refused as incomplete") {
  CHECK(require_whole({{0, 0, 9}}, 9) == 0);
  CHECK(require_whole({{1, 4, 5}, {0, 3, 6}, {1, 0, 4}, {0, 0, 3}}, 9) == 1);
  const std::vector<std::vector<Piece>> broken = {
      {},
      {{0, 0, 8}},
      {{0, 1, 8}},
      {{0, 0, 9}, {0, 0, 9}},
      {{0, 0, 5}, {0, 4, 5}},
      {{0, 0, 4}, {0, 5, 4}},
      {{0, 0, 9}, {2, 0, 9}},
      {{0, 0, 9}, {1, 0, 8}},
      {{1, 0, 9}},
      {{0, 0, 10}},
      {{0, 0, 9}, {1, 0, 9}, {1, 9, 1}},
  };
  for (const auto& pieces : broken) {
    CAPTURE(pieces.size());
    CHECK(error_of([&] { require_whole(pieces, 9); }) != "");
  }
}

TEST_CASE("a manifest is unchanged after it has been encoded and decoded") {
  const Manifest manifest{
      7, 448, {{"server-0.safetensors", 1000, 0xffffffff}, {"server-1.safetensors", 8, 0}}};
  const Manifest read = decode_manifest(encode(manifest));
  CHECK(read.step == 7);
  CHECK(read.position == 448);
  CHECK(read.files == manifest.files);
}

TEST_CASE("the error for a broken manifest says what is wrong with it") {
  const auto error = [](const std::string& text) { return error_of([&] { decode_manifest(text); }); };
  CHECK(error(std::string(400'000, '[') + std::string(400'000, ']')) ==
        "manifest.json: nested deeper than 32");
  CHECK(error(R"({"schema":2})") == "its manifest has schema 2, of another version of mlk-runtime");
  CHECK(error(R"({"schema":1,"step":1,"position":1,"files":[{"name":"../x","bytes":1,"crc32c":1}]})") ==
        "its manifest names a file elsewhere: ../x");
  for (const char* text :
       {"", "[]", "{", R"({"schema":1})", R"({"schema":1,"step":"a","position":1,"files":[]})",
        R"({"schema":1,"step":1,"position":1,"files":[{}]})"}) {
    CAPTURE(text);
    CHECK(error(text).starts_with("manifest.json: "));
  }
  const auto with = [&](const std::string& step, const std::string& crc32c) {
    return error(R"({"schema":1,"step":)" + step +
                 R"(,"position":1,"files":[{"name":"x","bytes":1,"crc32c":)" + crc32c + "}]}");
  };
  CHECK(with("1", "4294967295") == "");
  for (const char* step : {"-1", "1.5", "2e27", "true", "18446744073709551616"}) {
    CAPTURE(step);
    CHECK(with(step, "1") == "manifest.json: step is not a whole number");
  }
  CHECK(with("1", "2e27") == "manifest.json: crc32c is not a whole number");
  CHECK(with("1", "4294967296") == "manifest.json: crc32c is not a whole number");
  CHECK(error_of([] { decode_manifest(R"({"schema":1,"step":1,"position":1,"files":[]})"); }) == "");
}

TEST_CASE("a manifest may have a summary of the data, and an incomplete summary is refused") {
  Manifest manifest{1, 2, {{"a", 3, 4}}, DataSummary{{1500, 7}, {297, 4294967295}}};
  CHECK(decode_manifest(encode(manifest)).data == manifest.data);
  manifest.data.reset();
  CHECK_FALSE(decode_manifest(encode(manifest)).data);
  const auto with = [](const std::string& data) {
    return error_of(
        [&] { decode_manifest(R"({"schema":1,"step":1,"position":1,"files":[],"data":)" + data + "}"); });
  };
  CHECK(with(R"({"train":{"samples":1,"crc32c":2},"held_out":{"samples":1,"crc32c":2}})") == "");
  CHECK(with(R"({"train":{"samples":1,"crc32c":2}})") != "");
  CHECK(with(R"({"train":{"samples":1,"crc32c":4294967296},"held_out":{"samples":1,"crc32c":2}})") ==
        "manifest.json: crc32c is not a whole number");
  CHECK(with("7") != "");
}
