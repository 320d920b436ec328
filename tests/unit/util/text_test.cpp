#include "cli/util/text.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("util/text");

using mlk::nearest;
using Parts = std::vector<std::string>;

TEST_CASE("replaced() puts a text in the place of each listed character, and keeps the other characters") {
  CHECK(mlk::replaced("a<b\n<c", {{'<', "&lt;"}, {'\n', " "}}) == "a&lt;b &lt;c");
  CHECK(mlk::replaced("\\'", {{'\\', "\\\\"}}) == "\\\\'");
  CHECK(mlk::replaced("", {{'a', "b"}}).empty());
}

TEST_CASE("split() splits a text at every separator, and join() joins the parts again") {
  CHECK(mlk::split("a,b", ',') == Parts{"a", "b"});
  CHECK(mlk::split("a,,b", ',') == Parts{"a", "", "b"});
  CHECK(mlk::split(",", ',') == Parts{"", ""});
  CHECK(mlk::split("", ',').empty());
  CHECK(mlk::join({"a", "b", "c"}, ", ") == "a, b, c");
  CHECK(mlk::join({}, ", ").empty());
  CHECK(mlk::join({"", ""}, ",") == ",");
}

TEST_CASE("trim() removes blanks at both ends and keeps inner blanks") {
  CHECK(mlk::trim("  a b\r\n") == "a b");
  CHECK(mlk::trim("\t\n ").empty());
  CHECK(mlk::trim("").empty());
}

TEST_CASE("is_label() accepts at most 63 lower-case letters, digits and inner hyphens") {
  for (const char* good : {"a", "0", "team-a", "0-0"}) CHECK(mlk::is_label(good));
  for (const char* bad : {"", "-", "a-", "-a", "A", "a b", "a.b", "a/b", "ä"})
    CHECK_FALSE(mlk::is_label(bad));
  CHECK(mlk::is_label(std::string(63, 'a')));
  CHECK_FALSE(mlk::is_label(std::string(64, 'a')));
}

TEST_CASE("nearest() finds a candidate that differs by a typing mistake") {
  const Parts words{"workers", "servers", "restart", "image"};
  CHECK(nearest("wrokers", words) == "workers");
  CHECK(nearest("sevrers", words) == "servers");
  CHECK(nearest("imag", words) == "image");
  CHECK(nearest("completely", words).empty());
  CHECK(nearest("", words).empty());
  CHECK(nearest(std::string(100, 'x'), words).empty());
  CHECK(nearest("xyz", {"abc"}).empty());  // short words allow fewer differences
}

TEST_CASE("cut() cuts a text only between characters") {
  CHECK(mlk::cut("abc", 3) == "abc");
  CHECK(mlk::cut("abc", 2) == "ab");
  CHECK(mlk::cut("a\xe2\x96\x88z", 4) == "a\xe2\x96\x88");
  CHECK(mlk::cut("a\xe2\x96\x88z", 3) == "a");
  CHECK(mlk::cut("\xe2\x96\x88", 2).empty());
  CHECK(mlk::cut("\x80\x80\x80", 1).empty());  // no characters at all
}

TEST_CASE("printable() replaces control characters other than newline and tab") {
  CHECK(mlk::printable("a\x1b[31mb\tc\nd\x7f") == "a?[31mb\tc\nd?");
  CHECK(mlk::printable("grün") == "grün");
}

TEST_CASE("shell_word() quotes a word that the shell would split or change") {
  CHECK(mlk::shell_word("/home/me/.kube/config") == "/home/me/.kube/config");
  CHECK(mlk::shell_word("") == "''");
  CHECK(mlk::shell_word("kube config") == "'kube config'");
  CHECK(mlk::shell_word("it's $HOME") == "'it'\\''s $HOME'");
  CHECK(mlk::shell_word("~me") == "'~me'");
  CHECK(mlk::shell_word("größe") == "größe");
}

TEST_CASE("printable() replaces 8-bit controls, bidirectional controls and bytes that form no character") {
  CHECK(mlk::printable("a\u009b31mb") == "a?31mb");
  CHECK(mlk::printable("a\x9b"
                       "31mb") == "a?31mb");
  for (const char* control :
       {"\u0080", "\u0085", "\u009f", "\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b",
        "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"}) {
    CHECK(mlk::printable(control) == "?");
  }
  CHECK(mlk::printable("\xff\xc3.") == "??.");
  CHECK(mlk::printable("\xe2\x96") == "??");       // the start of a character
  CHECK(mlk::printable("\xe0\x82\x9b") == "???");  // U+009B in three bytes
  CHECK(mlk::printable("\u00a0\u2027\u202f\u2065\U0001f600") == "\u00a0\u2027\u202f\u2065\U0001f600");
}

TEST_CASE("join_or() puts commas between choices, and `or` before the last choice") {
  CHECK(mlk::join_or({}) == "");
  CHECK(mlk::join_or({"a"}) == "a");
  CHECK(mlk::join_or({"a", "b"}) == "a or b");
  CHECK(mlk::join_or({"a", "b", "c"}) == "a, b or c");
}

TEST_CASE("percent_decode() replaces % and two hex digits by a byte, and keeps any other %") {
  CHECK(mlk::percent_decode("a%3Db%2c%21") == "a=b,!");
  CHECK(mlk::percent_decode("%C3%bc%00") == std::string("\xc3\xbc\0", 3));
  for (const std::string same : {"", "%", "%4", "100%", "%4g", "%g4", "%-1", "% 1", "%%%"})
    CHECK(mlk::percent_decode(same) == same);
  CHECK(mlk::percent_decode("%%41%2541") == "%A%41");
}
