#include "cli/ui/plot_scale.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace mlk::ui {
namespace {

using Ticks = std::vector<std::pair<double, std::string>>;

// Writes exponents without a plus sign and without leading zeros: 1e-5 for 1e-05, 1e6 for 1e+06.
std::string short_number(double value, int digits) {
  std::string text = fmt::format("{:.{}g}", value, digits);
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  const std::string sign = text[e + 1] == '-' ? "-" : "";
  const std::size_t first = std::min(text.find_first_not_of("+-0", e + 1), text.size() - 1);
  return text.substr(0, e + 1) + sign + text.substr(first);
}

// Returns ticks from `low` to `high` at all multiples of a step, which is 1, 2 or 5 times a power of ten.
// `low` and `high` must differ.
Ticks even_ticks(double low, double high, std::size_t most) {
  const double wanted = (high - low) / static_cast<double>(std::max<std::size_t>(most, 1));
  double step = std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {2.0, 2.5, 2.0}) {  // the step becomes 2, 5 or 10 times a power of ten
    if (step < wanted * 0.999) step *= factor;
  }
  const double largest = std::max(std::abs(low), std::abs(high));
  // Enough digits to give two neighbours different labels.
  const int digits = std::clamp(static_cast<int>(std::ceil(std::log10(largest / step))) + 1, 5, 8);
  Ticks ticks;
  const double first = std::ceil(low / step - 1e-6);
  const int count = static_cast<int>(std::floor(high / step + 1e-6) - first) + 1;
  for (int i = 0; i < count; ++i) {
    const double multiple = first + i;
    ticks.emplace_back(std::clamp(multiple * step, low, high),
                       short_number(multiple == 0 ? 0 : multiple * step, digits));
  }
  if (ticks.empty()) ticks.emplace_back(low, short_number(low, digits));
  return ticks;
}

// Returns ticks at powers of ten. If there would be fewer than two ticks, also returns ticks at 2 and 5 times
// these powers. `low` and `high` are logarithms.
Ticks power_ticks(double low, double high, std::size_t most) {
  Ticks ticks;
  const double wanted = (high - low) / static_cast<double>(std::max<std::size_t>(most, 1));
  const int stride = std::max(1, static_cast<int>(std::ceil(wanted)));
  for (const bool between : {false, true}) {
    ticks.clear();
    for (int power = static_cast<int>(std::floor(low)); power <= high + 1e-9; power += stride) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double at = power + std::log10(factor);
        if (at < low - 1e-9 || at > high + 1e-9 || (factor > 1 && !between)) continue;
        const double value = factor * std::pow(10, power);
        ticks.emplace_back(value, short_number(value, 5));
      }
    }
    if (ticks.size() > 1) break;
  }
  return ticks;
}

}  // namespace

bool PlotScale::has_place(double value, bool logarithmic) {
  constexpr double largest = 1e300, smallest = 1e-300;  // so that no difference or quotient overflows
  return std::isfinite(value) && std::abs(value) <= largest && (!logarithmic || value >= smallest);
}

double PlotScale::at(double value) const { return logarithmic_ ? std::log10(value) : value; }

PlotScale::PlotScale(const std::vector<double>& values, bool logarithmic) : logarithmic_(logarithmic) {
  bool first = true;
  for (const double value : values) {
    if (!has_place(value, logarithmic)) continue;
    low_ = first ? at(value) : std::min(low_, at(value));
    high_ = first ? at(value) : std::max(high_, at(value));
    first = false;
  }
  // A single value has its place in the middle, and so have values that differ too little for different
  // labels.
  const double largest = std::max(std::abs(low_), std::abs(high_));
  if (high_ - low_ > largest * 1e-6 && high_ - low_ > 1e-290) return;
  const double half = logarithmic || largest < 1e-280 ? 1 : largest / 2;
  low_ -= half;
  high_ += half;
}

double PlotScale::share(double value) const {
  return std::clamp((at(value) - low_) / (high_ - low_), 0.0, 1.0);
}

Ticks PlotScale::ticks(std::size_t most) const {
  if (!logarithmic_) return even_ticks(low_, high_, most);
  Ticks ticks = power_ticks(low_, high_, most);
  return ticks.size() > 1 ? ticks : even_ticks(std::pow(10, low_), std::pow(10, high_), most);
}

}  // namespace mlk::ui
