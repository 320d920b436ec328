#include "sweeps/space/ledger.h"

#include <algorithm>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include "cli/util/json.h"

TEST_SUITE_BEGIN("sweeps/space/ledger");

using namespace mlk::sweeps;
using nlohmann::json;

namespace {

Trial ledger_trial() {
  Trial trial;
  trial.number = 3;
  trial.point = {{"train.optimizer.lr", 0.1}, {"train.model.hidden", {128, 64}}, {"name", "ä\"\n"}};
  trial.hash = hash_of(trial.point);
  trial.state = TrialState::failed;
  trial.tries = 2;
  trial.step = 500;
  trial.metrics = {{"loss", 0.2}, {"slowest", "worker/1"}, {"world", 2}};
  trial.objective = 1.0 / 3;
  trial.curve = {{100, 0.9}, {500, 0.2}};
  trial.failure = "worker/0: exit code 1";
  trial.started = mlk::parse_time("2026-11-23T10:00:00.123456Z");
  trial.ended = mlk::parse_time("2026-11-23T10:05:00Z");
  return trial;
}

Trial ledger_read(const std::string& line) {
  const std::optional<Trial> trial = from_line(line);
  REQUIRE_MESSAGE(trial.has_value(), line);
  return *trial;
}

}  // namespace

TEST_CASE("to_line() writes a trial on one line, and from_line() returns the same trial for this line") {
  const Trial trial = ledger_trial();
  const std::string line = to_line(trial);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(ledger_read(line) == trial);
  Trial empty;
  empty.hash = hash_of({});
  CHECK(ledger_read(to_line(empty)) == empty);
}

TEST_CASE("to_line() writes a trial with one-letter keys in alphabetical order") {
  CHECK(
      to_line(ledger_trial()) ==
      R"({"a":"2026-11-23T10:00:00.123456Z","c":[[100,0.9],[500,0.2]],"e":"2026-11-23T10:05:00.000000Z",)"
      R"("f":"worker/0: exit code 1","i":500,"m":{"loss":0.2,"slowest":"worker/1","world":2},"n":3,)"
      R"("o":0.3333333333333333,"p":{"name":"ä\"\n","train.model.hidden":[128,64],"train.optimizer.lr":0.1},)"
      R"("s":"Failed","t":2})");
  CHECK(to_line(Trial{}) == R"({"i":0,"n":0,"p":{},"s":"Waiting","t":0})");
}

TEST_CASE("to_line() writes each number so that from_line() reads exactly this number") {
  for (const double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.0, 1e22}) {
    Trial trial;
    trial.point = {{"lr", value}};
    trial.objective = value;
    trial.curve = {{1, value}};
    const Trial read = ledger_read(to_line(trial));
    CHECK(read.objective == value);
    CHECK(read.curve == trial.curve);
    CHECK(read.hash == hash_of(trial.point));
  }
}

TEST_CASE("from_line() returns nothing for an invalid line") {
  CHECK(from_line(R"({"n":0,"p":{},"s":"Waiting"})").has_value());
  for (const char* line :
       {"", "{", "null", "[]", "3", R"({"p":{},"s":"Waiting"})", R"({"n":-1,"p":{},"s":"Waiting"})",
        R"({"n":1.5,"p":{},"s":"Waiting"})", R"({"n":2147483648,"p":{},"s":"Waiting"})",
        R"({"n":18446744073709551615,"p":{},"s":"Waiting"})", R"({"n":"1","p":{},"s":"Waiting"})",
        R"({"n":0,"s":"Waiting"})", R"({"n":0,"p":[],"s":"Waiting"})", R"({"n":0,"p":{},"s":"waiting"})",
        R"({"n":0,"p":{},"s":1})", R"({"n":0,"p":{}})", R"({"n":0,"p":{},"s":"Waiting"} x)",
        "{\"n\":0,\"p\":{\"a\":\"\xff\"},\"s\":\"Waiting\"}"})
    CHECK_MESSAGE(!from_line(line).has_value(), line);
  const std::string deep(100, '['), close(100, ']');
  CHECK_FALSE(from_line(R"({"n":0,"p":{"a":)" + deep + close + R"(},"s":"Waiting"})").has_value());
}

TEST_CASE("from_line() ignores unknown keys, and values of a wrong type") {
  const Trial trial = ledger_read(
      R"({"n":1,"p":{"a":null},"s":"Running","t":"2","i":-5,"m":[1],"o":"0.5","c":{"1":2},"f":["x"],)"
      R"("a":"yesterday","e":17,"x":{"y":1}})");
  CHECK(to_line(trial) == R"({"i":0,"n":1,"p":{"a":null},"s":"Running","t":0})");
  const Trial parts =
      ledger_read(R"({"n":1,"p":{},"s":"Running","m":{"a":1,"b":[1],"c":"w","d":null,"e":true},)"
                  R"("c":[[1,2],[1],[2,"3"],["4",5],[-1,2],[1.5,2],[7,8],9,null]})");
  CHECK(parts.metrics == json{{"a", 1}, {"c", "w"}, {"e", true}});
  CHECK(parts.curve == std::vector<std::pair<std::int64_t, double>>{{1, 2}, {7, 8}});
}

TEST_CASE("the ledger stores a failure as one printable line of at most 300 bytes") {
  Trial trial;
  trial.failure = "a\nb\tc\x1b[1m\xff" + std::string(400, 'x');
  const Trial read = ledger_read(to_line(trial));
  CHECK(read.failure == "a b c?[1m?" + std::string(290, 'x'));
  CHECK(ledger_read(R"({"n":0,"p":{},"s":"Failed","f":"a\nb\u001b"})").failure == "a b?");
  trial.failure = std::string(299, 'x') + "ä";
  CHECK(ledger_read(to_line(trial)).failure == std::string(299, 'x'));
}

TEST_CASE("to_line() reduces a long curve to 64 points, and keeps the first and the last") {
  Trial trial;
  for (int i = 0; i < 1000; ++i) trial.curve.emplace_back(i, i);
  const Trial read = ledger_read(to_line(trial));
  CHECK(read.curve.size() == 64);
  CHECK(read.curve.front().first == 0);
  CHECK(read.curve.back().first == 999);
  CHECK(std::is_sorted(read.curve.begin(), read.curve.end()));
  trial.curve.resize(64);
  CHECK(ledger_read(to_line(trial)).curve == trial.curve);
}

TEST_CASE("to_line() writes nan and inf in metrics as words, and leaves out such numbers elsewhere") {
  const double bad = std::numeric_limits<double>::quiet_NaN();
  Trial trial;
  trial.objective = bad;
  trial.metrics = {{"a", bad}, {"b", HUGE_VAL}, {"c", 1}};
  trial.curve = {{1, bad}, {2, 3.0}};
  const Trial read = ledger_read(to_line(trial));
  CHECK_FALSE(read.objective.has_value());
  CHECK(read.metrics == json{{"a", "nan"}, {"b", "inf"}, {"c", 1}});
  CHECK(read.curve == std::vector<std::pair<std::int64_t, double>>{{2, 3.0}});
}

TEST_CASE("the largest trial fits into one line, and 64 lines of the largest size fit into one shard") {
  Trial trial;
  trial.number = std::numeric_limits<int>::max();
  std::string value = "\"";
  while (mlk::json_text(json(Point{{"a", value + "\""}})).size() <= longest_point) value += '"';
  trial.point = {{"a", value}};
  trial.state = TrialState::succeeded;
  trial.tries = 1'000'000;
  trial.step = 999'999'999'999'999;
  for (int i = 0; i < 1000; ++i) trial.metrics["metric\x1b" + std::to_string(i)] = -1.7976931348623157e308;
  trial.objective = -1.7976931348623157e308;
  for (int i = 0; i < 64; ++i) trial.curve.emplace_back(999'999'999'999'999, -1.7976931348623157e308);
  trial.failure = std::string(300, '\\');
  trial.started = trial.ended = mlk::parse_time("2026-11-23T10:00:00.123456Z");
  const std::string line = to_line(trial);
  CHECK(line.size() > longest_line - 3 * 1024);  // less than 3 KiB is unused
  CHECK(line.size() <= longest_line);
  const Trial read = ledger_read(line);
  CHECK(to_line(read) == line);
  CHECK(read.point == trial.point);
  CHECK(read.metrics.size() > 50);
  CHECK(mlk::json_text(read.metrics).size() <= longest_metrics);
  CHECK(lines_per_shard == 64);
  CHECK(lines_per_shard * (longest_line + 1) <= longest_shard);
}

TEST_CASE("from_line() returns nothing if the point is too long") {
  Trial trial;
  trial.point = {{"a", std::string(longest_point - 8, 'x')}};
  CHECK(from_line(to_line(trial)).has_value());
  trial.point = {{"a", std::string(longest_point - 7, 'x')}};
  CHECK_FALSE(from_line(to_line(trial)).has_value());
}

TEST_CASE("for a damaged line, from_line() returns nothing, or a trial that to_line() can write again") {
  std::mt19937 random(1);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string line = to_line(ledger_trial());
    for (int changes = 0; changes < 1 + round % 3; ++changes)
      line[below(line.size())] = static_cast<char>(32 + below(96));
    const std::optional<Trial> trial = from_line(line);
    if (!trial) continue;
    ++read;
    const std::string written = to_line(*trial);
    CHECK(to_line(ledger_read(written)) == written);
  }
  CHECK(read > 100);
}

TEST_CASE("from_shard() reads a trial from each valid line, and skips the other lines") {
  Trial first, second;
  second.number = 1;
  const std::string text = to_line(first) + "\n\nnonsense\n" + to_line(second) + "\n";
  const std::vector<Trial> trials = from_shard(text);
  REQUIRE(trials.size() == 2);
  CHECK(trials[0].number == 0);
  CHECK(trials[1].number == 1);
  CHECK(from_shard("").empty());
  CHECK(from_shard(to_line(first)).size() == 1);
}

TEST_CASE("to_line() limits numbers to their bounds, and from_line() ignores numbers beyond these bounds") {
  Trial trial;
  trial.number = -1;
  trial.tries = 1'000'001;
  trial.step = 1'000'000'000'000'000;
  CHECK(to_line(trial) == R"({"i":999999999999999,"n":0,"p":{},"s":"Waiting","t":1000000})");
  trial.tries = trial.number = -1;
  trial.step = -1;
  CHECK(to_line(trial) == R"({"i":0,"n":0,"p":{},"s":"Waiting","t":0})");
  const Trial most = ledger_read(R"({"i":999999999999999,"n":2147483647,"p":{},"s":"Waiting","t":1000000})");
  CHECK(most.step == 999'999'999'999'999);
  CHECK(most.tries == 1'000'000);
  const Trial more = ledger_read(R"({"i":1000000000000000,"n":0,"p":{},"s":"Waiting","t":1000001})");
  CHECK(more.step == 0);
  CHECK(more.tries == 0);
}
