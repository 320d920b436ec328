#include "runtime/metrics/curve.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runtime/base/json.h"

namespace mlk::rt {
namespace {

using nlohmann::json;

constexpr std::size_t max_points = 64, max_file_bytes = 64 * 1024;

void replace(const std::string& path, const std::string& text) {
  const std::string aside = path + ".new";
  {
    std::ofstream file(aside, std::ios::binary);
    file << text;
    if (!file.flush()) return;
  }
  std::rename(aside.c_str(), path.c_str());
}

std::optional<Curve::Point> point_of(const json& value) {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() || !value[1].is_number())
    return {};
  return Curve::Point(value[0].get<std::uint64_t>(), value[1].get<double>());
}

}  // namespace

void Curve::add(std::uint64_t step, double loss) {
  // The last step may be reported a second time, with the accuracy.
  const bool again = last_ && last_->first == step;
  last_ = {step, loss};
  if (again) {
    if (kept_.back().first == step) kept_.back() = *last_;
    return;
  }
  if (seen_++ % stride_ != 0) return;
  kept_.push_back(*last_);
  // One entry is reserved for the last point. When all other entries are in use, every second point is
  // dropped, and from then on every second new point is skipped.
  if (kept_.size() < max_points) return;
  for (std::size_t i = 1; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
  kept_.resize((kept_.size() + 1) / 2);
  stride_ *= 2;
}

std::vector<Curve::Point> Curve::points() const {
  auto points = kept_;
  if (last_ && points.back().first != last_->first) points.push_back(*last_);
  return points;
}

std::string Curve::text() const {
  json curve = json::array();
  for (const auto& [step, loss] : kept_) {
    if (std::isfinite(loss)) curve.push_back({step, loss});
  }
  json out = {{"schema", 1}, {"every", stride_}, {"curve", curve}};
  if (last_ && std::isfinite(last_->second)) out["last"] = {last_->first, last_->second};
  return out.dump() + "\n";
}

std::optional<Curve> Curve::up_to(std::uint64_t step, std::string_view text) {
  Curve curve;
  try {
    const json value = parse_json(text, "curve.json");
    if (!value.is_object() || value.value("schema", json()) != 1) return {};
    const json stride = value.value("every", json()), points = value.value("curve", json());
    if (!stride.is_number_unsigned() || stride == 0 || !points.is_array() || points.size() >= max_points)
      return {};
    curve.stride_ = stride.get<std::uint64_t>();
    for (const json& each : points) {
      const auto point = point_of(each);
      if (!point || (curve.last_ && point->first <= curve.last_->first)) return {};
      if (point->first > step) break;
      curve.kept_.push_back(*point);
      curve.last_ = point;
    }
    if (curve.kept_.empty()) return {};
    const auto last = point_of(value.value("last", json()));
    if (last && last->first > curve.last_->first && last->first <= step) curve.last_ = last;
  } catch (const std::runtime_error&) {
    return {};
  }
  curve.seen_ = (curve.kept_.size() - 1) * curve.stride_ + 1;
  return curve;
}

CurveFile::CurveFile(const std::string& folder) : path_(folder + "/curve.json") {}

std::optional<Curve> CurveFile::load(std::uint64_t up_to) const {
  std::string text(max_file_bytes, '\0');
  std::ifstream file(path_, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.eof()) return {};
  text.resize(static_cast<std::size_t>(file.gcount()));
  return Curve::up_to(up_to, text);
}

void CurveFile::save(const Curve& curve) {
  if (written_.valid() && written_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  try {
    written_ = std::async(std::launch::async, replace, path_, curve.text());
  } catch (const std::system_error&) {  // no thread is available now; the next save() tries again
  }
}

void CurveFile::save_now(const Curve& curve) {
  if (written_.valid()) written_.wait();
  replace(path_, curve.text());
}

}  // namespace mlk::rt
