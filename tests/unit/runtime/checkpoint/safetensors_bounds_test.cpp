#include <cstring>
#include <stdexcept>

#include <doctest/doctest.h>

#include "runtime/base/json.h"
#include "runtime/checkpoint/safetensors.h"

TEST_SUITE_BEGIN("runtime/checkpoint/safetensors_bounds");

namespace mlk::rt {
namespace {
namespace safetensors_bounds {

std::string length_of(std::uint64_t length) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

std::string refusal(const std::string& header, std::uint64_t data_size) {
  try {
    parse_safetensors(length_of(header.size()) + header, 8 + header.size() + data_size);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

std::string refused_size(const std::string& bytes, std::uint64_t file_size) {
  try {
    safetensors_header_size(bytes, file_size);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace safetensors_bounds

TEST_CASE("a header is at most as long as its file, and at most sixteen mebibytes long") {
  using namespace safetensors_bounds;
  const std::string too_long = "safetensors: the header is longer than the file";
  CHECK(safetensors_header_size(length_of(0), 8) == 8);
  CHECK(safetensors_header_size(length_of(5), 13) == 13);
  CHECK(safetensors_header_size(length_of(5) + "more", 100) == 13);
  CHECK(refused_size(length_of(6), 13) == too_long);
  CHECK(safetensors_header_size(length_of(most_json_bytes), 1 << 30) == most_json_bytes + 8);
  CHECK(refused_size(length_of(most_json_bytes + 1), 1 << 30) ==
        "safetensors: the header is longer than 16 MiB");
  CHECK(refused_size(length_of(0).substr(1), 100) == "safetensors: no header");
  CHECK(refused_size(length_of(0), 7) == "safetensors: no header");
  const std::string whole = safetensors_header({}, {});
  try {
    parse_safetensors(whole.substr(0, whole.size() - 1), whole.size());
    FAIL("taken");
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()) == "safetensors: the header is cut off");
  }
}

TEST_CASE("headers are filled with blanks to a multiple of eight bytes") {
  for (std::size_t size = 0; size < 20; ++size) {
    const std::string header = safetensors_header({}, {{"k", std::string(size, 'v')}});
    CHECK(header.size() % 8 == 0);
    std::uint64_t length = 0;
    std::memcpy(&length, header.data(), sizeof length);
    CHECK(length == header.size() - 8);
    const std::string text = header.substr(8),
                      start = "{\"__metadata__\":{\"k\":\"" + std::string(size, 'v') + "\"}}";
    CHECK(text.starts_with(start));
    CHECK(text.find_first_not_of(' ', start.size()) == std::string::npos);
    CHECK(text.size() < start.size() + 8);
  }
}

TEST_CASE("parse_safetensors() sorts tensors by their offsets") {
  const std::vector<SafeTensor> tensors = {
      {"z", {2}, 0, 8}, {"none", {0, 5}, 8, 0}, {"m", {}, 8, 4}, {"a", {1, 3}, 12, 12}};
  const std::string header = safetensors_header(tensors, {{"a", "1"}, {"b", ""}});
  const SafeTensorsFile file = parse_safetensors(header, header.size() + 24);
  CHECK(file.data_begin == header.size());
  CHECK(file.metadata == std::map<std::string, std::string>{{"a", "1"}, {"b", ""}});
  REQUIRE(file.tensors.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(file.tensors[i].name == tensors[i].name);
    CHECK(file.tensors[i].shape == tensors[i].shape);
    CHECK(file.tensors[i].offset == tensors[i].offset);
    CHECK(file.tensors[i].size == tensors[i].size);
  }
  const std::string bare = safetensors_header(std::span(tensors).first(1), {});
  CHECK(bare.find("__metadata__") == std::string::npos);
  CHECK(parse_safetensors(bare, bare.size() + 8).metadata.empty());
}

TEST_CASE("a tensor whose type, shape and offsets do not agree is refused, and the error names the tensor") {
  using safetensors_bounds::refusal;
  const auto tensor = [](const std::string& shape, const std::string& offsets) {
    return "{\"t\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
  };
  CHECK(refusal(tensor("[2]", "[0,8]"), 8) == "");
  CHECK(refusal(tensor("[0]", "[0,0]"), 0) == "");
  CHECK(refusal(tensor("[]", "[0,4]"), 4) == "");
  CHECK(refusal(tensor("[2]", "[0,8]"), 7) == "safetensors: t lies outside of the file");
  CHECK(refusal(tensor("[2]", "[0,8]"), 9) == "safetensors: bytes after the last tensor");
  CHECK(refusal(tensor("[2]", "[0,7]"), 8) == "safetensors: t does not fill its shape");
  CHECK(refusal(tensor("[2]", "[1,9]"), 9) == "safetensors: t leaves a hole or overlaps");
  CHECK(refusal(tensor("[2]", "[0,8,8]"), 8) == "safetensors: t has no data_offsets");
  CHECK(refusal(tensor("[2]", "[0,8.0]"), 8) == "safetensors: t has no data_offsets");
  CHECK(refusal(tensor("[2]", "[\"0\",8]"), 8) == "safetensors: t has no data_offsets");
  CHECK(refusal(tensor("[2]", "8"), 8) == "safetensors: t has no data_offsets");
  CHECK(refusal(tensor("[2,\"1\"]", "[0,8]"), 8) == "safetensors: t has no shape");
  CHECK(refusal(tensor("[4611686018427387903]", "[0,8]"), 8) == "safetensors: t does not fill its shape");
  CHECK(refusal(tensor("[4611686018427387904]", "[0,0]"), 0) == "safetensors: t is too large");
  const std::string twice = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                            R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})";
  CHECK(refusal(twice, 12) == "safetensors: b leaves a hole or overlaps");
  CHECK(refusal(R"({"t":{"shape":[],"data_offsets":[0,4]}})", 4).starts_with("safetensors: "));
}

}  // namespace
}  // namespace mlk::rt
