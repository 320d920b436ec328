// Tests the operations on images on the emulated device against the reference.
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/reference/reference_ops.h"
#include "tests/unit/cuda/device_tensors.h"

TEST_SUITE_BEGIN("cuda/images");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::device_ops;
using mlk::test::furthest_apart;
using mlk::test::in_each_order;
using mlk::test::Numbers;
using mlk::test::on_device;
using mlk::test::on_host;

TEST_CASE("on the device, convolutions and their gradients agree with the reference") {
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    for (const ImageShape shape : {ImageShape{1, 1, 1, 1}, {2, 5, 4, 3}, {3, 2, 7, 1}, {0, 3, 3, 2}}) {
      for (const int kernel : {1, 3, 5}) {
        CAPTURE(shape.height);
        CAPTURE(kernel);
        constexpr int outputs = 4;
        const int inner = kernel * kernel * shape.channels;
        const auto x = numbers(area(shape.pixels(), shape.channels)), weight = numbers(area(outputs, inner)),
                   delta = numbers(area(shape.pixels(), outputs));
        std::vector<float> out(delta.size()), by_x(x.size()), by_weight(weight.size());
        const auto of_x = on_device(*ops, x), of_weight = on_device(*ops, weight),
                   of_delta = on_device(*ops, delta);
        auto of_out = on_device(*ops, out), of_by_x = on_device(*ops, by_x),
             of_by_weight = on_device(*ops, by_weight);
        ops->convolve(shape, outputs, kernel, of_x.data(), of_weight.data(), of_out.data());
        reference->convolve(shape, outputs, kernel, x.data(), weight.data(), out.data());
        CHECK(furthest_apart(on_host(*ops, of_out), out) <= 1e-5);
        ops->convolve_backward(shape, outputs, kernel, of_x.data(), of_weight.data(), of_delta.data(),
                               of_by_x.data(), of_by_weight.data());
        reference->convolve_backward(shape, outputs, kernel, x.data(), weight.data(), delta.data(),
                                     by_x.data(), by_weight.data());
        CHECK(furthest_apart(on_host(*ops, of_by_x), by_x) <= 1e-5);
        CHECK(furthest_apart(on_host(*ops, of_by_weight), by_weight) <= 1e-5);
        ops->convolve_backward(shape, outputs, kernel, of_x.data(), of_weight.data(), of_delta.data(),
                               nullptr, of_by_weight.data());
        CHECK(furthest_apart(on_host(*ops, of_by_weight), by_weight) <= 1e-5);
      }
    }
  });
}

TEST_CASE("a max pool and its gradient have the same bits on the device as in the reference") {
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    for (const ImageShape shape : {ImageShape{1, 2, 2, 1}, {2, 5, 4, 3}, {2, 1, 3, 2}, {0, 4, 4, 1}}) {
      auto x = numbers(area(shape.pixels(), shape.channels));
      if (x.size() > 20) x[0] = x[3] = 2;  // the first of equal numbers counts
      std::vector<float> out(area(shape.batch * (shape.height / 2), shape.width / 2 * shape.channels));
      const auto delta = numbers(out.size());
      std::vector<float> by_x(x.size());
      const auto of_x = on_device(*ops, x), of_delta = on_device(*ops, delta);
      auto of_out = on_device(*ops, out), of_by_x = on_device(*ops, numbers(x.size()));
      ops->max_pool(shape, of_x.data(), of_out.data());
      reference->max_pool(shape, x.data(), out.data());
      CHECK(on_host(*ops, of_out) == out);
      ops->max_pool_backward(shape, of_x.data(), of_delta.data(), of_by_x.data());
      reference->max_pool_backward(shape, x.data(), delta.data(), by_x.data());
      CHECK(on_host(*ops, of_by_x) == by_x);
    }
  });
}

TEST_CASE("a max pool on the device treats a NaN as the largest number of its square") {
  const auto ops = device_ops();
  const float none = std::numeric_limits<float>::quiet_NaN();
  const auto x = on_device(*ops, {1, none, 3, 4});
  auto out = ops->allocate<float>(1);
  ops->max_pool({1, 2, 2, 1}, x.data(), out.data());
  CHECK(std::isnan(on_host(*ops, out)[0]));
}
