#include "runtime/train/peak_flops.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/train/peak_flops");

using namespace mlk::rt;
using mlk::kernels::Precision;

TEST_CASE("peak_flops() returns the peak of a known GPU, and nothing for an unknown GPU") {
  CHECK(peak_flops("NVIDIA H100 80GB HBM3 (cuBLASLt 13.1.0)", Precision::bfloat16) == 989.4e12);
  CHECK(peak_flops("NVIDIA H100 PCIe", Precision::bfloat16) == 756e12);
  CHECK(peak_flops("NVIDIA H200", Precision::tf32) == 494.7e12);
  CHECK(peak_flops("NVIDIA A100-SXM4-80GB", Precision::float32) == 19.5e12);
  CHECK(peak_flops("NVIDIA A10", Precision::bfloat16) == 125e12);
  CHECK_FALSE(peak_flops("NVIDIA H100 80GB HBM3 MIG 1g.10gb", Precision::bfloat16));
  CHECK_FALSE(peak_flops("NVIDIA GeForce RTX 3050", Precision::float32));
  CHECK_FALSE(peak_flops("emulated device", Precision::float32));
  CHECK_FALSE(peak_flops("", Precision::float32));
}
