// Sets of completion indexes as a Job's status writes them: "0,2-4,7". Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace mlk::local {

class Indexes {
 public:
  // nullopt when it is no such text, or an index is over 99999.
  static std::optional<Indexes> parse(std::string_view text);

  std::string text() const;
  bool contains(int index) const { return indexes_.contains(index); }
  void insert(int index) { indexes_.insert(index); }
  void drop_from(int end) { indexes_.erase(indexes_.lower_bound(end), indexes_.end()); }
  std::size_t size() const { return indexes_.size(); }
  const std::set<int>& all() const { return indexes_; }

 private:
  std::set<int> indexes_;
};

}  // namespace mlk::local
