#include "sweeps/space/points_file.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/experiment/values.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "cli/util/unicode.h"
#include "cli/yaml/yaml.h"
#include "sweeps/space/csv.h"
#include "sweeps/space/ledger.h"
#include "sweeps/space/names.h"

namespace mlk::sweeps {
namespace {

using json = nlohmann::json;

constexpr std::size_t most_columns = 256;
constexpr std::size_t longest_column = 256;     // bytes of its name
constexpr std::size_t many_yaml_values = 3000;  // the YAML parser may refuse more: its limit also counts keys

enum class PointsFormat { csv, tsv, json_list, yaml_list };

std::optional<PointsFormat> points_format(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string ending = lower_case(std::string(name.substr(dot + 1)));
  if (ending == "csv") return PointsFormat::csv;
  if (ending == "tsv") return PointsFormat::tsv;
  if (ending == "json") return PointsFormat::json_list;
  if (ending == "yaml" || ending == "yml") return PointsFormat::yaml_list;
  return std::nullopt;
}

// Collects the points of a file in any format, and reports invalid points.
class PointsBuilder {
 public:
  explicit PointsBuilder(Problems& problems) : problems_(problems) {}

  void add_column(const std::string& name, const Place& place) {
    if (columns_.contains(name)) return;
    if (name.empty()) {
      problems_.add(place, "a parameter without a name; pandas writes none with to_csv(index=False)");
    } else if (name.size() > longest_column || file_.columns.size() == most_columns) {
      problems_.add(place, fmt::format("more than {} parameters, or a name of more than {} bytes",
                                       most_columns, longest_column));
    } else {
      columns_.insert(name);
      file_.columns.emplace_back(name, place);
    }
  }

  bool has_column(const std::string& name) const { return columns_.contains(name); }

  void note_place(const std::string& column, const json& value, const Place& place) {
    file_.values[column].try_emplace(value, place);
  }

  // Stores the text and the place of a plain scalar of a column.
  void note_text(const std::string& column, const json& value, const std::string& written,
                 const Place& place) {
    note_spelling(value, written, file_.written[column]);
    note_place(column, value, place);
  }

  // Returns false if there is no room for more points.
  bool add_point(Point point, const Place& place) {
    if (file_.points.size() == most_points) {
      problems_.add(place, fmt::format("more than {} points", most_points));
      return false;
    }
    const auto [other, is_new] = lines_.emplace(point, place.line);
    if (point.empty()) {
      problems_.add(place, "a point without a value");
    } else if (json_text(json(point)).size() > longest_point) {
      problems_.add(place, fmt::format("a point of more than {} KiB", longest_point / 1024));
    } else if (!is_new) {
      problems_.add(place, fmt::format("the same point as in line {}", other->second + 1));
    }
    file_.points.push_back(std::move(point));
    file_.places.push_back(place);
    return true;
  }

  PointsFile take() { return std::move(file_); }

 private:
  Problems& problems_;
  PointsFile file_;
  std::set<std::string> columns_;
  std::map<Point, std::size_t> lines_;
};

// Reports a file that is binary or has an encoding other than UTF-8. Returns false for such a file.
bool check_points_text(const std::shared_ptr<const Source>& source, Problems& problems) {
  const std::string_view text = source->text;
  Place place{source, 0, 0};
  for (std::size_t i = 0; i < text.size();) {
    const Character character = first_character(text.substr(i));
    const bool newline = text[i] == '\n' || (text[i] == '\r' && text.substr(i + 1, 1) == "\n");
    const bool control = character.code < 0x20 && !newline && text[i] != '\t';
    if (!character.valid || control) {
      problems.add(place, character.valid ? "a control character" : "not UTF-8 text");
      return false;
    }
    i += character.bytes;
    place.column += character.bytes;
    if (character.code == '\n') ++place.line, place.column = 0;
  }
  return true;
}

// The value of a field. A field that begins with [ or { is parsed as YAML, every other field is a plain
// scalar of YAML. An empty field is null, or an empty text if it is quoted. Returns null after adding a
// problem.
json field_value(const CsvField& field, Problems& problems) {
  if (field.text.empty()) return field.quoted ? json("") : json();
  if (field.text.front() == '[' || field.text.front() == '{') {
    Problems own;
    const auto source = std::make_shared<const Source>(Source{"", field.text});
    if (const std::optional<YamlNode> node = parse_yaml(field.text, source, own)) return to_json(*node);
    problems.add(field.place, "not a list and not a map as in JSON or YAML");
    return nullptr;
  }
  if (field.text == "null" || field.text == "Null" || field.text == "NULL" || field.text == "~")
    return nullptr;
  YamlNode scalar;
  scalar.kind = YamlNode::Kind::scalar;
  scalar.text = field.text;
  scalar.plain = true;
  return to_json(scalar);
}

std::vector<std::string> read_header(const CsvRecord& header, PointsBuilder& builder, Problems& problems) {
  std::vector<std::string> names;
  if (header.size() == 1 && header[0].text.find(';') != std::string::npos) {
    problems.add(header[0].place, "the fields must be separated by commas, not by ';'");
  }
  for (const CsvField& field : header) {
    if (builder.has_column(field.text)) {
      problems.add(field.place, fmt::format("'{}' is given twice; it is column {} too", field.text,
                                            std::ranges::find(names, field.text) - names.begin() + 1));
    }
    builder.add_column(field.text, field.place);
    names.push_back(field.text);
  }
  return names;
}

void read_table(const std::shared_ptr<const Source>& source, char separator, PointsBuilder& builder,
                Problems& problems) {
  if (!check_points_text(source, problems)) return;
  CsvReader reader(source, separator, problems);
  CsvRecord record;
  const std::size_t known_problems = problems.size();
  std::vector<std::string> names;
  if (reader.next(record)) names = read_header(record, builder, problems);
  if (problems.size() > known_problems) return;  // the code below would only repeat the problem
  while (reader.next(record)) {
    if (record.size() == 1 && record[0].text.empty() && !record[0].quoted) continue;  // a line of blanks
    if (record.size() != names.size()) {
      problems.add(record.size() > names.size() ? record[names.size()].place : reader.end(),
                   fmt::format("this line has {} fields, and the first one {}", record.size(), names.size()));
      continue;
    }
    Point point;
    const std::size_t before = problems.size();
    for (std::size_t i = 0; i < names.size(); ++i) {
      json value = field_value(record[i], problems);
      if (value.is_null()) continue;
      builder.note_text(names[i], value, record[i].text, record[i].place);
      point[names[i]] = std::move(value);
    }
    if (problems.size() > before) continue;
    if (!builder.add_point(std::move(point), {source, record[0].place.line, 0})) return;
  }
}

// The line and the column of the byte at this offset of the text.
Place place_of(const std::shared_ptr<const Source>& source, std::size_t byte) {
  const std::string_view before = std::string_view(source->text).substr(0, byte);
  const std::size_t newline = before.rfind('\n');
  return {source, static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')),
          before.size() - (newline == std::string_view::npos ? 0 : newline + 1)};
}

// The places where the entries of a list begin, in the text of valid JSON.
std::vector<Place> places_of_entries(const std::shared_ptr<const Source>& source) {
  std::vector<Place> places;
  std::size_t depth = 0, line = 0, line_start = 0;
  bool in_string = false, due = false;  // due: the next token begins an entry
  const std::string& text = source->text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line, line_start = i + 1;
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') continue;
    if (due && c != ']') places.push_back({source, line, i - line_start});
    due = (c == '[' && depth == 0) || (c == ',' && depth == 1);
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
  }
  return places;
}

void read_json_points(const std::shared_ptr<const Source>& source, PointsBuilder& builder,
                      Problems& problems) {
  constexpr JsonBounds bounds{.depth = 32, .values = 2'000'000};
  if (const std::string why = over_bounds(source->text, bounds); !why.empty()) {
    problems.add({source, 0, 0}, why);
    return;
  }
  json list;
  try {
    list = parse_json(source->text, source->name, bounds);
  } catch (const NotJson& error) {
    problems.add(place_of(source, error.byte - 1), "this is not JSON");
    return;
  }
  if (!list.is_array()) {
    problems.add(place_of(source, source->text.find_first_not_of(" \t\r\n")),
                 "a list of points is expected here");
    return;
  }
  const std::vector<Place> places = places_of_entries(source);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) {
      problems.add(places.at(i), "a point must be an object: {\"lr\": 0.1}");
      continue;
    }
    Point point;
    for (const auto& [name, value] : list[i].items()) {
      builder.add_column(name, places.at(i));
      if (value.is_null()) continue;
      builder.note_place(name, value, places.at(i));
      point[name] = value;
    }
    if (!builder.add_point(std::move(point), places.at(i))) return;
  }
}

void read_yaml_points(const std::shared_ptr<const Source>& source, PointsBuilder& builder,
                      Problems& problems) {
  constexpr char advice[] = "YAML is read up to 1 MiB and 10000 keys and values: write more points as CSV";
  if (source->text.size() > longest_yaml) {
    problems.add({source, 0, 0}, advice);
    return;
  }
  const std::optional<YamlNode> list = parse_yaml(source->text, source, problems);
  if (!list) {
    if (std::ranges::count(source->text, ':') > static_cast<std::ptrdiff_t>(many_yaml_values))
      problems.add({source, 0, 0}, advice);
    return;
  }
  if (list->kind != YamlNode::Kind::list && list->kind != YamlNode::Kind::null) {
    problems.add(list->place, fmt::format("a list of points is expected here, not {}", describe(*list)));
    return;
  }
  for (const YamlNode& item : list->items) {
    if (item.kind != YamlNode::Kind::map) {
      problems.add(item.place, fmt::format("a point must be a map, {{lr: 0.1}}, not {}", describe(item)));
      continue;
    }
    Point point;
    for (const YamlEntry& entry : item.entries) {
      builder.add_column(entry.key, entry.place);
      json value = to_json(entry.value);
      if (value.is_null()) continue;
      builder.note_text(entry.key, value, entry.value.text, entry.value.place);
      point[entry.key] = std::move(value);
    }
    if (!builder.add_point(std::move(point), item.place)) return;
  }
}

}  // namespace

bool is_points_file(std::string_view name) { return points_format(name).has_value(); }

std::optional<PointsFile> read_points(const std::string& text, const std::string& name, Problems& problems) {
  constexpr std::string_view byte_order_mark =
      "\xEF\xBB\xBF";  // some editors and spreadsheets write this mark
  const std::size_t known_problems = problems.size();
  const std::optional<PointsFormat> format = points_format(name);
  const bool too_long = text.size() > longest_points_file;
  const std::size_t begin = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  const auto source =
      std::make_shared<const Source>(Source{name, format && !too_long ? text.substr(begin) : ""});
  const Place top{source, 0, 0};
  PointsBuilder builder(problems);
  if (!format) {
    problems.add(top, "a file of points must end in .csv, .tsv, .json or .yaml");
  } else if (too_long) {
    problems.add(top, fmt::format("larger than {} MiB", longest_points_file >> 20));
  } else if (source->text.find_first_not_of(" \t\r\n") == std::string::npos) {
    problems.add(top, "the file is empty");
  } else if (*format == PointsFormat::json_list) {
    read_json_points(source, builder, problems);
  } else if (*format == PointsFormat::yaml_list) {
    read_yaml_points(source, builder, problems);
  } else {
    read_table(source, *format == PointsFormat::csv ? ',' : '\t', builder, problems);
  }
  PointsFile file = builder.take();
  if (file.points.empty() && problems.size() == known_problems) {
    problems.add(top, "there are no points in this file");
  }
  if (problems.size() > known_problems) return std::nullopt;
  return file;
}

}  // namespace mlk::sweeps
