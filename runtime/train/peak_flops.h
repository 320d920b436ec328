// The peak throughput of GPUs.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/ops.h"

namespace mlk::rt {

// The peak of the GPU of this name (such as "NVIDIA A100-SXM4-80GB") by NVIDIA's data sheet: additions and
// multiplications per second in matrix products of this precision, without sparsity. Nothing for an unknown
// GPU, or for a part of a GPU (MIG). Pure.
std::optional<double> peak_flops(std::string_view gpu, kernels::Precision precision);

}  // namespace mlk::rt
