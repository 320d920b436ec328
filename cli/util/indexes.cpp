#include "cli/util/indexes.h"

#include <algorithm>
#include <iterator>

#include "cli/util/number.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

struct Run {
  int first, last;
};

// Parses one range of a set: "3" or "2-4".
std::optional<Run> parse_run(std::string_view part) {
  const std::size_t dash = part.find('-');
  const int first = parse_int(part.substr(0, dash), -1);
  const int last = dash == part.npos ? first : parse_int(part.substr(dash + 1), -1);
  if (first < 0 || last < first || last >= most_indexes_of_job) return std::nullopt;
  return Run{first, last};
}

std::string text_of_runs(const std::map<int, int>& runs, std::string_view between_neighbours) {
  std::string text;
  for (const auto& [first, last] : runs) {
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last == first) continue;
    text += last == first + 1 ? between_neighbours : "-";
    text += std::to_string(last);
  }
  return text;
}

}  // namespace

Indexes::Indexes(std::initializer_list<int> indexes) {
  for (const int index : indexes) insert(index);
}

Indexes::Indexes(const std::vector<int>& indexes) {
  for (const int index : indexes) insert(index);
}

std::optional<Indexes> Indexes::parse(std::string_view text) {
  Indexes result;
  for (const std::string& part : split(text, ',')) {
    const std::optional<Run> run = parse_run(part);
    if (!run) return std::nullopt;
    result.insert_run(run->first, run->last);
  }
  return result;
}

Indexes Indexes::valid_parts_of(std::string_view text) {
  Indexes result;
  for (const std::string& part : split(text, ',')) {
    if (const std::optional<Run> run = parse_run(part)) result.insert_run(run->first, run->last);
  }
  return result;
}

// The Job controller writes a range of only two indexes with a comma: "0,1".
std::string Indexes::text() const { return text_of_runs(runs_, ","); }

std::string Indexes::ranges() const { return text_of_runs(runs_, "-"); }

void Indexes::insert(const Indexes& other) {
  for (const auto& [first, last] : other.runs_) insert_run(first, last);
}

void Indexes::erase(int index) {
  auto run = runs_.upper_bound(index);
  if (run == runs_.begin() || std::prev(run)->second < index) return;
  --run;
  const auto [first, last] = *run;
  runs_.erase(run);
  if (first < index) runs_[first] = index - 1;
  if (index < last) runs_[index + 1] = last;
  --size_;
}

int Indexes::first_absent(int from) const {
  const auto after = runs_.upper_bound(from);
  if (after == runs_.begin()) return from;
  return std::max(from, std::prev(after)->second + 1);
}

void Indexes::insert_run(int first, int last) {
  auto at = runs_.upper_bound(first);
  if (at != runs_.begin() && std::prev(at)->second >= first - 1) --at;
  while (at != runs_.end() && at->first <= last + 1) {  // the range overlaps, or is a neighbour
    first = std::min(first, at->first);
    last = std::max(last, at->second);
    size_ -= static_cast<std::size_t>(at->second - at->first + 1);
    at = runs_.erase(at);
  }
  runs_.emplace_hint(at, first, last);
  size_ += static_cast<std::size_t>(last - first + 1);
}

void Indexes::drop_from(int end) {
  while (!runs_.empty() && runs_.rbegin()->second >= end) {
    const auto run = std::prev(runs_.end());
    const int kept = std::max(end, run->first);  // of this range, the indexes below `kept` stay
    size_ -= static_cast<std::size_t>(run->second - kept + 1);
    run->second = kept - 1;
    if (kept == run->first) runs_.erase(run);
  }
}

std::size_t Indexes::size_of_common(const Indexes& other) const {
  std::size_t count = 0;
  auto a = runs_.begin(), b = other.runs_.begin();
  while (a != runs_.end() && b != other.runs_.end()) {
    const int first = std::max(a->first, b->first), last = std::min(a->second, b->second);
    if (first <= last) count += static_cast<std::size_t>(last - first + 1);
    a->second < b->second ? ++a : ++b;
  }
  return count;
}

int number_at_place(std::string_view list, int place) {
  int before = 0;
  for (const std::string& part : split(list, ',')) {
    const std::optional<Run> run = parse_run(part);
    if (!run) continue;
    const int length = run->last - run->first + 1;
    if (place - before < length) return run->first + place - before;
    before += length;
  }
  return place;
}

}  // namespace mlk
