// The table of kernels/device/plugin.h on CUDA.
#include "kernels/device/plugin.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include <cuda_runtime.h>

#include "kernels/cuda/communicator.h"
#include "kernels/cuda/device.h"

using mlk::cuda::queue;
using mlk::cuda::queue_products;
using mlk::cuda::queue_sums;
using mlk::kernels::ImageShape;
using mlk::kernels::LinearGradients;
using mlk::kernels::LinearLayer;
using mlk::kernels::Precision;
using mlk::kernels::Transpose;
namespace cuda = mlk::cuda;

namespace {

constexpr int least_capability = 80;  // 10 * major version + minor version

// Returns a sentence that says why the device cannot be used, or an empty text if it can.
std::string unusable(int index, cudaDeviceProp& properties) {
  int count = 0;  // a failed call does not change it
  const cudaError_t error = cudaGetDeviceCount(&count);
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const auto version = [](int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  };
  if (error == cudaErrorInsufficientDriver && driver == 0) return "there is no NVIDIA driver on this machine";
  if (error == cudaErrorInsufficientDriver || (driver > 0 && driver / 1000 < runtime / 1000))
    return "the NVIDIA driver is for CUDA " + version(driver) + ", and mlk-runtime needs one for CUDA " +
           version(runtime) + " or newer";
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) return "this machine has no GPU";
  if (error != cudaSuccess) return std::string("the GPUs cannot be used: ") + cudaGetErrorString(error);
  if (index >= count)
    return "GPU " + std::to_string(index) + " is not there: this process sees " + std::to_string(count);
  const cudaError_t asked = cudaGetDeviceProperties(&properties, index);
  if (asked != cudaSuccess) return std::string("the GPU cannot be used: ") + cudaGetErrorString(asked);
  if (properties.major * 10 + properties.minor < least_capability) {
    return std::string(properties.name) + " has compute capability " + std::to_string(properties.major) +
           "." + std::to_string(properties.minor) + ", and mlk-runtime needs 8.0 or newer";
  }
  return {};
}

void close_device(mlk_device* device) {
  cudaFree(device->total);
  cudaFreeHost(device->result);
  device->recordings.forget();
  if (device->stream) cudaStreamDestroy(device->stream);
  delete device;
}

mlk_device* open_device(int index, int precision, char* why, std::size_t size) {
  cudaDeviceProp properties{};
  const std::string reason = unusable(index, properties);
  if (!reason.empty()) {
    std::snprintf(why, size, "%s", reason.c_str());
    return nullptr;
  }
  auto* const device = new mlk_device(static_cast<Precision>(precision), properties.multiProcessorCount);
  device->index = index;
  device->name = properties.name;
  device->holds(cudaSetDevice(index), "cannot be used");
  device->holds(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking), "cannot be used");
  device->holds(cudaMalloc(reinterpret_cast<void**>(&device->total), sizeof(double)), "cannot be used");
  device->holds(cudaMallocHost(reinterpret_cast<void**>(&device->result), sizeof(double)), "cannot be used");
  if (device->failure.empty()) {
    const std::string version = device->products.use_cublaslt();
    if (!version.empty()) device->name += " (cuBLASLt " + version + ")";
    device->faults = std::make_unique<cuda::XidEvents>(index);
    return device;
  }
  std::snprintf(why, size, "%s", device->failure.c_str());
  close_device(device);
  return nullptr;
}

void* allocate(mlk_device* device, std::size_t bytes) {
  void* memory = nullptr;
  ++cuda::allocations;
  if (cudaMalloc(&memory, bytes > 0 ? bytes : 1) != cudaSuccess) {
    cudaGetLastError();  // clears the error, because the caller reports it
    return nullptr;
  }
  device->holds(cudaMemsetAsync(memory, 0, bytes, device->stream), "memory cannot be cleared");
  return memory;
}

void* allocate_host(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMallocHost(&memory, bytes) == cudaSuccess) return memory;
  cudaGetLastError();
  return nullptr;
}

std::size_t memory_left(mlk_device*) {
  std::size_t left = 0, all = 0;
  if (cudaMemGetInfo(&left, &all) == cudaSuccess) return left;
  cudaGetLastError();
  return 0;
}

void to_device(mlk_device* device, const void* values, void* memory, std::size_t bytes) {
  device->holds(cudaMemcpyAsync(memory, values, bytes, cudaMemcpyHostToDevice, device->stream), "a copy");
}

void to_host(mlk_device* device, const void* memory, void* values, std::size_t bytes) {
  device->holds(cudaMemcpyAsync(values, memory, bytes, cudaMemcpyDeviceToHost, device->stream), "a copy");
  device->holds(cudaStreamSynchronize(device->stream), "waiting for the device");
}

std::uint64_t start_to_host(mlk_device* device, const void* memory, void* values, std::size_t bytes) {
  std::uint64_t number = 0;
  if (device->failure.empty())
    device->holds(device->early_copies.begin(device->stream, memory, values, bytes, number), "a copy");
  return number;
}

void wait_for_copy(mlk_device* device, std::uint64_t number) {
  if (device->failure.empty()) device->holds(device->early_copies.wait(number), "waiting for the device");
}

void wait(mlk_device* device) {
  device->holds(cudaStreamSynchronize(device->stream), "waiting for the device");
}

void softmax_cross_entropy(mlk_device* device, int rows, int classes, const float* logits,
                           const std::int32_t* labels, float* delta, float* loss) {
  const auto count = static_cast<std::size_t>(rows);
  float* const losses = device->space(device->of_rows, std::max<std::size_t>(count, 1));
  if (!losses) return;
  cuda::softmax_cross_entropy(device->stream, rows, classes, logits, labels, losses, delta);
  cuda::mean(device->stream, count, losses, loss);
  device->check();
}

std::int64_t count_correct(mlk_device* device, int rows, int classes, const float* logits,
                           const std::int32_t* labels) {
  float* const correct = device->space(device->of_rows, static_cast<std::size_t>(rows));
  if (rows == 0 || !correct) return 0;
  cuda::mark_correct(device->stream, rows, classes, logits, labels, correct);
  return static_cast<std::int64_t>(device->sum_of_rows(rows));
}

void gemm(mlk_device* device, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
          const float* a, const float* b, float beta, float* c) {
  device->multiply(transpose_a ? Transpose::yes : Transpose::no, transpose_b ? Transpose::yes : Transpose::no,
                   m, n, k, alpha, a, b, beta, c);
}

void linear_backward(mlk_device* device, const LinearLayer* layer, const float* delta,
                     const LinearGradients* to) {
  float* const partials =
      device->space(device->partials, std::max(cuda::partial_sums(layer->rows, layer->outputs),
                                               cuda::partial_sums(layer->rows, layer->inputs)));
  if (!device->failure.empty()) return;
  device->holds(device->products.linear_backward(device->stream, *layer, delta, *to, partials), "a product");
  device->check();
}

void clip(mlk_device* device, std::size_t size, float* gradients, float most) {
  double* const sums = device->space(device->squares, cuda::clip_sums);
  if (!sums) return;
  cuda::clip(device->stream, size, gradients, most, sums);
  device->check();
}

int window_size(const ImageShape& shape, int kernel) { return kernel * kernel * shape.channels; }

float* space_of_windows(mlk_device* device, const ImageShape& shape, int kernel) {
  return device->space(device->windows, static_cast<std::size_t>(shape.pixels()) *
                                            static_cast<std::size_t>(window_size(shape, kernel)));
}

void convolve(mlk_device* device, const ImageShape* shape, int outputs, int kernel, const float* x,
              const float* weight, float* out) {
  float* const windows = space_of_windows(device, *shape, kernel);
  if (!windows) return;
  cuda::im2col(device->stream, *shape, kernel, x, windows);
  device->multiply(Transpose::no, Transpose::yes, shape->pixels(), outputs, window_size(*shape, kernel), 1,
                   windows, weight, 0, out);
  device->check();
}

// The gradients of the windows overwrite the windows.
void convolve_backward(mlk_device* device, const ImageShape* shape, int outputs, int kernel, const float* x,
                       const float* weight, const float* delta, float* x_gradient, float* weight_gradient) {
  float* const windows = space_of_windows(device, *shape, kernel);
  if (!windows) return;
  const int pixels = shape->pixels(), size = window_size(*shape, kernel);
  cuda::im2col(device->stream, *shape, kernel, x, windows);
  device->multiply(Transpose::yes, Transpose::no, outputs, size, pixels, 1, delta, windows, 0,
                   weight_gradient);
  if (x_gradient) {
    device->multiply(Transpose::no, Transpose::no, pixels, size, outputs, 1, delta, weight, 0, windows);
    cuda::col2im(device->stream, *shape, kernel, windows, x_gradient);
  }
  device->check();
}

void usage(mlk_device* device, double* utilisation, double* memory_bytes, double* watts) {
  const cuda::GpuUsage now = cuda::usage_of(device->index);
  *utilisation = now.utilisation;
  *memory_bytes = now.memory_bytes;
  *watts = now.watts;
}

void repeat(mlk_device* device, std::uint64_t key, bool (*work)(void* context), void* context) {
  if (!device->failure.empty()) return;
  device->holds(device->recordings.run(key, work, context), "a recorded step");
}

int collectives_version(char* why, std::size_t size) {
  std::snprintf(why, size, "%s", cuda::nccl().why_none.c_str());
  return cuda::nccl().version;
}

bool new_group(unsigned char* id) {
  static_assert(sizeof(ncclUniqueId) == mlk_group_id_bytes);
  return cuda::nccl().get_unique_id(reinterpret_cast<ncclUniqueId*>(id)) == ncclSuccess;
}

mlk_communicator* join(mlk_device* device, const unsigned char* id, int members, int index) {
  ncclUniqueId group;
  std::memcpy(&group, id, sizeof group);
  return new mlk_communicator(device->index, device->stream, group, members, index);
}

constexpr mlk_device_table table{
    .open = open_device,
    .close = close_device,
    .name = [](const mlk_device* device) { return device->name.c_str(); },
    .failure = [](const mlk_device* device) -> const char* {
      return device->failure.empty() ? nullptr : device->failure.c_str();
    },
    .allocate = allocate,
    .free = [](void* memory) { cudaFree(memory); },
    .memory_left = memory_left,
    .allocate_host = allocate_host,
    .free_host = [](void* memory) { cudaFreeHost(memory); },
    .to_device = to_device,
    .to_host = to_host,
    .start_to_host = start_to_host,
    .wait_for_copy = wait_for_copy,
    .wait = wait,
    .gemm = gemm,
    .add_bias = queue<cuda::add_bias>,
    .add_bias_relu = queue<cuda::add_bias_relu>,
    .bias_backward = queue_sums<cuda::bias_backward>,
    .bias_relu_backward = queue_sums<cuda::bias_relu_backward>,
    .add_bias_gelu = queue<cuda::add_bias_gelu>,
    .bias_gelu_backward = queue_sums<cuda::bias_gelu_backward>,
    .linear = queue_products<&cuda::Products::linear>,
    .linear_gelu = queue_products<&cuda::Products::linear_gelu>,
    .linear_backward = linear_backward,
    .kept_size = [](const mlk_device* device, int rows,
                    int inputs) { return device->products.kept_size(rows, inputs); },
    .uses_rounded = [](const mlk_device* device) { return device->products.rounds(); },
    .round = queue<cuda::round_numbers>,
    .layer_norm = queue<cuda::layer_norm>,
    .layer_norm_backward = queue_sums<cuda::layer_norm_backward, cuda::layer_norm_partial_sums>,
    .embed = queue<cuda::embed>,
    .embed_backward = queue<cuda::embed_backward>,
    .attention = queue_products<&cuda::Products::attention>,
    .attention_backward = queue_products<&cuda::Products::attention_backward>,
    .convolve = convolve,
    .convolve_backward = convolve_backward,
    .max_pool = queue<cuda::max_pool>,
    .max_pool_backward = queue<cuda::max_pool_backward>,
    .dropout = queue<cuda::dropout>,
    .clip = clip,
    .softmax_cross_entropy = softmax_cross_entropy,
    .count_correct = count_correct,
    .sgd = queue<cuda::sgd>,
    .adam = queue<cuda::adam>,
    .scale = queue<cuda::scale>,
    .add_scaled = queue<cuda::add_scaled>,
    .gather_rows = queue<cuda::gather_rows>,
    .gather_labels = queue<cuda::gather_labels>,
    .usage = usage,
    .repeat = repeat,
    .collectives_version = collectives_version,
    .new_group = new_group,
    .join = join,
    .communicator_state = [](mlk_communicator* communicator) { return communicator->state(); },
    .sums_done = [](mlk_communicator* communicator) { return communicator->sums_done(); },
    .traffic = [](mlk_communicator* communicator, double* bytes,
                  double* seconds) { communicator->traffic(*bytes, *seconds); },
    .communicator_failure = [](mlk_communicator* communicator) { return communicator->failure(); },
    .sum = [](mlk_communicator* communicator, float* numbers,
              std::size_t size) { communicator->sum(numbers, size); },
    .abort = [](mlk_communicator* communicator) { return communicator->abort(); },
    .leave = [](mlk_communicator* communicator) { delete communicator; },
};

}  // namespace

const mlk_device_table* mlk_device_v4() { return &table; }
