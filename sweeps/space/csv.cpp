#include "sweeps/space/csv.h"

#include <fmt/format.h>

#include "cli/util/text.h"
#include "cli/util/unicode.h"

namespace mlk::sweeps {

bool CsvReader::at_newline() const {
  return text_[at_] == '\n' || (text_[at_] == '\r' && text_.substr(at_ + 1, 1) == "\n");
}

void CsvReader::advance() {
  if (text_[at_++] != '\n') return;
  ++line_;
  line_start_ = at_;
}

// Reads the rest of a quoted field after its opening quote, including the closing quote.
bool CsvReader::read_quoted(CsvField& field) {
  const Place opened = here();
  field.quoted = true;
  for (advance(); at_ < text_.size(); advance()) {
    if (text_[at_] == '"') {
      advance();
      if (at_ == text_.size() || text_[at_] != '"') return true;
    }
    field.text += text_[at_];
  }
  problems_.add(opened, "a quote is not closed");
  return false;
}

CsvReader::Ended CsvReader::read_separator() {
  end_ = here();
  if (at_ == text_.size()) return Ended::record;
  if (text_[at_] == separator_) {
    advance();
    return Ended::field;
  }
  if (text_[at_] == '\r') advance();
  advance();
  return Ended::record;
}

CsvReader::Ended CsvReader::read_field(CsvField& field) {
  const auto skip_blanks = [&] {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t') && text_[at_] != separator_)
      advance();
  };
  skip_blanks();
  field.place = here();
  if (at_ < text_.size() && text_[at_] == '"') {
    if (!read_quoted(field)) return Ended::failed;
    skip_blanks();
    if (at_ < text_.size() && text_[at_] != separator_ && !at_newline()) {
      problems_.add(here(), "text behind a closing quote; a quote inside of a field is written \"\"");
      return Ended::failed;
    }
    return read_separator();
  }
  const std::size_t first = at_;
  while (at_ < text_.size() && text_[at_] != separator_ && !at_newline()) advance();
  field.text = trim(text_.substr(first, at_ - first));
  return read_separator();
}

bool CsvReader::next(CsvRecord& record) {
  record.clear();
  while (at_ < text_.size() && at_newline()) advance();  // twice for \r\n
  if (at_ == text_.size()) return false;
  Ended ended = Ended::field;
  while (ended == Ended::field) {
    if (record.size() == most_fields) {
      problems_.add(here(), fmt::format("more than {} fields in a line", most_fields));
      return false;
    }
    CsvField field;
    ended = read_field(field);
    record.push_back(std::move(field));
  }
  return ended == Ended::record;
}

namespace {

// Escapes control characters except newlines and tabs. Bytes that are not UTF-8 become U+FFFD, as in JSON.
std::string without_steering(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::string_view bytes = text.substr(0, character.bytes);
    if (!character.valid) {
      out += "\xEF\xBF\xBD";
    } else {
      out += character.code == '\t' ? std::string(bytes) : escape_controls(bytes);
    }
    text.remove_prefix(bytes.size());
  }
  return out;
}

}  // namespace

std::string csv_field(std::string_view text) {
  const std::string safe = without_steering(text);
  // A text with blanks at its ends also needs quotes, since many readers remove such blanks.
  const bool plain =
      !safe.empty() && safe.find_first_of(",\"\n") == std::string::npos && trim(safe).size() == safe.size();
  if (plain) return safe;
  return '"' + replaced(safe, {{'"', "\"\""}}) + '"';
}

std::string tsv_field(std::string_view text) {
  return replaced(without_steering(text), {{'\n', " "}, {'\t', " "}});
}

}  // namespace mlk::sweeps
