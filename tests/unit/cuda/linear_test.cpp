// Tests layers that multiply by a weight on the device against the reference.
#include <doctest/doctest.h>

#include "tests/unit/cuda/linear_layers.h"

TEST_SUITE_BEGIN("cuda/linear");

using mlk::kernels::Precision;
using mlk::kernels::Transpose;
using mlk::test::device_ops;
using mlk::test::error_of_layers;
using mlk::test::in_each_order;
using mlk::test::LayerSize;

TEST_CASE(
    "on the device, linear layers and their gradients agree with the reference, also if sizes do not fill "
    "whole tiles") {
  in_each_order([] {
    for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
      CAPTURE(static_cast<int>(precision));
      const auto ops = device_ops(precision);
      for (const bool keeps : {false, true}) {
        for (const LayerSize size : {LayerSize{1, 1, 1}, {5, 17, 11}, {33, 8, 24}, {2, 130, 3}, {0, 4, 4}}) {
          for (const Transpose stored : {Transpose::no, Transpose::yes})
            CHECK(error_of_layers(*ops, precision == Precision::bfloat16, keeps, size, stored) <= 1);
        }
      }
    }
  });
}
