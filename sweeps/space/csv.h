// Text of comma-separated values (RFC 4180) and of tab-separated ones. Pure.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/experiment/problems.h"

namespace mlk::sweeps {

struct CsvField {
  std::string text;  // without quotes; an unquoted field also without blanks at both ends
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

  // The end of the last record, before its newline.
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

// A field in CSV. Has quotes if needed. An empty text also has quotes, since an empty field without quotes
// means no value. Newlines and tabs stay; other control characters become \uXXXX.
std::string csv_field(std::string_view text);

// A field in TSV, which has no quotes: tabs and newlines become blanks.
std::string tsv_field(std::string_view text);

}  // namespace mlk::sweeps
