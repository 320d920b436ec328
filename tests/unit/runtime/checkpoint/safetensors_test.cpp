#include "runtime/checkpoint/safetensors.h"

#include <cstring>
#include <stdexcept>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/checkpoint/safetensors");

using namespace mlk::rt;

namespace {

// A file with this header and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data, 'd');
}

std::string message_for(const std::string& file) {
  try {
    parse_safetensors(file, file.size());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the header of a safetensors file matches the format byte by byte") {
  const std::vector<SafeTensor> tensors = {{"a", {2, 3}, 0, 24}, {"b", {}, 24, 4}};
  const std::string header = safetensors_header(tensors, {{"step", "5"}});
  const std::string expected =
      R"({"__metadata__":{"step":"5"},"a":{"data_offsets":[0,24],"dtype":"F32","shape":[2,3]},)"
      R"("b":{"data_offsets":[24,28],"dtype":"F32","shape":[]}})";
  REQUIRE(header.size() % 8 == 0);
  std::uint64_t length = 0;
  std::memcpy(&length, header.data(), 8);
  CHECK(length == header.size() - 8);
  CHECK(header.substr(8, expected.size()) == expected);
  CHECK(header.find_first_not_of(' ', 8 + expected.size()) == std::string::npos);
}

TEST_CASE("a safetensors header has the same tensors and metadata after it has been written and parsed") {
  const std::vector<SafeTensor> tensors = {{"z", {2, 3}, 0, 24}, {"a", {1}, 24, 4}, {"empty", {0, 5}, 28, 0}};
  const std::string bytes = safetensors_header(tensors, {{"k", "v"}}) + std::string(28, '\0');
  const SafeTensorsFile file = parse_safetensors(bytes, bytes.size());
  REQUIRE(file.tensors.size() == 3);
  CHECK(file.tensors[0].name == "z");
  CHECK(file.tensors[1].name == "a");
  CHECK(file.tensors[1].offset == 24);
  CHECK(file.tensors[0].shape == std::vector<std::int64_t>{2, 3});
  CHECK(file.metadata.at("k") == "v");
}

TEST_CASE("parse_safetensors() names the fault of a malformed file") {
  const auto tensor = [](const std::string& shape, const std::string& offsets,
                         const std::string& type = "F32") {
    return R"({"t":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  CHECK(message_for("") == "safetensors: no header");
  CHECK(message_for("1234567") == "safetensors: no header");
  CHECK(message_for(std::string(8, '\xff')) == "safetensors: the header is longer than the file");
  CHECK(message_for(file_of("{}", 0).substr(0, 9)) == "safetensors: the header is longer than the file");
  CHECK(message_for(file_of("[]", 0)) == "safetensors: the header is not an object");
  CHECK(message_for(file_of("{", 0)).starts_with("safetensors: "));
  CHECK(message_for(file_of(tensor("[2]", "[0,8]"), 8)) == "accepted");
  CHECK(message_for(file_of(tensor("[1]", "[0,8]", "F64"), 8)) == "accepted");
  CHECK(message_for(file_of(tensor("[2]", "[0,8]", "F64"), 8)) == "safetensors: t does not fill its shape");
  CHECK(message_for(file_of(tensor("[2]", "[0,8]", "F31"), 8)) == "safetensors: t has an unknown type");
  CHECK(message_for(file_of(R"({"t":{"dtype":5,"shape":[],"data_offsets":[0,4]}})", 4))
            .starts_with("safetensors: "));
  CHECK(message_for(file_of(tensor("[2]", "[0,8]"), 4)) == "safetensors: t lies outside of the file");
  CHECK(message_for(file_of(tensor("[2]", "[8,0]"), 8)) == "safetensors: t lies outside of the file");
  CHECK(message_for(file_of(tensor("[3]", "[0,8]"), 8)) == "safetensors: t does not fill its shape");
  for (const char* shape : {"[-2]", "[2.0]", "[1e30]", "[true]", "2"}) {
    CAPTURE(shape);
    CHECK(message_for(file_of(tensor(shape, "[0,8]"), 8)) == "safetensors: t has no shape");
  }
  CHECK(message_for(file_of(tensor("[4611686018427387904,4,4]", "[0,8]"), 8)) ==
        "safetensors: t is too large");
  CHECK(message_for(file_of(tensor("[1]", "[4,8]"), 8)) == "safetensors: t leaves a hole or overlaps");
  CHECK(message_for(file_of(tensor("[1]", "[0,4]"), 8)) == "safetensors: bytes after the last tensor");
  CHECK(message_for(file_of(tensor("[1]", "[0]"), 4)) == "safetensors: t has no data_offsets");
  CHECK(message_for(file_of(tensor("[1]", "[-4,0]"), 4)) == "safetensors: t has no data_offsets");
  CHECK(message_for(file_of(R"({"t":5})", 0)).starts_with("safetensors: "));
  CHECK(message_for(file_of(R"({"__metadata__":{"a":1}})", 0)).starts_with("safetensors: "));
}
