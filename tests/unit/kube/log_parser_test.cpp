#include "cli/kube/log_parser.h"

#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "cli/util/time.h"

TEST_SUITE_BEGIN("kube/log_parser");

namespace mlk::kube {
namespace {

using ParsedKind = LogParser::Kind;
using std::chrono::seconds;

const Time asked_at = parse_time("2026-11-21T07:40:00Z").value();
const std::string timed_line = "2026-11-21T07:39:30Z text";

TEST_CASE("parse() treats a line without a time as a kubelet's sentence if no start time was requested") {
  LogParser parser;
  parser.open({.tail_lines = 3}, asked_at);
  CHECK(parser.parse("46%").kind == ParsedKind::sentence);
  const LogParser::Parsed parsed = parser.parse(timed_line);
  CHECK(parsed.kind == ParsedKind::line);
  CHECK(parsed.line.text == "text");
  CHECK(parser.parse("").kind == ParsedKind::nothing);
}

TEST_CASE("parse() returns the end of an earlier line once, and gives it the requested start time") {
  LogParser parser;
  parser.open({.since = seconds(60)}, asked_at);
  const LogParser::Parsed rest = parser.parse("45%\r46%");
  CHECK(rest.kind == ParsedKind::rest);
  CHECK(rest.line.text == "46%");
  CHECK(rest.line.time == asked_at - seconds(60));
  CHECK(parser.parse("47%").kind == ParsedKind::sentence);  // only the first line can be a rest
  parser.open({.since = seconds(60)}, asked_at);
  CHECK(parser.parse("46%").kind == ParsedKind::nothing);
  parser.open({.since = seconds(60)}, asked_at);
  CHECK(parser.parse(timed_line).kind == ParsedKind::line);
  CHECK(parser.parse("46%").kind == ParsedKind::sentence);
}

TEST_CASE("parse() leaves out the end of a line if the whole line was shown before") {
  LogParser parser;
  parser.open({.since = seconds(60), .from = asked_at}, asked_at);
  CHECK(parser.parse("46%").kind == ParsedKind::nothing);
  CHECK(parser.parse("47%").kind == ParsedKind::sentence);
}

TEST_CASE(
    "parse() recognises a kubelet's sentence at the beginning of an answer by the words of the sentence") {
  for (const char* said :
       {"failed to create fsnotify watcher: too many open files",
        "unable to retrieve container logs for containerd://1", "inotify_init: too many open files"}) {
    CAPTURE(said);
    LogParser parser;
    parser.open({.since = seconds(60)}, asked_at);
    CHECK(parser.parse(said).kind == ParsedKind::sentence);
    parser.open({.from = asked_at}, asked_at);
    CHECK(parser.parse(said).kind == ParsedKind::sentence);
  }
}

}  // namespace
}  // namespace mlk::kube
