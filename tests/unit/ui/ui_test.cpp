// Tables, the width of text, colours, the live line, and curves in one line.
#include <limits>
#include <sstream>

#include <doctest/doctest.h>

#include "cli/ui/curve.h"
#include "cli/ui/progress.h"
#include "cli/ui/style.h"
#include "cli/ui/table.h"
#include "cli/ui/width.h"
#include "cli/util/text.h"

TEST_SUITE_BEGIN("ui/ui");

namespace mlk::ui {
namespace {

std::string printed(const Table& table, std::size_t width, const Style& style = Style()) {
  std::ostringstream out;
  table.print(out, width, style);
  return out.str();
}

Table example() {
  Table table({"RUN", "PHASE", "WHY"});
  table.add({"mnist-abcde", "Running", ""}, {Color::none, Color::green});
  table.add({"long-experiment-name-fghij", "Scheduling",
             "worker/0-3: cannot be scheduled: 0/12 nodes are available: 12 Insufficient nvidia.com/gpu"});
  return table;
}

TEST_CASE("a table that is printed to a pipe is aligned and not shortened") {
  CHECK(
      printed(example(), 0) ==
      "RUN                         PHASE       WHY\n"
      "mnist-abcde                 Running\n"
      "long-experiment-name-fghij  Scheduling  worker/0-3: cannot be scheduled: 0/12 nodes are available: 12 "
      "Insufficient nvidia.com/gpu\n");
}

TEST_CASE("a table of texts is not wider than a terminal of at least 34 columns") {
  CHECK(printed(example(), 60) ==
        "RUN                         PHASE       WHY\n"
        "mnist-abcde                 Running\n"
        "long-experiment-name-fghij  Scheduling  worker/0-3: cannot …\n");
  for (const std::size_t width : {34u, 40u, 46u, 60u, 120u}) {
    for (const std::string& line : split(printed(example(), width), '\n')) CHECK(width_of(line) <= width);
  }
}

TEST_CASE("a table that is too wide shortens texts, but not numbers") {
  Table table({"RUN", "MODE", "STEP", "LOSS", "AGE", "DIFFERS IN", "WHY"});
  table.add({"mnist-abcde", "allreduce", "3000/3000 (12s ago)", "-1.5e-05", "1h5m",
             "train.optimizer.lr=0.1 train.optimizer.momentum=0.9", "2 of 3 trials failed"});
  table.add({"mnist-fghij", "single", "20/3000", "0.25", "5s", "", ""});
  CHECK(printed(table, 90) ==
        "RUN          MODE       STEP                 LOSS      AGE   DIFFERS IN     WHY\n"
        "mnist-abcde  allreduce  3000/3000 (12s ago)  -1.5e-05  1h5m  train.optimi…  2 of 3 trials…\n"
        "mnist-fghij  single     20/3000              0.25      5s\n");
  for (const std::size_t width : {20u, 60u, 80u, 100u}) {
    const std::string text = printed(table, width);
    for (const char* number :
         {"3000/3000 (12s ago)", "-1.5e-05", "1h5m", "20/3000", "0.25", "5s", "STEP", "AGE"})
      CHECK_MESSAGE(text.find(number) != text.npos, text);
  }
  CHECK(printed(table, 80).find("mnist-abcde") != std::string::npos);
}

TEST_CASE("colours do not change the alignment of columns") {
  const std::string colored = printed(example(), 60, Style(true));
  CHECK(colored.find("\x1b[32mRunning\x1b[0m") != std::string::npos);
  std::string plain;
  for (std::size_t i = 0; i < colored.size(); ++i) {
    if (colored[i] == '\x1b')
      i = colored.find('m', i);
    else
      plain += colored[i];
  }
  CHECK(plain == printed(example(), 60));
}

TEST_CASE("a cell has one line and no control characters") {
  Table table({"A", "B"});
  table.add({"one\ntwo\tthree", "\x1b[31mred"});
  CHECK(printed(table, 0) == "A              B\none two three  ?[31mred\n");
}

TEST_CASE("width_of() counts columns, not bytes") {
  CHECK(width_of("naïve") == 5);
  CHECK(width_of("日本") == 4);
  CHECK(width_of("e\xcc\x81") == 1);  // a combining accent
  CHECK(width_of("\xff\xfe") == 2);   // bytes that are not UTF-8
  CHECK(width_of("\xe6\x97") == 2);   // a character without its last byte
  CHECK(fit("日本語", 5) == "日本…");
  CHECK(fit("日本語", 4) == "日…");
  CHECK(fit("abc", 3) == "abc");
  CHECK(fit("abc", 0) == "");
  CHECK(fit("abcdef", 4, true) == "abc.");
  CHECK(pad("é", 3) == "é  ");
}

TEST_CASE("bars and shortened cells have only ASCII characters if the style is ASCII") {
  CHECK(bar(6, 2, 1, 6, true) == "##+...");
  CHECK(printed(example(), 60, Style(false, true)).find("worker/0-3: cannot .\n") != std::string::npos);
}

TEST_CASE("paint() leaves text unchanged without colours, and color_of() gives equal texts one colour") {
  CHECK(Style(false).paint("x", Color::red) == "x");
  CHECK(Style(true).paint("", Color::red) == "");
  CHECK(color_of("worker/1") == color_of("worker/1"));
}

TEST_CASE("if there is no terminal, Progress writes only the lines of print(), and no live line") {
  std::ostringstream out;
  {
    Progress progress(out, false, [] { return std::size_t{80}; });
    CHECK_FALSE(progress.live());
    progress.show("Running  step 1");
    progress.print("a line");
    progress.show("Running  step 2");
  }
  CHECK(out.str() == "a line\n");
}

TEST_CASE("Progress keeps the live line below other lines, and removes it at the end") {
  std::ostringstream out;
  {
    Progress progress(out, true, [] { return std::size_t{12}; });
    progress.show("Running  step 1");
    progress.show("Running  step 1");
    progress.print("a line");
  }
  CHECK(out.str() == "\r\x1b[KRunning  s…\r\x1b[Ka line\nRunning  s…\r\x1b[K");
}

TEST_CASE("a sparkline is lower where its values are lower") {
  CHECK(sparkline({4, 3, 2, 1}, 4) == "█▆▃▁");
  CHECK(sparkline({8, 8, 0, 0}, 2) == "█▁");  // two values share a column
  CHECK(sparkline({1, 1, 1}, 10) == "▁▁▁");
  CHECK(sparkline({3, 0}, 10, true) == "^_");
}

TEST_CASE("a sparkline leaves out values that are not numbers") {
  const double big = std::numeric_limits<double>::max();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(sparkline({}, 10) == "");
  CHECK(sparkline({nan, nan}, 10) == "");
  CHECK(sparkline({1}, 0) == "");
  CHECK(sparkline({big, nan, -big}, 10) == "█▁");
}

}  // namespace
}  // namespace mlk::ui
