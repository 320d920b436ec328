#include "cli/run/facts/printed_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "cli/run/facts/metrics.h"
#include "cli/util/json.h"
#include "cli/util/number.h"
#include "cli/util/program_text.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using nlohmann::json;

constexpr std::size_t most_fields = 64;
constexpr std::array steps{"step",         "global_step", "train_step",  "training_step",
                           "current_step", "iter",        "iteration",   "global_iter",
                           "train_iter",   "it",          "num_updates", "update"};
constexpr std::array epochs{"epoch", "train_epoch", "training_epoch", "current_epoch"};
// What may follow a number, in its own word or as the next word.
constexpr std::array units{
    "%",        "s",         "ms",       "us",    "sec",      "secs",  "seconds", "min",    "h",
    "k",        "m",         "g",        "b",     "kb",       "mb",    "gb",      "kib",    "mib",
    "gib",      "tflops",    "flops",    "it/s",  "s/it",     "ms/it", "ms/step", "s/step", "us/step",
    "ms/batch", "samples/s", "tokens/s", "tok/s", "images/s", "img/s", "steps/s", "mb/s",   "gb/s"};

template <class List>
bool is_in(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

// Adds a field under its name. Returns whether it was the place of the line.
void add(const std::string& name, double value, PrintedMetrics& out) {
  out.shape += name + "|";
  if (is_in(steps, name)) {
    if (!out.step) out.step = value;
  } else if (is_in(epochs, name)) {
    out.epoch = value;
  } else if (out.values.size() < most_fields) {
    out.values[name] = value;
  }
}

// Whether the words can be a name, and the name: "Train loss" is train_loss. At most `most` words.
std::optional<std::string> name_of(std::string_view words, std::size_t most) {
  const auto may_be_within = [](char c) {
    return is_word(c) || std::string_view("./@%'#-").find(c) != std::string_view::npos;
  };
  std::vector<std::string> parts;
  for (std::string& part : split(words, ' ')) {
    if (!part.empty()) parts.push_back(std::move(part));
  }
  const bool good = !parts.empty() && parts.size() <= most &&
                    std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
                      return (is_letter(part.front()) || part.front() == '_') &&
                             std::all_of(part.begin(), part.end(), may_be_within);
                    });
  const std::string name = good ? lower_case(join(parts, "_")) : "";
  return name.empty() || name.size() > longest_metrics_word ? std::nullopt : std::optional(name);
}

// --- objects of JSON and dicts of Python

// A dict of Python as JSON: other quotes, and None, True and False. nan and inf become text.
std::string json_of_dict(std::string_view text) {
  struct Word {
    std::string_view python, json;
  };
  constexpr Word words[] = {{"None", "null"},          {"True", "true"},        {"False", "false"},
                            {"-Infinity", "\"-inf\""}, {"Infinity", "\"inf\""}, {"NaN", "\"nan\""},
                            {"-inf", "\"-inf\""},      {"inf", "\"inf\""},      {"nan", "\"nan\""}};
  std::string out;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\' && i + 1 < text.size() && text[i + 1] == '\'') {
        out += text[++i];
      } else if (c == '\\' && i + 1 < text.size()) {
        out.append({c, text[++i]});
      } else {
        out += c == quote ? '"' : c == '"' ? '\'' : c;
        if (c == quote) quote = 0;
      }
      continue;
    }
    const Word* found = std::find_if(std::begin(words), std::end(words), [&](const Word& word) {
      const std::size_t end = i + word.python.size();
      return text.substr(i).starts_with(word.python) && (i == 0 || !is_word(text[i - 1])) &&
             (end >= text.size() || !is_word(text[end]));
    });
    if (found != std::end(words)) {
      out += found->json;
      i += found->python.size() - 1;
    } else if (c == '\'' || c == '"') {
      quote = c;
      out += '"';
    } else {
      out += c;
    }
  }
  return out;
}

void add_object(const json& object, const std::string& before, int depth, PrintedMetrics& out) {
  for (const auto& [key, value] : object.items()) {
    const std::optional<std::string> name = name_of(before + key, 1);
    if (!name) continue;
    if (value.is_object() && depth > 0) {
      add_object(value, *name + ".", depth - 1, out);
    } else if (const std::optional<double> number = metric_number(value)) {
      add(*name, *number, out);
    }
  }
}

bool read_object(std::string_view line, PrintedMetrics& out) {
  constexpr JsonBounds bounds{.depth = 32, .values = 4096};
  const std::size_t begin = line.find('{');
  if (begin == line.npos || !line.ends_with('}')) return false;
  json object = json_or_null(line.substr(begin), bounds);
  if (!object.is_object()) object = json_or_null(json_of_dict(line.substr(begin)), bounds);
  if (!object.is_object()) return false;
  add_object(object, "", 1, out);
  return true;
}

// --- text

// The end of the number that begins at `at`; `at` if there is none.
std::size_t end_of_number(std::string_view line, std::size_t at) {
  std::size_t i = at;
  if (i < line.size() && (line[i] == '-' || line[i] == '+')) ++i;
  for (const std::string_view word : {"nan", "inf", "NaN", "Inf"}) {
    if (line.substr(i).starts_with(word)) return i + word.size();
  }
  const std::size_t digits = i;
  while (i < line.size() && is_digit(line[i])) ++i;
  std::size_t count = i - digits;
  if (i < line.size() && line[i] == '.') {
    const std::size_t point = i++;
    while (i < line.size() && is_digit(line[i])) ++i;
    count += i - point - 1;
  }
  if (count == 0) return at;
  if (i < line.size() && (line[i] == 'e' || line[i] == 'E')) {
    std::size_t k = i + 1;
    if (k < line.size() && (line[k] == '-' || line[k] == '+')) ++k;
    const std::size_t exponent = k;
    while (k < line.size() && is_digit(line[k])) ++k;
    if (k > exponent) i = k;
  }
  return i;
}

// The end of the word of letters and signs of units that begins at `at`.
std::size_t end_of_unit(std::string_view line, std::size_t at) {
  while (at < line.size() && (is_letter(line[at]) || line[at] == '/' || line[at] == '%')) ++at;
  return at;
}

bool is_unit(std::string_view word) { return is_in(units, lower_case(std::string(word))); }

class TextReader {
 public:
  TextReader(std::string_view line, PrintedMetrics& out) : line_(line), out_(out) {}

  void read() {
    while (at_ < line_.size()) {
      const bool begins =
          at_ == 0 || !(is_word(line_[at_ - 1]) || line_[at_ - 1] == '.' || line_[at_ - 1] == '@');
      const std::size_t end = begins ? end_of_number(line_, at_) : at_;
      if (end == at_) {
        ++at_;
      } else if (!read_number(end)) {
        skip_word();
      }
    }
  }

 private:
  // Continues behind the word at at_, which is no number. Such a word ends a name.
  void skip_word() {
    while (at_ < line_.size() && line_[at_] != ' ' && line_[at_] != '\t' && line_[at_] != '[' &&
           line_[at_] != ']' && line_[at_] != '|')
      ++at_;
    part_ = at_;
  }

  std::size_t after_blanks(std::size_t at) const {
    return std::min(line_.find_first_not_of(' ', at), line_.size());
  }

  // Reads the number from at_ to `end`, and what follows it. Returns false if it is part of something else.
  bool read_number(std::size_t end) {
    const std::optional<double> value = number_of_word(line_.substr(at_, end - at_));
    if (!value) return false;
    bool is_ratio = false;
    std::size_t next = end;
    const std::size_t slash = after_blanks(end);
    if (slash < line_.size() && line_[slash] == '/') {
      const std::size_t total = after_blanks(slash + 1), total_end = end_of_number(line_, total);
      is_ratio = total_end > total;
      if (is_ratio) next = total_end;
    }
    if (next == end) {
      const std::size_t unit = end_of_unit(line_, next);
      if (unit > next && !is_unit(line_.substr(next, unit - next))) return false;
      next = unit;
    }
    // "12,000", "10:00:00", "2026-11-26", "1.2.3" and "3rd" go on.
    const char after = next < line_.size() ? line_[next] : ' ',
               second = next + 1 < line_.size() ? line_[next + 1] : ' ';
    if (is_word(after) ||
        ((after == ',' || after == ':' || after == '-' || after == '.' || after == '/' || after == '<') &&
         is_digit(second)))
      return false;
    add_field(*value, next, is_ratio);
    at_ = part_ = next;
    return true;
  }

  void add_field(double value, std::size_t end, bool is_ratio) {
    std::string_view words = trim(line_.substr(part_, at_ - part_));
    const bool in_brackets = words.ends_with('[');
    while (words.ends_with('[') || words.ends_with('(')) words = trim(words.substr(0, words.size() - 1));
    const bool has_sign = words.ends_with('=') || words.ends_with(':');
    if (has_sign) words = trim(words.substr(0, words.size() - 1));
    if (has_sign && words.ends_with(')')) words = trim(words.substr(0, words.rfind('(')));  // "time (ms): 5"
    words = last_part(words);
    const bool is_line_of_file =
        at_ > 0 && line_[at_ - 1] == ':' && words.find('.') != words.npos;  // x.py:12
    const std::optional<std::string> name = is_line_of_file ? std::nullopt : name_of(words, has_sign ? 4 : 2);
    if (name && (has_sign || ends_part(end) || is_place(*name))) {
      add(*name, value, out_);
    } else if (!name && words.empty() && is_loop(end, is_ratio, in_brackets) && !out_.step) {
      out_.step = value;
      out_.shape += "#|";
    }
  }

  static bool is_place(const std::string& name) { return is_in(steps, name) || is_in(epochs, name); }

  // Whether a number without a name counts the steps of a loop: a ratio in brackets, at the start of the line
  // or before brackets, as progress bars have it; or a number in brackets at the start.
  bool is_loop(std::size_t end, bool is_ratio, bool in_brackets) const {
    const std::string_view before = trim(line_.substr(0, at_));
    const std::size_t next = after_blanks(end);
    const char after = next < line_.size() ? line_[next] : ' ';
    if (is_ratio) return in_brackets ? after == ']' || after == '(' : before.empty() || after == '[';
    return in_brackets && before == "[" && after == ']';
  }

  // The words behind the last sign that separates parts of a line.
  static std::string_view last_part(std::string_view words) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool separates = std::string_view("|,;:()[]{}<>\t\"=").find(words[i]) != std::string_view::npos;
      const bool is_dash = words[i] == '-' && (i == 0 || words[i - 1] == ' ') &&
                           (i + 1 == words.size() || words[i + 1] == ' ');
      const bool is_gap = words.substr(i).starts_with("  ");
      if (separates || is_dash || is_gap) begin = i + 1;
    }
    return trim(words.substr(begin));
  }

  // Whether a part of the line ends at `end`, or another name and its number follow.
  bool ends_part(std::size_t end) const {
    std::size_t next = after_blanks(end);
    if (next > end) {  // the unit may be a word of its own
      const std::size_t unit = end_of_unit(line_, next);
      if (unit > next && is_unit(line_.substr(next, unit - next)) &&
          (unit == line_.size() || !is_word(line_[unit])))
        next = after_blanks(end = unit);
    }
    if (next >= line_.size() || next >= end + 2) return true;
    if (std::string_view("|,;:)]}\t").find(line_[next]) != std::string_view::npos) return true;
    if (next == end) return false;
    if (line_[next] == '-' || line_[next] == '(' || line_[next] == '[') return true;
    for (int word = 0; word < 2 && next < line_.size(); ++word) {
      if (!is_letter(line_[next])) return false;
      while (next < line_.size() && (is_word(line_[next]) || line_[next] == '-' || line_[next] == '/'))
        ++next;
      const std::size_t number = after_blanks(next);
      if (number > next && end_of_number(line_, number) > number) return true;
      next = number;
    }
    return false;
  }

  const std::string_view line_;
  PrintedMetrics& out_;
  std::size_t at_ = 0;
  std::size_t part_ = 0;  // where the words before the next number begin
};

}  // namespace

std::optional<PrintedMetrics> read_printed_metrics(std::string_view line) {
  if (line.size() > longest_metrics_line) return std::nullopt;
  const std::string shown = program_line(trim(line), Colors::removed);
  PrintedMetrics out;
  if (!read_object(trim(shown), out)) TextReader(trim(shown), out).read();
  return out.values.empty() && !out.has_place() ? std::nullopt : std::optional(std::move(out));
}

}  // namespace mlk
