#include "cli/util/program_text.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("util/program_text");

namespace {

using mlk::Colors;

std::string removed(std::string_view line) { return mlk::program_line(line, Colors::removed); }
std::string kept(std::string_view line) { return mlk::program_line(line, Colors::kept); }

TEST_CASE("program_line() returns the text that a terminal would show") {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"", ""},
      {"plain\ttext", "plain\ttext"},
      {"from windows\r", "from windows"},
      {"from windows\r\n", "from windows\n"},
      // Text after a carriage return replaces the old text.
      {"\r 1%\r 50%\r100%", "100%"},
      {" 1%\r 50%\r\r", " 50%"},
      {"\r\r", ""},
      {"long long line\rshort", "short"},
      {"1/3 [=>..]\b\b\b\b\b\b\b\b\b\b3/3 [===]", "3/3 [===]"},
      {"\b\b|\b/\b-", "-"},
      {"abc\b\bX", "aX"},
      {"abc\b\b", "abc"},
      {"\033[?25l\033[2K\033[1GDownloading 1/2\033[2K\033[1GDownloading 2/2\033[?25h", "Downloading 2/2"},
      {"old\033[1Gnew", "new"},
      {"abc\033[2Dx", "ax"},
      {"abc\033[3G", "abc"},
      {"a\033[3Cb", "a   b"},
      {"a\033[5Gb", "a   b"},
      {"abc\r\033[K", ""},
      {"abc\r\033[Kd", "d"},
      {"abc\033[K", "abc"},
      {"abc\033[1K", ""},
      {"abc\r\033[1K", "abc"},
      {"abc\033[2J\033[Hd", "d"},
      {"inner 2/3\033[A\router 1/3", "outer 1/3"},
      {"batch: 100%|###| 3/3\033[A", "batch: 100%|###| 3/3"},
      // Sequences are removed whole.
      {"\033[01;31m\033[Kmatch\033[m\033[K rest", "match rest"},
      {"\033[31mred\033(B\033[m", "red"},
      {"\033]8;;http://example.com\033\\link\033]8;;\033\\ \033]0;title\007text", "link text"},
      {"\033P1;2|sixel\033\\a\033_b\033\\c", "ac"},
      {"\033]0;a title that does not end", "0;a title that does not end"},
      {"\0337\033[s\033[u\0338\033=\033>a\033[>4;2mb\033[ qc", "abc"},
      {"\u009b31mred\u009d0;t\u009c", "red"},
      {"cut\033[31", "cut"},
      {"cut\033", "cut"},
      {"\033[" + std::string(100, '1') + "mlong", "long"},
      {"\033[31\033[32mtwo", "two"},
      {"ring\a\x0f\x0e", "ring"},
      {std::string("a\0b", 3), "ab"},
      // Other control characters, and bytes that are not UTF-8, become '?'.
      {"a\x01\x7f\x9b\u202e", "a????"},
      {"50%|█████     | 1/2 \r100%|██████████| 2/2 ", "100%|██████████| 2/2 "},
  };
  for (const auto& [line, shown] : lines) {
    CAPTURE(line);
    CHECK(removed(line) == shown);
    CHECK(removed(kept(line)) == shown);
  }
}

TEST_CASE("program_line() keeps the colours that a terminal would show") {
  CHECK(kept("\033[1;31mred\033[0m plain") == "\033[1;31mred\033[0m plain");
  CHECK(kept("\033[1;31mred") == "\033[1;31mred\033[0m");
  CHECK(kept("\033[31mred\033[m") == "\033[31mred\033[m");
  CHECK(kept("\033[31mold\033[0m\rnew") == "new");
  CHECK(kept("\033[32mold\rnew") == "\033[32mnew\033[0m");
  CHECK(kept("\033[32mold\033[0m\033[1D!") == "\033[32mol\033[0m!");
  CHECK(kept("\033[>4m\033[2Ka") == "a");
  const std::string once = kept("\033[32ma\b\033[31mb\033[4mc\rd");
  CHECK(kept(once) == once);
}

TEST_CASE("program_text() shows the next line in place of a line that moves the cursor up") {
  CHECK(mlk::program_text("") == "");
  CHECK(mlk::program_text("one\n\n\033[31mtwo\033[0m\n") == "one\n\ntwo\n");
  CHECK(mlk::program_text("\router 0/2\n\rinner 1/2\033[A\n\rinner 2/2\033[A\router 1/2\nend") ==
        "outer 0/2\nouter 1/2\nend");
  CHECK(mlk::program_text("\rinner 1/2\033[A") == "inner 1/2");
  CHECK(mlk::program_text("\rinner 1/2\033[A\n") == "inner 1/2\n");
}

}  // namespace
