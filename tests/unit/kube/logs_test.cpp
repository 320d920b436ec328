#include "cli/kube/logs.h"

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "tests/unit/kube/log_server.h"

TEST_SUITE_BEGIN("kube/logs");

using namespace mlk::kube;

TEST_CASE("at_limit() tells whether a stream ends after a line, ends within a line or goes on") {
  CHECK(at_limit(0, 100) == AtLimit::goes_on);
  CHECK(at_limit(100, 99) == AtLimit::goes_on);
  CHECK(at_limit(100, 100) == AtLimit::ends_after);
  CHECK(at_limit(100, 101) == AtLimit::ends_within);
  CHECK(at_limit(100, 102) == AtLimit::goes_on);
}

TEST_CASE("parse_log_line() splits a line into a time and a text") {
  const auto line = parse_log_line("2026-11-21T07:40:25.000000001Z  two  blanks ");
  REQUIRE(line);
  CHECK(line->text == " two  blanks ");
  CHECK(mlk::format_time(line->time) == "2026-11-21T07:40:25Z");
  CHECK(parse_log_line("2026-11-21T07:40:25Z ")->text.empty());
  const auto elsewhere =
      parse_log_line("2026-11-21T08:40:25.000000001+01:00 by a node with a zone of its own");
  REQUIRE(elsewhere);
  CHECK(elsewhere->time == line->time);
  CHECK(elsewhere->text == "by a node with a zone of its own");
  CHECK_FALSE(parse_log_line("plain text"));
  CHECK_FALSE(parse_log_line(""));
}

TEST_CASE("parse_log() returns the last state of a line that rewrites itself, such as a progress bar") {
  const std::string stamp = "2026-11-21T07:40:25Z ";
  const auto lines =
      parse_log(stamp + "1%\r2%\rmlk step=3\n" + stamp + "\033[31mnext\033[K\nno time\rat all");
  REQUIRE(lines.size() == 2);  // a line without a time does not come from the program
  CHECK(lines[0].text == "mlk step=3");
  CHECK(lines[1].text == "\033[31mnext\033[0m");
}

TEST_CASE("after a reconnect, LogPosition skips the known lines of the last second") {
  LogPosition position;
  const auto take = [&](const std::string& text) {
    auto line = parse_log_line("2026-11-21T07:40:" + text);
    return position.admit(*line);
  };
  CHECK_FALSE(position.since());
  CHECK(take("01.1Z a"));
  CHECK(take("02.1Z b"));
  CHECK(take("02.2Z c"));
  position.resume();
  CHECK(mlk::format_time(*position.since()) == "2026-11-21T07:40:02Z");
  CHECK_FALSE(take("02.1Z b"));
  CHECK_FALSE(take("02.2Z c"));
  CHECK(take("02.3Z d"));
  position.resume();
  CHECK_FALSE(take("02.1Z b"));
  CHECK(take("05.0Z e"));  // the log was rotated meanwhile: no new line is skipped
  CHECK(take("05.1Z f"));
}

TEST_CASE("if a stream breaks again before all known lines have come, no line is repeated or lost") {
  LogPosition position;
  const auto take = [&](const std::string& text) {
    return position.admit(*parse_log_line("2026-11-21T07:40:" + text));
  };
  CHECK(take("02.1Z a"));
  CHECK(take("02.2Z b"));
  position.resume();
  CHECK_FALSE(take("02.1Z a"));
  position.resume();
  CHECK_FALSE(take("02.1Z a"));
  CHECK_FALSE(take("02.2Z b"));
  CHECK(take("02.3Z c"));
}

TEST_CASE(
    "after a reconnect, LogPosition skips lines before the requested tail, even lines of the same second") {
  LogPosition position;
  const auto take = [&](const std::string& text) {
    return position.admit(*parse_log_line("2026-11-21T07:40:" + text));
  };
  CHECK(take("02.8Z h"));
  CHECK(take("02.9Z i"));
  position.resume();
  for (int tenth = 1; tenth <= 9; ++tenth) CHECK_FALSE(take("02." + std::to_string(tenth) + "Z x"));
  CHECK(take("02.95Z j"));
  CHECK(take("03.0Z k"));
  CHECK(take("02.1Z set back"));  // the node's clock was set back
  CHECK_FALSE(position.was_cut());
}

TEST_CASE("LogPosition neither repeats nor loses a line after a reconnect if the node's clock was set back") {
  LogPosition position;
  const auto take = [&](const std::string& text) {
    auto line = parse_log_line("2026-11-21T07:40:" + text);
    return position.admit(*line);
  };
  for (const char* line : {"03.1Z a", "04.1Z b", "05.1Z c", "05.2Z d", "04.2Z e"}) CHECK(take(line));
  position.resume();
  CHECK(mlk::format_time(*position.since()) == "2026-11-21T07:40:04Z");
  for (const char* line : {"04.1Z b", "05.1Z c", "05.2Z d", "04.2Z e"}) CHECK_FALSE(take(line));
  CHECK(take("04.3Z f"));
  CHECK(take("05.3Z g"));
  position.resume();
  CHECK_FALSE(take("05.1Z c"));
  CHECK_FALSE(take("05.2Z d"));
  CHECK_FALSE(take("05.3Z g"));
  CHECK(take("05.4Z h"));
}

TEST_CASE("a log request sends all options, and parse_log() returns the lines with a time") {
  LogServer logs;
  logs.answers = {{stamp("01", "one") + stamp("02", "") + "without a time\n" + stamp("03", "last")}};
  Client client(logs.start());
  const LogOptions options{.container = "main", .tail_lines = 5, .previous = true, .limit_bytes = 99};
  const auto lines = parse_log(client.send(log_request("n", "p", options)).body);
  REQUIRE(lines.size() == 3);  // a line without a time comes from the kubelet
  CHECK(lines[0].text == "one");
  CHECK(lines[1].text.empty());
  CHECK(lines[2].text == "last");
  CHECK(logs.seen()[0] == "timestamps=true&container=main&tailLines=5&previous=true&limitBytes=99");
}

TEST_CASE("a log request has a limit of 1 MiB per line, and other requests have no such limit") {
  CHECK(log_request("n", "p", {}).longest_line == std::size_t{1} << 20);
  CHECK(Request().longest_line == 0);
}

TEST_CASE("the error for a missing log leaves out the URL, which differs between the pods of a node") {
  const auto said = [](int status, const std::string& message) {
    const std::string body = json({{"kind", "Status"}, {"message", message}}).dump();
    return std::string(log_error({status, "", body}, Config()).what());
  };
  CHECK(said(500, R"(Get "https://10.0.0.1:10250/containerLogs/n/p/main?follow=true": dial tcp: refused)") ==
        "dial tcp: refused");
  CHECK(said(404, R"(pods "p" not found)") == "deleted with the pod");
  CHECK(said(404, R"(nodes "n1" not found)") == R"(nodes "n1" not found)");
  CHECK(said(404, "the server could not find the requested resource ( pods/log p)") ==
        "the node does not know the pod");
  CHECK(std::string(log_error({0, "it broke", ""}, Config()).what()) == "it broke");
}

TEST_CASE("pod_is_gone() is true for a 404 of the API server about the pod") {
  const auto gone = [](int status, const std::string& message) {
    return pod_is_gone({status, "", json({{"kind", "Status"}, {"message", message}}).dump()});
  };
  CHECK(gone(404, R"(pods "p" not found)"));
  CHECK_FALSE(gone(500, R"(pods "p" not found)"));
  CHECK_FALSE(gone(404, "the server could not find the requested resource ( pods/log p)"));
  CHECK_FALSE(gone(404, R"(nodes "n1" not found)"));
  CHECK_FALSE(pod_is_gone({404, "", "404 page not found"}));
  CHECK_FALSE(pod_is_gone({0, "pods are away", ""}));
}

TEST_CASE("mlk recognises a kubelet's message, and shows its meaning in one line of bounded length") {
  const std::string lacking = "it is out of inotify instances, so its logs are asked for again and again";
  CHECK(kubelet_said("failed to create fsnotify watcher: x") == lacking);
  CHECK(kubelet_said("inotify_init: too many open files") == lacking);
  CHECK(kubelet_said("inotify is fine") == "it says of the log: inotify is fine");
  CHECK(kubelet_said("too many words") == "it says of the log: too many words");
  CHECK(kubelet_said("a\x1b[1m") == "it says of the log: a?[1m");
  CHECK(kubelet_said(std::string(301, 'x')) == "it says of the log: " + std::string(300, 'x'));
  CHECK(is_by_kubelet("failed to create fsnotify watcher: x"));
  CHECK(is_by_kubelet("inotify_init: too many open files"));
  CHECK(is_by_kubelet("unable to retrieve container logs for containerd://1"));
  CHECK_FALSE(is_by_kubelet("it failed to run"));
  CHECK_FALSE(is_by_kubelet("too many words"));
  CHECK(lacks_inotify("too many inotify instances"));
  CHECK_FALSE(lacks_inotify("too many open files"));
  CHECK_FALSE(lacks_inotify("inotify has many instances"));
  CHECK(rotated("p") == "it has rotated the log of p: lines may be missing");
}

TEST_CASE("log_error() keeps the status and the message of an answer, but removes a complete URL") {
  const auto error = [](int status, const std::string& message) {
    const std::string body = json({{"kind", "Status"}, {"message", message}}).dump();
    return log_error({status, "", body}, Config());
  };
  CHECK(error(404, R"(pods "p" not found)").status() == 404);
  CHECK(std::string(error(400, R"(pods "p" are odd)").what()) == R"(pods "p" are odd)");
  CHECK(std::string(error(500, R"(Get "http://n1:10250/x": EOF)").what()) == "EOF");
  CHECK(std::string(error(500, R"(it said: Get "https://n1:10250/x": EOF)").what()) == "it said: EOF");
  CHECK(std::string(error(500, R"(Get "https://n1:10250/x without an end)").what()) ==
        R"(Get "https://n1:10250/x without an end)");
  const ApiError broken = log_error({0, "it broke", "body"}, Config());
  CHECK(broken.reason() == "Unreachable");
  CHECK(broken.status() == 0);
}

TEST_CASE("was_cut() is false for a complete log, and stays true after a loss of lines") {
  LogPosition position;
  const auto take = [&](const std::string& text) {
    return position.admit(*parse_log_line("2026-11-21T07:40:" + text));
  };
  CHECK(take("01.1Z a"));
  CHECK(take("01.2Z b"));
  position.resume();
  CHECK_FALSE(take("01.1Z a"));
  CHECK_FALSE(take("01.2Z b"));
  CHECK(take("01.3Z c"));
  CHECK_FALSE(position.was_cut());
  position.resume();
  CHECK(take("02.0Z d"));
  CHECK(position.was_cut());
  LogPosition fresh;
  fresh.resume();
  CHECK(fresh.admit(*parse_log_line("2026-11-21T07:40:01Z a")));
  CHECK_FALSE(fresh.was_cut());
}
