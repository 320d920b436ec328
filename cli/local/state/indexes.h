// Sets of completion indexes as a Job's status writes them: "0,2-4,7". Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace mlk::local {

// Kept as ranges: most indexes of a Job finish in order, so a set of thousands has few ranges.
class Indexes {
 public:
  // nullopt if the text is not a set, or an index is over 99999.
  static std::optional<Indexes> parse(std::string_view text);

  std::string text() const;
  bool contains(int index) const { return first_absent(index) != index; }
  int first_absent(int from) const;  // the lowest that is not in the set, `from` or above
  void insert(int index) { insert_run(index, index); }
  void drop_from(int end);
  std::size_t size() const { return size_; }
  std::size_t size_of_common(const Indexes& other) const;  // how many are in both

 private:
  void insert_run(int first, int last);

  std::map<int, int> runs_;  // first -> last; between two of them at least one index is absent
  std::size_t size_ = 0;
};

}  // namespace mlk::local
