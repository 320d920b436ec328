// The device for the table of functions in kernels/device/plugin.h, and templates that make such
// functions from operations.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <cuda_runtime.h>

#include "kernels/cuda/base/kernels.h"
#include "kernels/cuda/base/scratch.h"
#include "kernels/cuda/early_copies.h"
#include "kernels/cuda/nvml.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/recordings.h"
#include "kernels/device/plugin.h"

struct mlk_device {
  int index = 0;
  std::string name, failure;
  cudaStream_t stream = nullptr;
  // For operations that return a number: of_rows has a value for each row, `total` is the sum of these
  // values, and `result` is the sum on the host.
  mlk::cuda::Scratch<float> of_rows;
  double* total = nullptr;
  double* result = nullptr;
  mlk::cuda::Scratch<float> windows;   // of a convolution
  mlk::cuda::Scratch<double> squares;  // of clipping
  mlk::cuda::Scratch<float> partials;  // of sums of columns
  mlk::cuda::Products products;
  mlk::cuda::Recordings recordings{stream};
  mlk::cuda::EarlyCopies early_copies;
  std::unique_ptr<mlk::cuda::XidEvents> faults;  // faults of the GPU that the driver reports

  mlk_device(mlk::kernels::Precision precision, int multiprocessors) : products(precision, multiprocessors) {}

  bool holds(cudaError_t error, const char* doing) {
    if (error == cudaSuccess || !failure.empty()) return failure.empty();
    failure = name + ": " + doing + ": " + cudaGetErrorString(error);
    const auto xid = faults && error != cudaErrorMemoryAllocation ? faults->last() : std::nullopt;
    if (xid) failure += " (Xid " + std::to_string(*xid) + ")";
    if (error == cudaErrorECCUncorrectable)
      failure += "; the memory of this GPU is faulty, so its node should be drained";
    return false;
  }
  // Call this after kernels were put into the stream.
  void check() { holds(cudaGetLastError(), "a kernel cannot start"); }

  // Memory for `wanted` numbers, with arbitrary content; null after a failure.
  template <typename Number>
  Number* space(mlk::cuda::Scratch<Number>& scratch, std::size_t wanted) {
    if (!failure.empty()) return nullptr;
    return holds(scratch.make_room(wanted), "scratch memory") ? scratch.numbers() : nullptr;
  }
  void multiply(mlk::cuda::Transpose transpose_a, mlk::cuda::Transpose transpose_b, int m, int n, int k,
                float alpha, const float* a, const float* b, float beta, float* c) {
    if (!failure.empty()) return;
    holds(products.gemm(stream, transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c), "a product");
    check();
  }

  double sum_of_rows(int count) {
    if (!failure.empty()) return 0;
    mlk::cuda::sum(stream, static_cast<std::size_t>(count), of_rows.numbers(), total);
    check();
    holds(cudaMemcpyAsync(result, total, sizeof(double), cudaMemcpyDeviceToHost, stream), "a copy");
    holds(cudaStreamSynchronize(stream), "waiting for the device");
    return failure.empty() ? *result : 0;
  }
};

namespace mlk::cuda {

// How a function of the table takes a parameter of its operation: as a pointer if the operation takes a
// reference.
template <typename Parameter>
struct InTable {
  using Type = Parameter;
  static Parameter value(Parameter parameter) { return parameter; }
};
template <typename Struct>
struct InTable<const Struct&> {
  using Type = const Struct*;
  static const Struct& value(const Struct* parameter) { return *parameter; }
};

// The function of the table that queues an operation.
template <auto operation>
struct Queue;
template <typename... Parameters, void (*operation)(cudaStream_t, Parameters...)>
struct Queue<operation> {
  static void call(mlk_device* device, typename InTable<Parameters>::Type... parameters) {
    if (!device->failure.empty()) return;
    operation(device->stream, InTable<Parameters>::value(parameters)...);
    device->check();
  }
};
template <auto operation>
constexpr auto queue = &Queue<operation>::call;

// Like Queue, but for operations that need memory for partial sums.
template <auto operation, auto needed>
struct QueueSums;
template <typename... Parameters, void (*operation)(cudaStream_t, float*, int, int, Parameters...),
          auto needed>
struct QueueSums<operation, needed> {
  static void call(mlk_device* device, int rows, int columns, Parameters... parameters) {
    float* const partials = device->space(device->partials, needed(rows, columns));
    if (!device->failure.empty()) return;
    operation(device->stream, partials, rows, columns, parameters...);
    device->check();
  }
};
template <auto operation, auto needed = partial_sums>
constexpr auto queue_sums = &QueueSums<operation, needed>::call;

// Like Queue, but for operations of Products.
template <auto operation>
struct QueueProducts;
template <typename... Parameters, cudaError_t (Products::*operation)(cudaStream_t, Parameters...)>
struct QueueProducts<operation> {
  static void call(mlk_device* device, typename InTable<Parameters>::Type... parameters) {
    if (!device->failure.empty()) return;
    device->holds((device->products.*operation)(device->stream, InTable<Parameters>::value(parameters)...),
                  "a product");
    device->check();
  }
};
template <auto operation>
constexpr auto queue_products = &QueueProducts<operation>::call;

}  // namespace mlk::cuda
