// What GPUs are said to compute at most.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/ops.h"

namespace mlk::rt {

// Additions and multiplications a second by matrix products of this precision, without sparsity, as NVIDIA's
// data sheets have them for the GPU of this name, such as "NVIDIA A100-SXM4-80GB". Nothing for another, or
// for a part of one (MIG). Pure.
std::optional<double> peak_flops(std::string_view gpu, kernels::Precision precision);

}  // namespace mlk::rt
