// The curve of the loss over a run, and the file that stores the curve for later processes.
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

  // text() returns the curve as JSON. up_to() reads a curve from JSON, but only up to this step, because
  // training repeats the later steps. Points that are added later are thinned like those of the text. up_to()
  // returns nothing if the text is not a curve, or has no point up to this step.
  std::string text() const;
  static std::optional<Curve> up_to(std::uint64_t step, std::string_view text);

 private:
  std::vector<Point> kept_;
  std::optional<Point> last_;
  std::uint64_t seen_ = 0, stride_ = 1;
};

// curve.json beside the checkpoints of a run. If the file cannot be written or read, only the curve is lost;
// this is not an error. For one thread.
class CurveFile {
 public:
  explicit CurveFile(const std::string& folder);

  std::optional<Curve> load(std::uint64_t up_to) const;
  // Replaces the file in a separate thread, unless that thread still writes the previous curve.
  void save(const Curve& curve);
  // Replaces the file, and waits until it is written.
  void save_now(const Curve& curve);

 private:
  std::string path_;
  std::future<void> written_;
};

}  // namespace mlk::rt
