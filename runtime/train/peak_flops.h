// The peak throughput of GPUs.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/ops.h"

namespace mlk::rt {

// Additions and multiplications per second of matrix products with this precision, without sparsity, from
// NVIDIA's data sheet for the GPU of this name, such as "NVIDIA A100-SXM4-80GB". Nothing for an unknown GPU,
// or for a part of a GPU (MIG). Pure.
std::optional<double> peak_flops(std::string_view gpu, kernels::Precision precision);

}  // namespace mlk::rt
