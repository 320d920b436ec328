#include "runtime/train/peak_flops.h"

#include <algorithm>
#include <array>

namespace mlk::rt {
namespace {

constexpr double tera = 1e12;

struct Gpu {
  std::string_view model, form;  // words of the name; an empty form matches any
  double float32, tf32, bfloat16;
};

// The first entry that matches a name applies.
constexpr std::array gpus = {
    Gpu{"A100", "", 19.5, 156, 312},      Gpu{"H100", "PCIe", 51.2, 378, 756},
    Gpu{"H100", "NVL", 60, 417.5, 835.5}, Gpu{"H100", "", 66.9, 494.7, 989.4},
    Gpu{"H200", "NVL", 60, 417.5, 835.5}, Gpu{"H200", "", 66.9, 494.7, 989.4},
    Gpu{"A10", "", 31.2, 62.5, 125},      Gpu{"L4", "", 30.3, 60, 121},
    Gpu{"L40S", "", 91.6, 183, 362},
};

bool has_word(std::string_view name, std::string_view word) {
  constexpr std::string_view between = " -";
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find_first_of(between, at), name.size());
    if (name.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::optional<double> peak_flops(std::string_view gpu, kernels::Precision precision) {
  const auto found = std::ranges::find_if(gpus, [&](const Gpu& known) {
    return has_word(gpu, known.model) && !has_word(gpu, "MIG") &&
           (known.form.empty() || has_word(gpu, known.form));
  });
  if (found == gpus.end()) return {};
  if (precision == kernels::Precision::bfloat16) return found->bfloat16 * tera;
  if (precision == kernels::Precision::tf32) return found->tf32 * tera;
  return found->float32 * tera;
}

}  // namespace mlk::rt
