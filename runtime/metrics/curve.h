// The loss over a run, and the file in which it outlives a process.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlk::rt {

// At most 64 points, evenly thinned; the first and the last one are always kept.
class Curve {
 public:
  using Point = std::pair<std::uint64_t, double>;  // step and loss

  void add(std::uint64_t step, double loss);
  std::vector<Point> points() const;

  // As JSON, and back from it, up to this step: what came after it is made again. Points that come later are
  // thinned as those were. Nothing if the text is no curve, or has no point so early.
  std::string text() const;
  static std::optional<Curve> up_to(std::uint64_t step, std::string_view text);

 private:
  std::vector<Point> kept_;
  std::optional<Point> last_;
  std::uint64_t seen_ = 0, stride_ = 1;
};

// curve.json beside the checkpoints of a run. That it cannot be written or read costs the curve, and is no
// error. For one thread.
class CurveFile {
 public:
  explicit CurveFile(const std::string& folder);

  std::optional<Curve> load(std::uint64_t up_to) const;
  // Replaces the file, in a thread of its own, unless that still writes the one before.
  void save(const Curve& curve);
  // The same, and waits.
  void save_now(const Curve& curve);

 private:
  std::string path_;
  std::future<void> written_;
};

}  // namespace mlk::rt
