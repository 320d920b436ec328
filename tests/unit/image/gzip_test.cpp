// Checks that gunzip() restores bytes of any length, also if gzip() has split them into several members.
#include "cli/image/gzip.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "tests/unit/image/gzip_text.h"

TEST_SUITE_BEGIN("image/gzip");

namespace {

std::string gzip_refusal(const std::string& bytes, std::size_t most) {
  try {
    (void)mlk::image::gunzip(bytes, most);
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::failure);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("gunzip() restores bytes that gzip() compressed into one or several members") {
  constexpr std::size_t member = 512 << 10;
  const std::string noise = mlk::random_bytes(9 * member + 1);
  for (const std::size_t size :
       {std::size_t{1}, member - 1, member, member + 1, 2 * member, 9 * member + 1}) {
    const std::string bytes = noise.substr(0, size);
    CHECK((mlk::image::gunzip(mlk::test::gzip(bytes), size) == bytes));
    CHECK(gzip_refusal(mlk::test::gzip(bytes), size - 1).starts_with("the archive has more than "));
  }
}

TEST_CASE("GzipStream accepts empty parts, and gives fewer bytes at a higher level") {
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += std::to_string(i) + " ";
  const auto packed = [&](int level) {
    std::string out;
    mlk::image::GzipStream stream(level, [&](std::string_view part) { out += part; });
    stream.add("");
    stream.add(text);
    stream.add("");
    stream.finish();
    return out;
  };
  CHECK((mlk::image::gunzip(packed(1), text.size()) == text));
  CHECK(packed(12).size() < packed(1).size());
}

TEST_CASE(
    "gunzip() refuses bytes that are no gzip file, are cut off or damaged, or have other bytes after them") {
  const std::string packed = mlk::test::gzip("text"), none = "the archive is no gzip file, or is cut off";
  CHECK(gzip_refusal(packed, 4) == "accepted");
  CHECK(gzip_refusal(packed + packed, 8) == "accepted");
  CHECK(mlk::image::gunzip(packed + packed, 8) == "texttext");
  CHECK(gzip_refusal(packed + packed, 7) == "the archive has more than 1 KiB when it is unpacked");
  for (const std::string& bad :
       {std::string(), std::string("x"), std::string("\x78\x9c\x03\x00\x00\x00\x00\x01", 8), packed + "x",
        packed.substr(0, 5), packed + packed.substr(0, 12)})
    CHECK(gzip_refusal(bad, 100) == none);
  std::string damaged = packed;
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);  // in the checksum
  CHECK(gzip_refusal(damaged, 100) == none);
}
