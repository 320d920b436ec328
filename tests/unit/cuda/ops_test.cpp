// Tests every operation of the plugin on the emulator against the reference, on ragged sizes, and with
// the threads of a block in three orders.
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/reference/reference_ops.h"
#include "tests/unit/cuda/device_tensors.h"

#ifndef MLK_DEVICE_PLUGIN
#include "tests/cuda/emulator/streams.h"
#endif

TEST_SUITE_BEGIN("cuda/ops");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::device_ops;
using mlk::test::furthest_apart;
using mlk::test::in_each_order;
using mlk::test::not_a_number;
using mlk::test::Numbers;
using mlk::test::on_device;
using mlk::test::on_host;
using mlk::test::Shape;
using mlk::test::tokens_on_device;

namespace {

// The allowed difference of sums of `terms` products of numbers below 1, added up in float.
double sum_bound(int terms) { return 4e-7 * std::sqrt(terms + 1.0) + 1e-6; }

const Shape matrices[] = {{1, 1}, {3, 5}, {9, 32}, {33, 31}, {70, 65}, {0, 4}, {200, 132}};

}  // namespace

TEST_CASE(
    "gemm on the device agrees with the reference for every transposition, also if sizes do not fill whole "
    "tiles") {
  struct Size {
    int m, n, k;
  };
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    for (const Size size :
         {Size{1, 1, 1}, {65, 3, 17}, {7, 70, 33}, {64, 64, 16}, {0, 3, 2}, {3, 2, 0}, {130, 131, 37}}) {
      for (const Transpose ta : {Transpose::no, Transpose::yes}) {
        for (const Transpose tb : {Transpose::no, Transpose::yes}) {
          for (const float beta : {0.0f, 0.5f}) {
            CAPTURE(size.m);
            CAPTURE(size.n);
            CAPTURE(size.k);
            const auto a = numbers(area(size.m, size.k)), b = numbers(area(size.k, size.n));
            auto c = numbers(area(size.m, size.n));
            // With beta 0 the old content of c does not matter.
            const auto begin = beta == 0 ? std::vector<float>(c.size(), not_a_number) : c;
            const auto of_a = on_device(*ops, a), of_b = on_device(*ops, b);
            auto of_c = on_device(*ops, begin);
            ops->gemm(ta, tb, size.m, size.n, size.k, 1.5f, of_a.data(), of_b.data(), beta, of_c.data());
            reference->gemm(ta, tb, size.m, size.n, size.k, 1.5f, a.data(), b.data(), beta, c.data());
            CHECK(furthest_apart(on_host(*ops, of_c), c) <= sum_bound(size.k));
          }
        }
      }
    }
  });
}

TEST_CASE("on the device, products with a long inner dimension agree with the reference") {
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    constexpr int m = 130, n = 5, k = 530;
    const auto a = numbers(area(m, k)), b = numbers(area(k, n));
    auto c = numbers(area(m, n));
    const auto of_a = on_device(*ops, a), of_b = on_device(*ops, b);
    auto of_c = on_device(*ops, c);
    ops->gemm(Transpose::yes, Transpose::no, m, n, k, 0.5f, of_a.data(), of_b.data(), 0.5f, of_c.data());
    reference->gemm(Transpose::yes, Transpose::no, m, n, k, 0.5f, a.data(), b.data(), 0.5f, c.data());
    CHECK(furthest_apart(on_host(*ops, of_c), c) <= 2e-5);
  });
}

TEST_CASE("on the device, adding a bias gives the reference's bits, with ReLU and without") {
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    for (const auto [rows, columns] : matrices) {
      auto x = numbers(area(rows, columns));
      const auto bias = numbers(static_cast<std::size_t>(columns));
      if (!x.empty()) x.back() = not_a_number;
      auto of_x = on_device(*ops, x), of_bias = on_device(*ops, bias), again = on_device(*ops, x);
      ops->add_bias(rows, columns, of_bias.data(), of_x.data());
      ops->add_bias_relu(rows, columns, of_bias.data(), again.data());
      auto with_relu = x;
      reference->add_bias(rows, columns, bias.data(), x.data());
      reference->add_bias_relu(rows, columns, bias.data(), with_relu.data());
      if (!x.empty()) CHECK(std::isnan(on_host(*ops, of_x).back()));
      if (!x.empty()) CHECK(std::isnan(on_host(*ops, again).back()));
      if (x.empty()) continue;
      x.pop_back();
      with_relu.pop_back();
      CHECK(on_host(*ops, std::span<const float>(of_x).first(x.size())) == x);
      CHECK(on_host(*ops, std::span<const float>(again).first(x.size())) == with_relu);
    }
  });
}

TEST_CASE("on the device, the gradients of a bias agree with the reference, with ReLU and without") {
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    for (const auto [rows, columns] : matrices) {
      CAPTURE(rows);
      CAPTURE(columns);
      auto delta = numbers(area(rows, columns));
      const auto output = numbers(area(rows, columns));
      std::vector<float> sums(static_cast<std::size_t>(columns)), relu_sums(sums);
      auto of_delta = on_device(*ops, delta);
      const auto of_output = on_device(*ops, output);
      auto of_sums = on_device(*ops, std::vector<float>(sums.size(), not_a_number));
      ops->bias_backward(rows, columns, of_delta.data(), of_sums.data());
      reference->bias_backward(rows, columns, delta.data(), sums.data());
      CHECK(furthest_apart(on_host(*ops, of_sums), sums) <= sum_bound(rows));
      CHECK(on_host(*ops, of_delta) == delta);
      ops->bias_relu_backward(rows, columns, of_output.data(), of_delta.data(), of_sums.data());
      reference->bias_relu_backward(rows, columns, output.data(), delta.data(), relu_sums.data());
      CHECK(furthest_apart(on_host(*ops, of_sums), relu_sums) <= sum_bound(rows));
      CHECK(on_host(*ops, of_delta) == delta);
    }
  });
}

TEST_CASE("on the device, the loss, its gradient and the number of correct rows agree with the reference") {
  in_each_order([] {
    const auto ops = device_ops(), reference = make_reference_ops();
    Numbers numbers;
    for (const auto [rows, classes] :
         {Shape{1, 1}, {1, 2}, {5, 10}, {3, 33}, {2, 130}, {0, 3}, {3, 1031}, {1, 4099}}) {
      CAPTURE(rows);
      CAPTURE(classes);
      auto logits = numbers(area(rows, classes));
      for (float& logit : logits) logit *= 20;
      if (rows > 1) logits[0] = logits[1] = 30;  // the first of two equal logits counts
      const auto labels = numbers.labels(rows, classes);
      const auto of_logits = on_device(*ops, logits);
      const auto of_labels = tokens_on_device(*ops, labels);
      auto of_delta = on_device(*ops, logits);
      std::vector<float> delta(logits.size());
      const float loss = ops->softmax_cross_entropy(rows, classes, of_logits.data(), of_labels.data());
      float expected = 0;
      reference->softmax_cross_entropy_backward(rows, classes, logits.data(), labels.data(), delta.data(),
                                                &expected);
      CHECK(loss == doctest::Approx(expected).epsilon(1e-6));
      auto of_loss = on_device(*ops, {not_a_number});
      ops->softmax_cross_entropy_backward(rows, classes, of_delta.data(), of_labels.data(), of_delta.data(),
                                          of_loss.data());
      CHECK(on_host(*ops, of_loss).front() == loss);
      CHECK(furthest_apart(on_host(*ops, of_delta), delta) <= 1e-6);
      CHECK(ops->count_correct(rows, classes, of_logits.data(), of_labels.data()) ==
            reference->count_correct(rows, classes, logits.data(), labels.data()));
    }
  });
}

TEST_CASE("a NaN logit at any place makes the loss of the device NaN") {
  const auto ops = device_ops();
  for (const std::size_t at : {0u, 6u, 9u}) {
    std::vector<float> logits(10, 1);
    logits[at] = not_a_number;
    const auto of_logits = on_device(*ops, logits);
    const auto labels = tokens_on_device(*ops, {3});
    CHECK(std::isnan(ops->softmax_cross_entropy(1, 10, of_logits.data(), labels.data())));
  }
}

TEST_CASE("a logit of minus infinity at any place has the probability 0 on the device") {
  const auto ops = device_ops(), reference = make_reference_ops();
  for (const std::size_t at : {0u, 6u, 9u}) {
    auto logits = Numbers()(10);
    logits[at] = -HUGE_VALF;
    const auto of_logits = on_device(*ops, logits);
    const std::vector<std::int32_t> labels{3};
    const auto of_labels = tokens_on_device(*ops, labels);
    CHECK(
        ops->softmax_cross_entropy(1, 10, of_logits.data(), of_labels.data()) ==
        doctest::Approx(reference->softmax_cross_entropy(1, 10, logits.data(), labels.data())).epsilon(1e-6));
  }
}

TEST_CASE("the optimizers on the device give the reference's bits") {
  const auto ops = device_ops(), reference = make_reference_ops();
  Numbers numbers;
  for (const std::size_t size : {1u, 255u, 257u, 1000u}) {
    auto parameters = numbers(size), velocity = numbers(size), mean = numbers(size);
    const auto gradients = numbers(size);
    auto square = numbers(size);
    for (float& value : square) value = std::abs(value);
    auto of_parameters = on_device(*ops, parameters), of_velocity = on_device(*ops, velocity),
         of_mean = on_device(*ops, mean), of_square = on_device(*ops, square);
    const auto of_gradients = on_device(*ops, gradients);
    for (const bool nesterov : {false, true}) {
      const SgdStep step{0.3f, 0.7f, 0.01f, nesterov};
      ops->sgd(of_parameters, of_gradients, of_velocity, step);
      reference->sgd(parameters, gradients, velocity, step);
      CHECK(on_host(*ops, of_parameters) == parameters);
      CHECK(on_host(*ops, of_velocity) == velocity);
    }
    const AdamStep step{.lr = 0.1f,
                        .epsilon = 1e-8f,
                        .l2 = 0.01f,
                        .decay = 0.001f,
                        .beta1 = 0.9f,
                        .one_minus_beta1 = 0.1f,
                        .beta2 = 0.999f,
                        .one_minus_beta2 = 0.001f};
    ops->adam(of_parameters, of_gradients, of_mean, of_square, step);
    reference->adam(parameters, gradients, mean, square, step);
    CHECK(on_host(*ops, of_parameters) == parameters);
    CHECK(on_host(*ops, of_mean) == mean);
    CHECK(on_host(*ops, of_square) == square);
  }
}

TEST_CASE("scaling and adding on the device give the reference's bits, also in place") {
  const auto ops = device_ops(), reference = make_reference_ops();
  Numbers numbers;
  auto x = numbers(300);
  const auto y = numbers(300);
  auto of_x = on_device(*ops, x);
  const auto of_y = on_device(*ops, y);
  ops->add_scaled(of_x, 0.3f, of_y, of_x);
  reference->add_scaled(x, 0.3f, y, x);
  CHECK(on_host(*ops, of_x) == x);
  ops->scale(0.7f, of_x, of_x);
  reference->scale(0.7f, x, x);
  CHECK(on_host(*ops, of_x) == x);
  auto poisoned = on_device(*ops, std::vector<float>(5, not_a_number));
  ops->scale(0, poisoned, poisoned);
  CHECK(on_host(*ops, poisoned) == std::vector<float>(5, 0.0f));
}

TEST_CASE("elementwise operations accept tensors at any offset in their buffers, also at different offsets") {
  const auto ops = device_ops(), reference = make_reference_ops();
  Numbers numbers;
  constexpr std::size_t size = 300, room = size + 8;
  for (const std::size_t offset : {1u, 2u, 4u}) {
    for (const std::size_t other : {std::size_t{3}, offset}) {
      CAPTURE(offset);
      CAPTURE(other);
      auto x = numbers(room), parameters = numbers(room), velocity = numbers(room);
      const auto y = numbers(room);
      auto of_x = on_device(*ops, x), of_parameters = on_device(*ops, parameters),
           of_velocity = on_device(*ops, velocity);
      const auto of_y = on_device(*ops, y);
      const auto part = [](auto& tensor, std::size_t from) { return std::span(tensor.data() + from, size); };
      ops->add_scaled(part(of_x, offset), 0.3f, part(of_y, other), part(of_x, offset));
      reference->add_scaled(part(x, offset), 0.3f, part(y, other), part(x, offset));
      ops->scale(0.7f, part(of_x, offset), part(of_x, offset));
      reference->scale(0.7f, part(x, offset), part(x, offset));
      const DropoutMask mask{.probability = 0.3f, .seed = 5, .stream = 2, .first = other};
      ops->dropout(mask, part(of_x, offset), part(of_x, offset));
      reference->dropout(mask, part(x, offset), part(x, offset));
      const SgdStep step{0.3f, 0.7f, 0.01f, true};
      ops->sgd(part(of_parameters, offset), part(of_y, other), part(of_velocity, offset), step);
      reference->sgd(part(parameters, offset), part(y, other), part(velocity, offset), step);
      CHECK(on_host(*ops, of_x) == x);
      CHECK(on_host(*ops, of_parameters) == parameters);
      CHECK(on_host(*ops, of_velocity) == velocity);
    }
  }
}

TEST_CASE(
    "round(), sgd() and adam() write the rounded numbers into the bfloat16 copy, also if it is unaligned") {
  constexpr std::size_t room = 300;
  const auto ops = device_ops(Precision::bfloat16);
  REQUIRE(ops->uses_rounded());
  Numbers numbers;
  for (const std::size_t offset : {0u, 1u, 2u, 3u}) {
    for (const std::size_t size : {0u, 1u, 3u, 255u, 290u}) {
      CAPTURE(offset);
      CAPTURE(size);
      const auto part = [&](Buffer<float>& tensor) { return std::span(tensor.data() + offset, size); };
      const auto nothing = std::vector<float>(room / 2, 1);
      auto of_x = on_device(*ops, numbers(room)), of_y = on_device(*ops, numbers(room)),
           of_velocity = on_device(*ops, numbers(room)), of_square = on_device(*ops, numbers(room)),
           of_rounded = on_device(*ops, nothing);
      auto* const rounded = reinterpret_cast<BFloat16*>(of_rounded.data()) + offset;
      const auto check = [&] {
        const auto x = on_host(*ops, of_x), found = on_host(*ops, of_rounded);
        std::vector<std::uint16_t> copy(room), expected(room);
        std::memcpy(copy.data(), found.data(), room * sizeof(BFloat16));
        std::memcpy(expected.data(), nothing.data(), room * sizeof(BFloat16));
        for (std::size_t i = offset; i < offset + size; ++i) expected[i] = to_bfloat16(x[i]).bits;
        for (std::size_t i = 0; i < room; ++i) CHECK(copy[i] == expected[i]);
        ops->write(nothing, of_rounded);
      };
      ops->round(part(of_x), rounded);
      check();
      ops->sgd(part(of_x), part(of_y), part(of_velocity), {.lr = 0.3f}, rounded);
      check();
      ops->adam(part(of_x), part(of_y), part(of_velocity), part(of_square), {.lr = 0.1f, .epsilon = 2},
                rounded);
      check();
    }
  }
  CHECK_FALSE(device_ops()->uses_rounded());
}

TEST_CASE(
    "gather_rows() and gather_labels() on the device give the rows and labels of the requested samples") {
  std::vector<std::uint8_t> table(50 * 7);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i * 37);
  const auto ops = device_ops(), reference = make_reference_ops();
  const auto of_samples = ops->hold(table);
  for (const std::vector<std::uint64_t>& ids :
       {std::vector<std::uint64_t>{3, 0, 49, 3}, {7}, {}, {1, 2, 3, 4, 5, 6, 7}}) {
    std::vector<float> rows(ids.size() * 7);
    auto of_rows = ops->allocate<float>(rows.size());
    ops->gather_rows(ids, 7, of_samples.data(), 1 / 255.0f, of_rows.data());
    reference->gather_rows(ids, 7, table.data(), 1 / 255.0f, rows.data());
    CHECK(on_host(*ops, of_rows) == rows);
    // Read back as the rows of a table whose row i is i.
    std::vector<float> numbers_to_255(256), gathered;
    for (std::size_t i = 0; i < 256; ++i) numbers_to_255[i] = static_cast<float>(i);
    for (const std::uint64_t id : ids) gathered.push_back(table[id]);
    auto of_labels = ops->allocate<std::int32_t>(ids.size());
    const auto of_table = on_device(*ops, numbers_to_255), of_position = on_device(*ops, {0});
    auto of_gathered = ops->allocate<float>(ids.size());
    ops->gather_labels(ids, of_samples.data(), of_labels.data());
    ops->embed(static_cast<int>(ids.size()), 1, 1, of_labels.data(), of_table.data(), of_position.data(),
               of_gathered.data());
    CHECK(on_host(*ops, of_gathered) == gathered);
  }
}

#ifndef MLK_DEVICE_PLUGIN
TEST_CASE(
    "gather_rows() reads a table that hold() has left on the host because the device has little memory") {
  const std::vector<std::uint8_t> table = {5, 6, 7, 8};
  const auto ops = device_ops();
  const std::vector<std::uint64_t> ids = {3, 1};
  auto of_rows = ops->allocate<float>(2);
  const auto small = ops->hold(table);
  mlk::emulator::use_device_memory(1);
  const auto large = ops->hold(table);
  mlk::emulator::use_device_memory(std::size_t{4} << 30);
  for (const auto* samples : {&small, &large}) {
    ops->gather_rows(ids, 1, samples->data(), 2, of_rows.data());
    CHECK(on_host(*ops, of_rows) == std::vector<float>{16, 12});
  }
}
#endif
