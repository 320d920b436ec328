// The interface of libmlk-cuda.so for mlk-runtime: one table of C functions. So the library and mlk-runtime
// may be built with different compilers, and mlk-runtime also starts where CUDA is not installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dropout.h"
#include "kernels/optimizer_steps.h"
#include "kernels/shapes.h"

extern "C" {

// One device with its stream of operations, and the scratch memory that these operations share.
struct mlk_device;
// A device in a group of processes that have one device each.
struct mlk_communicator;

enum { mlk_group_id_bytes = 128 };

// Functions with a parameter `device` are for one thread at a time. Of these, only `to_host`,
// `wait_for_copy`, `wait` and `count_correct` always wait for the device. Any other operation waits only if
// its scratch memory has to grow. Operations run in the order of the calls, with the contracts of
// kernels/ops.h; tensors lie in memory of `allocate`. After a failure, no operation runs any more, and a
// function that would wait returns at once: check failure().
struct mlk_device_table {
  // Device `index` of this process. precision: a kernels::Precision. Null if the device cannot be used;
  // `why`, of `size` bytes, then holds a sentence.
  mlk_device* (*open)(int index, int precision, char* why, std::size_t size);
  void (*close)(mlk_device* device);
  // The name of the device, and whatever else identifies it. Lives as long as the device.
  const char* (*name)(const mlk_device* device);
  // What went wrong first, or null. Lives as long as the device.
  const char* (*failure)(const mlk_device* device);

  void* (*allocate)(mlk_device* device, std::size_t bytes);  // zeros; null: there is no memory left
  void (*free)(void* memory);                                // waits until no operation uses it; any thread
  std::size_t (*memory_left)(mlk_device* device);            // bytes, for all processes; 0: not known
  // Memory of the host that the device reads and writes directly.
  void* (*allocate_host)(std::size_t bytes);
  void (*free_host)(void* memory);
  // If `values` lie in memory of `allocate_host`, the host must not change them before the next call of
  // `wait`.
  void (*to_device)(mlk_device* device, const void* values, void* memory, std::size_t bytes);
  void (*to_host)(mlk_device* device, const void* memory, void* values, std::size_t bytes);
  // Begins to copy, as Ops::start_read() does, to memory of `allocate_host`. Returns the number of the copy,
  // for `wait_for_copy`.
  std::uint64_t (*start_to_host)(mlk_device* device, const void* memory, void* values, std::size_t bytes);
  void (*wait_for_copy)(mlk_device* device, std::uint64_t number);
  void (*wait)(mlk_device* device);

  void (*gemm)(mlk_device* device, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
               const float* a, const float* b, float beta, float* c);
  void (*add_bias)(mlk_device* device, int rows, int columns, const float* bias, float* x);
  void (*add_bias_relu)(mlk_device* device, int rows, int columns, const float* bias, float* x);
  void (*bias_backward)(mlk_device* device, int rows, int columns, const float* delta, float* bias_gradient);
  void (*bias_relu_backward)(mlk_device* device, int rows, int columns, const float* output, float* delta,
                             float* bias_gradient);
  void (*add_bias_gelu)(mlk_device* device, int rows, int columns, const float* bias, float* x, float* out);
  void (*bias_gelu_backward)(mlk_device* device, int rows, int columns, const float* x, float* delta,
                             float* bias_gradient);
  void (*linear)(mlk_device* device, const mlk::kernels::LinearLayer* layer, const float* residual,
                 float* out);
  void (*linear_gelu)(mlk_device* device, const mlk::kernels::LinearLayer* layer, float* sums, float* out);
  void (*linear_backward)(mlk_device* device, const mlk::kernels::LinearLayer* layer, const float* delta,
                          const mlk::kernels::LinearGradients* to);
  std::size_t (*kept_size)(const mlk_device* device, int rows, int inputs);
  bool (*uses_rounded)(const mlk_device* device);
  void (*round)(mlk_device* device, std::size_t size, const float* x, mlk::kernels::BFloat16* rounded);
  void (*layer_norm)(mlk_device* device, int rows, int columns, const float* x, const float* weight,
                     const float* bias, float* out, float* mean, float* scale);
  void (*layer_norm_backward)(mlk_device* device, int rows, int columns, const float* x, const float* weight,
                              const float* mean, const float* scale, const float* delta, float* x_gradient,
                              float* weight_gradient, float* bias_gradient);
  void (*embed)(mlk_device* device, int rows, int length, int columns, const std::int32_t* tokens,
                const float* token_table, const float* position_table, float* out);
  void (*embed_backward)(mlk_device* device, int rows, int length, int columns, const std::int32_t* tokens,
                         const float* delta, float* token_gradient, float* position_gradient);
  void (*attention)(mlk_device* device, const mlk::kernels::AttentionShape* shape, const float* qkv,
                    float* out, float* log_sums);
  void (*attention_backward)(mlk_device* device, const mlk::kernels::AttentionShape* shape, const float* qkv,
                             const float* out, const float* log_sums, const float* delta,
                             float* qkv_gradient);
  void (*convolve)(mlk_device* device, const mlk::kernels::ImageShape* shape, int outputs, int kernel,
                   const float* x, const float* weight, float* out);
  void (*convolve_backward)(mlk_device* device, const mlk::kernels::ImageShape* shape, int outputs,
                            int kernel, const float* x, const float* weight, const float* delta,
                            float* x_gradient, float* weight_gradient);
  void (*max_pool)(mlk_device* device, const mlk::kernels::ImageShape* shape, const float* x, float* out);
  void (*max_pool_backward)(mlk_device* device, const mlk::kernels::ImageShape* shape, const float* x,
                            const float* delta, float* x_gradient);
  void (*dropout)(mlk_device* device, std::size_t size, const mlk::kernels::DropoutMask* mask, const float* x,
                  float* out);
  void (*clip)(mlk_device* device, std::size_t size, float* gradients, float most);
  // delta may be null: then only the loss is computed.
  void (*softmax_cross_entropy)(mlk_device* device, int rows, int classes, const float* logits,
                                const std::int32_t* labels, float* delta, float* loss);
  // Waits for its result.
  std::int64_t (*count_correct)(mlk_device* device, int rows, int classes, const float* logits,
                                const std::int32_t* labels);
  void (*sgd)(mlk_device* device, std::size_t size, float* parameters, const float* gradients,
              float* velocity, const mlk::kernels::SgdStep* step, mlk::kernels::BFloat16* rounded);
  void (*adam)(mlk_device* device, std::size_t size, float* parameters, const float* gradients, float* mean,
               float* square, const mlk::kernels::AdamStep* step, mlk::kernels::BFloat16* rounded);
  void (*scale)(mlk_device* device, std::size_t size, float factor, const float* x, float* out);
  void (*add_scaled)(mlk_device* device, std::size_t size, const float* x, float factor, const float* y,
                     float* out);
  // The table and the ids, `count` of them, may lie in memory of either `allocate` or `allocate_host`.
  void (*gather_rows)(mlk_device* device, int count, const std::uint64_t* ids, int columns,
                      const std::uint8_t* table, float factor, float* out);
  void (*gather_labels)(mlk_device* device, int count, const std::uint64_t* ids, const std::uint8_t* table,
                        std::int32_t* out);

  // Like Ops::usage(), but a negative number means that a value is not known.
  void (*usage)(mlk_device* device, double* utilisation, double* memory_bytes, double* watts);

  // Like Ops::repeat(). `work` returns false if it has not queued all of its operations.
  void (*repeat)(mlk_device* device, std::uint64_t key, bool (*work)(void* context), void* context);

  // Sums over the devices of several processes, as in kernels/communicator.h. The first call of
  // collectives_version opens the library for sums. The version is 0 if the library cannot be used; `why`, of
  // `size` bytes, then holds a sentence, and the functions below must not be called.
  int (*collectives_version)(char* why, std::size_t size);
  bool (*new_group)(unsigned char* id);  // of mlk_group_id_bytes bytes
  mlk_communicator* (*join)(mlk_device* device, const unsigned char* id, int members, int index);
  int (*communicator_state)(mlk_communicator* communicator);  // 0 working, 1 done, -1 failed
  std::size_t (*sums_done)(mlk_communicator* communicator);
  // The traffic of the sums that are done, as Communicator::traffic().
  void (*traffic)(mlk_communicator* communicator, double* bytes, double* seconds);
  // Null, or a sentence that lives as long as the communicator. Any thread.
  const char* (*communicator_failure)(mlk_communicator* communicator);
  void (*sum)(mlk_communicator* communicator, float* numbers, std::size_t size);
  bool (*abort)(mlk_communicator* communicator);
  void (*leave)(mlk_communicator* communicator);  // aborts the communicator if necessary, and frees it
};

// The one symbol of the library. The number in its name is the version of this file: increment it when you
// change the table.
[[gnu::visibility("default")]] const mlk_device_table* mlk_device_v4();

}  // extern "C"
