// Products by cuBLASLt, with a library of the same name that multiplies on the host
// (tests/cuda/fake_cublaslt.cpp).
#include <cmath>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/bfloat16.h"
#include "kernels/reference/reference_ops.h"
#include "tests/cuda/emulator/streams.h"
#include "tests/cuda/fake_cublaslt.h"
#include "tests/unit/cuda/device_tensors.h"
#include "tests/unit/cuda/linear_layers.h"

TEST_SUITE_BEGIN("cuda/cublaslt");

using namespace mlk::kernels;
using mlk::test::area;
using mlk::test::device_ops;
using mlk::test::error_of_layers;
using mlk::test::furthest_apart;
using mlk::test::not_a_number;
using mlk::test::Numbers;
using mlk::test::on_device;
using mlk::test::on_host;

namespace {

// While this library is loaded, the device finds it under the name of the real library.
class Library {
 public:
  Library() : handle_(dlopen(MLK_FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE_MESSAGE(handle_, dlerror());
    state_ = reinterpret_cast<decltype(&fake_cublaslt)>(dlsym(handle_, "fake_cublaslt"))();
    *state_ = {};
    state_->enqueue = mlk::emulator::enqueue;
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  FakeCublasLt& state() { return *state_; }

 private:
  void* handle_;
  FakeCublasLt* state_ = nullptr;
};

// Multiplies a[m, k] by b[k, n], and returns the largest difference from the reference.
double error_of_product(Ops& ops, bool rounds, Transpose ta, Transpose tb, int m, int n, int k, float beta,
                        std::size_t offset = 0) {
  const auto reference = make_reference_ops();
  Numbers numbers;
  auto a = numbers(area(m, k) + offset), b = numbers(area(k, n));
  auto c = numbers(area(m, n));
  auto of_c = on_device(ops, beta == 0 ? std::vector<float>(c.size(), not_a_number) : c);
  const auto of_a = on_device(ops, a), of_b = on_device(ops, b);
  ops.gemm(ta, tb, m, n, k, 1.5f, of_a.data() + offset, of_b.data(), beta, of_c.data());
  if (rounds) {
    for (float& value : a) value = to_bfloat16(value).value();
    for (float& value : b) value = to_bfloat16(value).value();
  }
  reference->gemm(ta, tb, m, n, k, 1.5f, a.data() + offset, b.data(), beta, c.data());
  return furthest_apart(on_host(ops, of_c), c);
}

}  // namespace

TEST_CASE(
    "a device computes products with cuBLASLt and shows the library's version, if the library is installed") {
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    CAPTURE(static_cast<int>(precision));
    Library library;
    {
      const auto ops = device_ops(precision);
      CHECK(std::string(ops->name()) == "emulated device (cuBLASLt 13.0.2)");
      int products = 0;
      for (const Transpose ta : {Transpose::no, Transpose::yes}) {
        for (const Transpose tb : {Transpose::no, Transpose::yes}) {
          for (const float beta : {0.0f, 0.5f}) {
            CHECK(error_of_product(*ops, precision == Precision::bfloat16, ta, tb, 5, 17, 11, beta) <= 3e-6);
            CHECK(library.state().products == ++products);
          }
        }
      }
      CHECK(library.state().choices == 4);  // an algorithm is chosen once for each shape
      CHECK(error_of_product(*ops, precision == Precision::bfloat16, Transpose::no, Transpose::no, 3, 2, 0,
                             0.5f) == 0);
      CHECK(library.state().products == products);
    }
    CHECK(library.state().refusals == 0);
    CHECK(library.state().left_alive == 0);
  }
}

TEST_CASE("the precision tf32 makes cuBLASLt use TF32, and does not change our own kernels") {
  for (const Precision precision : {Precision::float32, Precision::bfloat16, Precision::tf32}) {
    Library library;
    const auto ops = device_ops(precision);
    const bool rounds = precision == Precision::bfloat16;
    CHECK(error_of_product(*ops, rounds, Transpose::no, Transpose::yes, 5, 17, 11, 0) <= 3e-6);
    CHECK(library.state().of_tf32 == (precision == Precision::tf32 ? 1 : 0));
    CHECK(library.state().products == 1);
    library.state().finds_nothing = true;
    CHECK(error_of_product(*ops, rounds, Transpose::no, Transpose::yes, 6, 17, 11, 0) <= 3e-6);
    CHECK(library.state().products == 1);
    CHECK(library.state().refusals == 0);
  }
}

TEST_CASE(
    "cuBLASLt adds biases and residuals, and computes GELU and its gradient, in the same call as the "
    "product") {
  for (const Precision precision : {Precision::float32, Precision::bfloat16, Precision::tf32}) {
    CAPTURE(static_cast<int>(precision));
    const bool rounds = precision == Precision::bfloat16;
    Library library;
    {
      const auto ops = device_ops(precision);
      // The five epilogues: two biases, one of them with a residual; GELU; and the gradient of GELU,
      // twice.
      CHECK(error_of_layers(*ops, rounds, rounds, {5, 16, 24}) <= 1);
      CHECK(library.state().epilogues == 5);
      CHECK(library.state().products == 4 + 4 * 2);
      // The epilogues with GELU need rows of a multiple of 8 numbers, and these rows have another length.
      CHECK(error_of_layers(*ops, rounds, rounds, {5, 17, 11}) <= 1);
      CHECK(library.state().epilogues == 5 + 2);
      CHECK(library.state().products == 2 * (4 + 4 * 2));
      CHECK(error_of_layers(*ops, rounds, rounds, {0, 8, 8}) <= 1);
      library.state().knows_no_epilogues = true;
      CHECK(error_of_layers(*ops, rounds, rounds, {6, 16, 24}) <= 1);
      CHECK(library.state().epilogues == 5 + 2);
      CHECK(library.state().products == 3 * (4 + 4 * 2));
    }
    CHECK(library.state().refusals == 0);
    CHECK(library.state().left_alive == 0);
  }
}

TEST_CASE("cuBLASLt uses the same algorithm for layers of the same shape with different biases") {
  Library library;
  const auto ops = device_ops();
  const auto x = on_device(*ops, {1}), weight = on_device(*ops, {2});
  auto out = on_device(*ops, {0});
  for (const float bias : {3.0f, 4.0f, 3.0f}) {
    const auto of_bias = on_device(*ops, {0, 0, 0, 0, bias});
    const LinearLayer layer{1, 1, 1, x.data(), weight.data(), of_bias.data() + 4};
    ops->linear(layer, nullptr, out.data());
    CHECK(on_host(*ops, out) == std::vector<float>{2 + bias});
    const auto other = on_device(*ops, {0, 0, 0, 0, bias + 1});
    LinearLayer again = layer;
    again.bias = other.data() + 4;
    ops->linear(again, nullptr, out.data());
    CHECK(on_host(*ops, out) == std::vector<float>{3 + bias});
  }
  CHECK(library.state().choices == 1);
  CHECK(library.state().epilogues == 6);
}

TEST_CASE("a separate algorithm is chosen for matrices of the same shape that are not aligned to 16 bytes") {
  Library library;
  const auto ops = device_ops();
  for (const std::size_t offset : {0u, 1u, 4u, 1u})
    CHECK(error_of_product(*ops, false, Transpose::no, Transpose::no, 4, 4, 4, 0, offset) <= 2e-6);
  CHECK(library.state().choices == 2);
  CHECK(library.state().products == 4);
  CHECK(library.state().refusals == 0);
}

TEST_CASE("our own kernel computes a product if cuBLASLt has no algorithm for it") {
  Library library;
  library.state().finds_nothing = true;
  const auto ops = device_ops();
  for (int time = 0; time < 2; ++time)
    CHECK(error_of_product(*ops, false, Transpose::no, Transpose::yes, 5, 17, 11, 0.5f) <= 3e-6);
  CHECK(library.state().choices == 1);
  CHECK(library.state().products == 0);
}

TEST_CASE("a device does not use cuBLASLt if the library has another version than 13") {
  Library library;
  library.state().version = 120803;
  CHECK(std::string(device_ops()->name()) == "emulated device");
}
