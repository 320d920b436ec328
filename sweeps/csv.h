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
  std::string text;  // without quotes; of a field without quotes also without blanks at both ends
  bool quoted = false;
  Place place;
};

using CsvRecord = std::vector<CsvField>;

inline constexpr std::size_t most_fields = 1024;  // of a record

// Reads record after record: lines end with \n or \r\n, fields between quotes may hold separators, newlines
// and doubled quotes. Lines without any character are left out.
class CsvReader {
 public:
  CsvReader(std::shared_ptr<const Source> source, char separator, Problems& problems)
      : source_(std::move(source)), text_(source_->text), separator_(separator), problems_(problems) {}

  // false at the end of the text, and after adding a problem that makes the rest unreadable.
  bool next(CsvRecord& record);

  // Where the record that was read last ends, before its newline.
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

// A field as CSV has it: between quotes where it must be, and also when it is empty, as nothing at all means
// that there is no value. Newlines and tabs stay; other characters that steer a terminal become \uXXXX.
std::string csv_field(std::string_view text);

// A field as TSV has it, which knows no quotes: tabs and newlines become blanks.
std::string tsv_field(std::string_view text);

}  // namespace mlk::sweeps
