// Sets of indexes as a Job's status writes them: "0,2-4,7". Pure.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlk {

inline constexpr int most_indexes_of_job = 100000;  // all indexes are below this number

// Stores ranges: most indexes of a Job finish in order, so a set of thousands of indexes has few ranges.
class Indexes {
 public:
  Indexes() = default;
  Indexes(std::initializer_list<int> indexes);
  explicit Indexes(const std::vector<int>& indexes);

  // nullopt if the text is not a set, or an index is over 99999.
  static std::optional<Indexes> parse(std::string_view text);
  // For text of a server: leaves out the parts of the text that are not valid.
  static Indexes valid_parts_of(std::string_view text);

  std::string text() const;    // as the Job controller writes it: "0,1,3-5"
  std::string ranges() const;  // for people: "0-1,3-5"
  bool contains(int index) const { return first_absent(index) != index; }
  int first_absent(int from) const;  // the lowest index that is not in the set and not below `from`
  void insert(int index) { insert_run(index, index); }
  void insert(const Indexes& other);
  void erase(int index);
  void drop_from(int end);
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::size_t size_of_common(const Indexes& other) const;  // the number of indexes in both sets

  bool operator==(const Indexes&) const = default;

 private:
  void insert_run(int first, int last);

  std::map<int, int> runs_;  // ranges, first -> last; between two ranges at least one index is absent
  std::size_t size_ = 0;
};

// Returns the number at position `place`, counted from 0, of a list such as "4-6,2". The list need not be
// sorted. Returns `place` itself if the list is too short.
int number_at_place(std::string_view list, int place);

}  // namespace mlk
