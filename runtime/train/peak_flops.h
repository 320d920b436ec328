// The peak throughput of GPUs.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/ops.h"

namespace mlk::rt {

// How many additions and multiplications per second the GPU of this name, such as "NVIDIA A100-SXM4-80GB",
// makes in matrix products of this precision, without sparsity, by NVIDIA's data sheet. Nothing for an
// unknown GPU, or for a part of a GPU (MIG). Pure.
std::optional<double> peak_flops(std::string_view gpu, kernels::Precision precision);

}  // namespace mlk::rt
