// Reads and writes comma-separated values (RFC 4180) and tab-separated values. Pure.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/yaml/problems.h"

namespace mlk::sweeps {

struct CsvField {
  std::string text;  // without its quotes; if the field has no quotes, without blanks at both ends
  bool quoted = false;
  Place place;
};

using CsvRecord = std::vector<CsvField>;

inline constexpr std::size_t most_fields = 1024;  // of a record

// Reads one record after another. A line ends with a newline, or with a carriage return and a newline. Quoted
// fields may contain separators, newlines and doubled quotes. Empty lines are skipped.
class CsvReader {
 public:
  CsvReader(std::shared_ptr<const Source> source, char separator, Problems& problems)
      : source_(std::move(source)), text_(source_->text), separator_(separator), problems_(problems) {}

  // Returns false at the end of the text, and also if a problem makes the rest of the text unreadable.
  bool next(CsvRecord& record);

  // The end of the record that next() has read last, before the newline of this record.
  Place end() const { return end_; }

 private:
  enum class Ended { field, record, failed };
  Ended read_field(CsvField& field);
  bool read_quoted(CsvField& field);
  Ended read_separator();
  bool at_newline() const;
  void advance();
  Place here() const { return {source_, line_, at_ - line_start_}; }

  std::shared_ptr<const Source> source_;
  std::string_view text_;
  char separator_;
  Problems& problems_;
  std::size_t at_ = 0, line_ = 0, line_start_ = 0;
  Place end_;
};

// The text as a field in CSV, with quotes if the field needs them. An empty text gets quotes, since an empty
// field without quotes means no value. Newlines and tabs stay; other control characters become \uXXXX.
std::string csv_field(std::string_view text);

// The text as a field in TSV. TSV has no quotes, so tabs and newlines become blanks.
std::string tsv_field(std::string_view text);

}  // namespace mlk::sweeps
