#include "sweeps/space/csv.h"

#include <random>

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("sweeps/space/csv");

using namespace mlk::sweeps;
using mlk::Problems;

namespace {

struct CsvRead {
  std::vector<std::vector<std::string>> records;
  std::vector<CsvRecord> fields;
  std::string said;
};

CsvRead read_csv_text(const std::string& text, char separator = ',') {
  Problems problems;
  CsvReader reader(std::make_shared<const mlk::Source>(mlk::Source{"f", text}), separator, problems);
  CsvRead read;
  for (CsvRecord record; reader.next(record);) {
    std::vector<std::string>& texts = read.records.emplace_back();
    for (const CsvField& field : record) texts.push_back(field.text);
    read.fields.push_back(record);
  }
  try {
    problems.throw_if_any();
  } catch (const mlk::Error& error) {
    read.said = error.what();
  }
  return read;
}

using CsvTexts = std::vector<std::vector<std::string>>;

}  // namespace

TEST_CASE("CsvReader makes a record of each line, and divides the record at separators") {
  CHECK(read_csv_text("a,b\n1,2\n").records == CsvTexts{{"a", "b"}, {"1", "2"}});
  CHECK(read_csv_text("a,b\r\n1,2").records == CsvTexts{{"a", "b"}, {"1", "2"}});
  CHECK(read_csv_text("a\tb,c\n", '\t').records == CsvTexts{{"a", "b,c"}});
  CHECK(read_csv_text("a\t\tc\t\n", '\t').records == CsvTexts{{"a", "", "c", ""}});
  CHECK(read_csv_text("\n\r\na,\n\n,b\n\n").records == CsvTexts{{"a", ""}, {"", "b"}});
  CHECK(read_csv_text("").records.empty());
  CHECK(read_csv_text("\n\n").records.empty());
}

TEST_CASE("a quoted field may contain separators, newlines and doubled quotes") {
  CHECK(read_csv_text("\"a,b\",\"c\nd\",\"e\"\"f\",\"\"\n").records == CsvTexts{{"a,b", "c\nd", "e\"f", ""}});
  CHECK(read_csv_text("\"a\r\nb\"\r\nc").records == CsvTexts{{"a\r\nb"}, {"c"}});
  CHECK(read_csv_text("\" a \" ,b").records == CsvTexts{{" a ", "b"}});
  CHECK(read_csv_text("5\" disk,b").records == CsvTexts{{"5\" disk", "b"}});
  const CsvRead read = read_csv_text("\"\",\n");
  CHECK(read.fields[0][0].quoted);
  CHECK_FALSE(read.fields[0][1].quoted);
}

TEST_CASE("blanks around a field without quotes are not part of the field") {
  CHECK(read_csv_text("a , b\tc ,\td\n").records == CsvTexts{{"a", "b\tc", "d"}});
}

TEST_CASE("CsvReader gives each field its line and column in the file") {
  const CsvRead read = read_csv_text("a, b\n\n\"c\nd\",  e\n");
  CHECK(read.fields[0][1].place.line == 0);
  CHECK(read.fields[0][1].place.column == 3);
  CHECK(read.fields[1][0].place.line == 2);
  CHECK(read.fields[1][1].place.line == 3);
  CHECK(read.fields[1][1].place.column == 5);
}

TEST_CASE("a quote is reported, with line and column, if it is not closed or is closed too early") {
  CHECK(read_csv_text("a\nb,\"c\nd\n").said == "f:2:3: a quote is not closed\n  b,\"c\n    ^");
  const CsvRead early = read_csv_text("a,\"b\" c\nd\n");
  CHECK(early.said.starts_with("f:1:7: text behind a closing quote"));
  CHECK(early.records.empty());
}

TEST_CASE("a line with more fields than the limit is refused") {
  CHECK(read_csv_text(std::string(1023, ',')).records.size() == 1);
  const CsvRead read = read_csv_text(std::string(1024, ','));
  CHECK(read.records.empty());
  CHECK(read.said.starts_with("f:1:1025: more than 1024 fields in a line"));
}

TEST_CASE("csv_field() quotes a field if a reader needs the quotes") {
  CHECK(csv_field("plain text") == "plain text");
  CHECK(csv_field("") == "\"\"");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("a\"b") == "\"a\"\"b\"");
  CHECK(csv_field("a\nb") == "\"a\nb\"");
  CHECK(csv_field(" a") == "\" a\"");
  CHECK(csv_field("a\tb\x1b[1m\r") == "a\tb\\u001b[1m\\u000d");
  CHECK(csv_field("a\xffz") == "a\xEF\xBF\xBDz");
  CHECK(tsv_field("a\tb\nc,\"d\"\x1b") == "a b c,\"d\"\\u001b");
}

TEST_CASE("a text that is written as CSV is read unchanged") {
  const std::string letters = "ab ,\"\n\tä;";
  std::mt19937 random(3);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    CsvTexts texts(2, std::vector<std::string>(3));
    std::string text;
    for (std::vector<std::string>& record : texts) {
      for (std::string& field : record) {
        for (std::size_t i = below(6); i > 0; --i) {
          const std::size_t at = below(letters.size() - 2);
          field += at == 7 ? "ä" : letters.substr(at, 1);
        }
        text += csv_field(field) + (&field == &record.back() ? "\n" : ",");
      }
    }
    REQUIRE_MESSAGE(read_csv_text(text).records == texts, text);
  }
}

TEST_CASE("a CSV field may contain a carriage return, and have blanks around its quotes") {
  CHECK(read_csv_text("a\rb,c").records == CsvTexts{{"a\rb", "c"}});
  CHECK(read_csv_text(" \"a\"\t,b\n").records == CsvTexts{{"a", "b"}});
  CHECK(read_csv_text("\"a\"\t\t\"b\" \n", '\t').records == CsvTexts{{"a", "", "b"}});
  CHECK(read_csv_text("\"a\"").records == CsvTexts{{"a"}});
  CHECK(read_csv_text("\"a\"\"").said.find("a quote is not closed") != std::string::npos);
  CHECK(csv_field("a ") == "\"a \"");
  CHECK(csv_field("\ta") == "\"\ta\"");
  CHECK(tsv_field("") == "");
  CHECK(tsv_field("a\xff") == "a\xEF\xBF\xBD");
}
