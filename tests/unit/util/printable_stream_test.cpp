#include "cli/util/printable_stream.h"

#include <sstream>
#include <string>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("util/printable_stream");

namespace {

using mlk::PrintableStream;

std::string through(const std::string& text, PrintableStream::Sequences allowed) {
  std::ostringstream out;
  {
    const PrintableStream door(out, [allowed] { return allowed; });
    out << text;
  }
  return out.str();
}

// Accepts no bytes, like a full disk.
class Full : public std::streambuf {};

}  // namespace

TEST_CASE("PrintableStream makes all text printable") {
  CHECK(through("plain\tgr\u00fcn\n", {}) == "plain\tgr\u00fcn\n");
  CHECK(through("\x1b]0;title\x07 \u009b2J \x9b \u202e", {.colors = true, .live_line = true}) ==
        "?]0;title? ?2J ? ?");
  CHECK(through("\x1b[31mred\x1b[0m\r\x1b[Kx", {}) == "?[31mred?[0m??[Kx");
}

TEST_CASE("PrintableStream passes only the control sequences that its `Sequences` allow") {
  const std::string own = "\r\x1b[K\x1b[1;31mred\x1b[0m";
  CHECK(through(own, {.colors = true, .live_line = true}) == own);
  CHECK(through(own, {.colors = false, .live_line = true}) == "\r\x1b[K?[1;31mred?[0m");
  CHECK(through("a\rb\x1b[2K", {.colors = true, .live_line = true}) == "a?b?[2K");
}

TEST_CASE("PrintableStream changes no byte while `all_bytes` is set") {
  std::ostringstream out;
  {
    bool all_bytes = false;
    const PrintableStream door(out, [&] { return PrintableStream::Sequences{.all_bytes = all_bytes}; });
    out << "a\r" << std::flush;
    all_bytes = true;
    out << "b\r\f\xff" << std::flush;
    all_bytes = false;
    out << "c\r";
  }
  CHECK(out.str() ==
        "a?b\r\f\xff"
        "c?");
}

TEST_CASE("a character or sequence that is written in pieces is checked as a whole") {
  std::ostringstream out;
  std::string text, expected;
  for (int i = 0; i < 30'000; ++i) {
    text += "\u2588\x1b[31mx\u009b";
    expected += "\u2588\x1b[31mx?";
  }
  {
    const PrintableStream door(out, [] { return PrintableStream::Sequences{.colors = true}; });
    for (const char c : text) out.put(c);
  }
  const bool same = out.str() == expected;
  CHECK(same);
}

TEST_CASE("a stream still reports that its target is full, even after its PrintableStream is destroyed") {
  Full full;
  std::ostream out(&full);
  {
    const PrintableStream door(out, [] { return PrintableStream::Sequences(); });
    out << "text";
    CHECK(out);
    out.flush();
    CHECK_FALSE(out);
  }
  CHECK_FALSE(out);
}
