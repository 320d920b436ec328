// Writes a table of results as CSV, TSV, Markdown, or text for a terminal.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/util/json.h"
#include "cli/util/text.h"
#include "sweeps/results/result_cells.h"
#include "sweeps/results/results.h"
#include "sweeps/space/csv.h"

namespace mlk::sweeps {
namespace {

using json = nlohmann::json;

std::string csv_cell(const json& value) { return value.is_null() ? "" : csv_field(plain_cell(value)); }
std::string tsv_cell(const json& value) { return tsv_field(plain_cell(value)); }

// The table with `separator` between cells.
template <class Cell>
std::string separated(const ResultTable& table, char separator, const Cell& cell) {
  std::string out;
  const auto add = [&](bool first, const std::string& text) {
    if (!first) out += separator;
    out += text;
  };
  for (const Column& column : table.columns) add(&column == &table.columns.front(), cell(json(column.name)));
  out += '\n';
  for (const std::vector<json>& row : table.rows) {
    for (const json& value : row) add(&value == &row.front(), cell(value));
    out += '\n';
  }
  return out;
}

// Four digits are enough to compare two values; numbers up to a billion keep all digits before the point.
std::string rounded_cell(double value) {
  const double size = std::abs(value);
  return size >= 1e4 && size < 1e9 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string shown_cell(const json& value, Column::Kind kind) {
  if (value.is_number() && kind == Column::Kind::duration)
    return format_duration(std::chrono::seconds(std::llround(value.get<double>())));
  if (value.is_number_float() && std::isfinite(value.get<double>())) return rounded_cell(value.get<double>());
  return printable(plain_cell(value));
}

std::string markdown_cell(std::string_view text) {
  return replaced(
      text,
      {{'<', "&lt;"}, {'\n', " "}, {'\t', " "}, {'\\', "\\\\"}, {'|', "\\|"}, {'*', "\\*"}, {'`', "\\`"}});
}

bool is_text_column(const ResultTable& table, std::size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const std::vector<json>& row) {
    return !row[column].is_number() && !row[column].is_null();
  });
}

}  // namespace

std::string plain_cell(const json& value) {
  if (value.is_null()) return "";
  // JSON has no NaN and no infinity. Other programs read the words nan and inf.
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return fmt::format("{}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

std::string to_csv(const ResultTable& table) { return separated(table, ',', csv_cell); }
std::string to_tsv(const ResultTable& table) { return separated(table, '\t', tsv_cell); }

std::string to_markdown(const ResultTable& table) {
  std::string out = "|", rule = "|";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    out += fmt::format(" {} |", markdown_cell(printable(table.columns[i].name)));
    rule += is_text_column(table, i) ? " --- |" : " ---: |";
  }
  out += "\n" + rule + "\n";
  for (const std::vector<std::string>& row : shown_rows(table)) {
    out += "|";
    for (const std::string& cell : row) out += fmt::format(" {} |", markdown_cell(cell));
    out += "\n";
  }
  return out;
}

std::vector<std::string> shown_headers(const ResultTable& table) {
  std::vector<std::string> headers;
  for (const Column& column : table.columns) headers.push_back(upper_case(printable(column.name)));
  return headers;
}

std::vector<std::vector<std::string>> shown_rows(const ResultTable& table) {
  std::vector<std::vector<std::string>> rows;
  for (const std::vector<json>& row : table.rows) {
    std::vector<std::string>& shown = rows.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) shown.push_back(shown_cell(row[i], table.columns[i].kind));
  }
  return rows;
}

}  // namespace mlk::sweeps
