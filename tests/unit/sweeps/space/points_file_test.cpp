#include "sweeps/space/points_file.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("sweeps/space/points_file");

using namespace mlk::sweeps;
using mlk::Problems;
using nlohmann::json;

namespace {

PointsFile points_of(const std::string& text, const std::string& name = "p.csv") {
  Problems problems;
  std::optional<PointsFile> file = read_points(text, name, problems);
  problems.throw_if_any();
  REQUIRE(file.has_value());
  CHECK(file->places.size() == file->points.size());
  return *file;
}

// The messages about mistakes in the file, or "" if there are none.
std::string points_mistakes(const std::string& text, const std::string& name = "p.csv") {
  Problems problems;
  const std::optional<PointsFile> file = read_points(text, name, problems);
  CHECK(file.has_value() == problems.empty());
  try {
    problems.throw_if_any();
  } catch (const mlk::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a table of points has the parameters on its first line, and a point on each other line") {
  const PointsFile file = points_of("train.optimizer.lr,train.optimizer.type\n0.1,sgd\r\n1e-3,adam");
  REQUIRE(file.points.size() == 2);
  CHECK(file.points[0] == Point{{"train.optimizer.lr", 0.1}, {"train.optimizer.type", "sgd"}});
  CHECK(file.points[1] == Point{{"train.optimizer.lr", 0.001}, {"train.optimizer.type", "adam"}});
  REQUIRE(file.columns.size() == 2);
  CHECK(file.columns[1].first == "train.optimizer.type");
  CHECK(file.columns[1].second.column == 19);
  CHECK(file.places[1].line == 2);
}

TEST_CASE("a value in a table has the same type as in an experiment file") {
  const PointsFile file = points_of(
      "whole,number,yes,text,list,map,quoted,version,huge\n"
      "3,.5,true,no,\"[128, 64]\",\"{staleness: 4}\",\"7\",1.2.3,1e999\n");
  CHECK(file.points[0] == Point{{"whole", 3},
                                {"number", 0.5},
                                {"yes", true},
                                {"text", "no"},
                                {"list", {128, 64}},
                                {"map", {{"staleness", 4}}},
                                {"quoted", 7},
                                {"version", "1.2.3"},
                                {"huge", "1e999"}});
  CHECK(file.points[0].at("whole").is_number_integer());
  CHECK(file.points[0].at("number").is_number_float());
}

TEST_CASE("an empty field leaves the parameter out, but a field with two quotes is an empty text") {
  const PointsFile file = points_of("a,b,c\n1,,null\n,\"\",2\n~,3,NULL\n");
  CHECK(file.points[0] == Point{{"a", 1}});
  CHECK(file.points[1] == Point{{"b", ""}, {"c", 2}});
  CHECK(file.points[2] == Point{{"b", 3}});
}

TEST_CASE("a table may have a byte order mark, quoted fields, blanks and empty lines") {
  const PointsFile file =
      points_of("\xEF\xBB\xBF\"lr\",\"type\"\r\n\"0.1\",\"sgd\"\r\n\r\n 0.2 , adam \r\n  \r\n");
  REQUIRE(file.points.size() == 2);
  CHECK(file.columns[0].first == "lr");
  CHECK(file.points[0] == Point{{"lr", 0.1}, {"type", "sgd"}});
  CHECK(file.points[1] == Point{{"lr", 0.2}, {"type", "adam"}});
  CHECK(points_of("lr\ttype\n0.1\ta, b\n", "P.TSV").points[0] == Point{{"lr", 0.1}, {"type", "a, b"}});
  CHECK(points_of("lr\n1\n2\n").points.size() == 2);
}

TEST_CASE("points may be written as JSON or YAML, where null leaves the parameter out") {
  const PointsFile file =
      points_of("[{\"lr\": 0.1, \"hidden\": [1]},\n {\"lr\": null, \"type\": \"7\"}]", "p.json");
  CHECK(file.points == std::vector<Point>{{{"lr", 0.1}, {"hidden", {1}}}, {{"type", "7"}}});
  CHECK(file.columns.size() == 3);
  CHECK(file.places[1].line == 1);
  CHECK(file.places[1].column == 1);
  for (const char* name : {"p.yaml", "p.yml"}) {
    const PointsFile yaml = points_of("- {lr: 0.1, hidden: [1]}\n- lr: ~\n  type: \"7\"\n", name);
    CHECK(yaml.points == file.points);
    CHECK(yaml.places[1].line == 1);
    REQUIRE(yaml.columns.size() == 3);
    CHECK(yaml.columns[2].first == "type");
    CHECK(yaml.columns[2].second.line == 2);
  }
}

TEST_CASE("a point in JSON has the right line and column, even if its strings contain brackets") {
  const PointsFile file =
      points_of("[\n{\"a\": \"},{\\\"[\", \"b\": [[1], {\"c\": 1}]},\n\n  {\"a\": 1}\n]\n", "p.json");
  REQUIRE(file.places.size() == 2);
  CHECK(file.places[0].line == 1);
  CHECK(file.places[1].line == 3);
  CHECK(file.places[1].column == 2);
}

TEST_CASE("a mistake in a file of points is reported with line and column") {
  const struct {
    const char *name, *text, *said;
  } cases[] = {
      {"p.csv", "a,b\n1,2\n1\n", "p.csv:3:2: this line has 1 fields, and the first one 2\n  1\n   ^"},
      {"p.csv", "a,b\n1,2,3\n", "p.csv:2:5: this line has 3 fields, and the first one 2\n  1,2,3\n      ^"},
      {"p.csv", "a,b,a\n1,2,3\n", "p.csv:1:5: 'a' is given twice; it is column 1 too\n  a,b,a\n      ^"},
      {"p.csv", "a,b\n1,2\n2,2\n1,2\n", "p.csv:4:1: the same point as in line 2"},
      {"p.csv", "a,b\n8,1e3\n8.0,1000\n", "p.csv:3:1: the same point as in line 2"},
      {"p.csv", "a,b\n1,\n1,null\n", "p.csv:3:1: the same point as in line 2"},
      {"p.csv", "a,b\n,\n", "p.csv:2:1: a point without a value"},
      {"p.csv", ",lr\n0,0.1\n", "p.csv:1:1: a parameter without a name; pandas writes none with"},
      {"p.csv", "lr;momentum\n1;2\n", "p.csv:1:1: the fields must be separated by commas, not by ';'"},
      {"p.csv", "a\n\"[1\"\n", "p.csv:2:1: not a list and not a map as in JSON or YAML"},
      {"p.csv", "a\n\"1\n", "p.csv:2:1: a quote is not closed"},
      {"p.csv", "a,b\n1,\xff\n", "p.csv:2:3: not UTF-8 text"},
      {"p.csv",
       "\xff\xfe"
       "a",
       "p.csv:1:1: not UTF-8 text"},
      {"p.csv", "a\n1\x1b\n", "p.csv:2:2: a control character"},
      {"p.csv", "a\r1\r2\r", "p.csv:1:2: a control character"},
      {"p.csv", "a,b\n", "p.csv:1:1: there are no points in this file"},
      {"p.csv", "", "p.csv:1:1: the file is empty"},
      {"p.tsv", " \n\n", "p.tsv:1:1: the file is empty"},
      {"p.json", "[]", "p.json:1:1: there are no points in this file"},
      {"p.json", " {\"a\": 1}", "p.json:1:2: a list of points is expected here"},
      {"p.json", "[{\"a\": 1},\n {\"a\": 1,}]",
       "p.json:2:10: this is not JSON\n   {\"a\": 1,}]\n           ^"},
      {"p.json", "[{\"a\": 1},\n 3]", "p.json:2:2: a point must be an object: {\"lr\": 0.1}"},
      {"p.json", "[{\"a\": 1}, {\"a\": 1}]", "p.json:1:12: the same point as in line 1"},
      {"p.json", "[{}]", "p.json:1:2: a point without a value"},
      {"p.json", "[{\"\": 1}]", "p.json:1:2: a parameter without a name"},
      {"p.yaml", "lr: 0.1\n", "p.yaml:1:1: a list of points is expected here, not a map"},
      {"p.yaml", "- 1\n", "p.yaml:1:3: a point must be a map, {lr: 0.1}, not '1'"},
      {"p.yaml", "- {a: [}\n", "p.yaml:1:"},
      {"p.yaml", "[]", "p.yaml:1:1: there are no points in this file"},
      {"p.txt", "a\n1\n", "p.txt:1:1: a file of points must end in .csv, .tsv, .json or .yaml"},
      {"csv", "a\n1\n", "csv:1:1: a file of points must end in"},
  };
  for (const auto& [name, text, said] : cases) {
    const std::string mistakes = points_mistakes(text, name);
    CHECK_MESSAGE(mistakes.starts_with(said), mistakes);
  }
}

TEST_CASE("several mistakes in one table of points are reported together") {
  const std::string said = points_mistakes("a,b\n1\n1,2\n1,2\n1,2,3\n");
  for (const char* place : {"p.csv:2:", "p.csv:4:", "p.csv:5:"})
    CHECK_MESSAGE(said.find(place) != std::string::npos, said);
}

TEST_CASE("a file of points is refused if it is too large or has too many points") {
  std::string table = "a\n";
  for (std::size_t i = 0; i < most_points; ++i) table += std::to_string(i) + "\n";
  CHECK(points_of(table).points.size() == most_points);
  CHECK(points_mistakes(table + "x\n").starts_with("p.csv:100002:1: more than 100000 points"));
  CHECK(points_mistakes(std::string(longest_points_file + 1, 'a')) == "p.csv:1:1: larger than 16 MiB");

  std::string yaml;
  for (int i = 0; i < 4000; ++i) yaml += "- {a: " + std::to_string(i) + "}\n";
  const std::string said = points_mistakes(yaml, "p.yaml");
  CHECK_MESSAGE(said.find("write more points as CSV") != std::string::npos, said);
  CHECK(points_mistakes(std::string(1 << 20, ' ') + "[a]", "p.yaml").find("as CSV") != std::string::npos);
  CHECK(points_mistakes(std::string(33, '[') + std::string(33, ']'), "p.json") ==
        "p.json:1:1: nested deeper than 32 levels\n  " + std::string(33, '[') + std::string(33, ']') +
            "\n  ^");
  CHECK(points_mistakes("a\n" + std::string(4096, 'x') + "\n")
            .starts_with("p.csv:2:1: a point of more than 4 KiB"));
  CHECK(points_mistakes(std::string(257, 'a') + "\n1\n").starts_with("p.csv:1:1: more than 256 parameters"));
  CHECK_FALSE(points_mistakes("a\n\"" + std::string(10000, '[') + "\"\n").empty());
}

TEST_CASE("a file of points is refused if it has more than 256 parameters") {
  std::string header = "p0", row = "0", object = "{\"p0\": 0";
  for (int i = 1; i < 256; ++i) {
    header += ",p" + std::to_string(i);
    row += ",";
    object += ", \"p" + std::to_string(i) + "\": null";
  }
  CHECK(points_of(header + "\n" + row + "\n").columns.size() == 256);
  CHECK(points_mistakes(header + ",more\n" + row + ",\n").find("more than 256 parameters") !=
        std::string::npos);
  const std::string list = "[" + object + "}, {\"p1\": 1, \"p255\": 2}]";
  CHECK(points_of(list, "p.json").columns.size() == 256);
  CHECK_FALSE(points_mistakes("[" + object + ", \"q\": 1}]", "p.json").empty());
}

TEST_CASE("a file of points is recognised by the ending of its name") {
  for (const char* name : {"a.csv", "b/c.TSV", "x.y.json", "a.yaml", "a.yml"}) CHECK(is_points_file(name));
  for (const char* name : {"", "csv", "a.csv.gz", "a.", "a.txt"}) CHECK_FALSE(is_points_file(name));
}

TEST_CASE("a field of a table may contain tabs, or a list as in YAML") {
  CHECK(points_of("a,b\n1,\tx\r\n").points[0] == Point{{"a", 1}, {"b", "x"}});
  CHECK(points_of("a\n\"{b: [1, x]}\"\n").points[0] == Point{{"a", {{"b", {1, "x"}}}}});
  CHECK(points_mistakes("a\n1\x7f\n").empty());
  CHECK(points_mistakes("a\n\"{b: \"\n") ==
        "p.csv:2:1: not a list and not a map as in JSON or YAML\n  \"{b: \"\n  ^");
  CHECK(points_of("a;b,c\n1,2\n").columns[0].first == "a;b");
}

TEST_CASE("a number in CSV or YAML keeps its spelling, but a number in JSON does not") {
  CHECK(points_of("a,b\n3.10,x\n1e3,7\n").written.at("a") == Spellings{{3.1, "3.10"}, {1000, "1e3"}});
  CHECK(points_of("- {a: 3.10}\n", "p.yaml").written.at("a") == Spellings{{3.1, "3.10"}});
  CHECK(points_of("[{\"a\": 3.10}]", "p.json").written.empty());
}

TEST_CASE("a point is refused if it has more than 4 KiB or no value") {
  CHECK(points_of(std::string(256, 'a') + "\n1\n").columns.size() == 1);
  CHECK(points_of("a\n" + std::string(4096 - 8, 'x') + "\n").points.size() == 1);
  CHECK(points_mistakes("a\n" + std::string(4096 - 7, 'x') + "\n").find("a point of more than 4 KiB") !=
        std::string::npos);
  CHECK(points_mistakes("[{\"a\": null}]", "p.json").starts_with("p.json:1:2: a point without a value"));
  CHECK(points_mistakes("- {a: ~}\n", "p.yaml").starts_with("p.yaml:1:3: a point without a value"));
  CHECK(points_mistakes("a,\n1,2\n").starts_with("p.csv:1:3: a parameter without a name"));
}
