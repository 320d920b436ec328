#include "kernels/device/device_ops.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <iterator>
#include <map>

#include "kernels/device/device_collectives.h"

namespace mlk::kernels {
namespace {

class DeviceOps final : public Ops {
 public:
  DeviceOps(const mlk_device_table& table, int index, Precision precision) : table_(table) {
    char why[512] = "";
    device_ = table_.open(index, static_cast<int>(precision), why, sizeof why);
    if (!device_) throw DeviceFailure(why);
  }
  ~DeviceOps() override { table_.close(device_); }
  DeviceOps(const DeviceOps&) = delete;
  DeviceOps& operator=(const DeviceOps&) = delete;

  std::string_view name() const override { return table_.name(device_); }

  std::span<float> place(std::span<float> tensor) override {
    return {reinterpret_cast<float*>(place_of(tensor.data(), tensor.size_bytes())), tensor.size()};
  }
  std::span<const float> read(std::span<const float> tensor) override {
    auto* values = reinterpret_cast<float*>(place_of(tensor.data(), tensor.size_bytes()));
    if (const auto started = started_reads_.find(tensor.data());
        started != started_reads_.end() && started->second.size == tensor.size()) {
      table_.wait_for_copy(device_, started->second.copy);
      started_reads_.erase(started);
    } else {
      table_.to_host(device_, tensor.data(), values, tensor.size_bytes());
    }
    check();
    return {values, tensor.size()};
  }
  void start_read(std::span<const float> tensor) override {
    std::byte* const values = place_of(tensor.data(), tensor.size_bytes());
    const std::uint64_t copy = table_.start_to_host(device_, tensor.data(), values, tensor.size_bytes());
    started_reads_.insert_or_assign(tensor.data(), StartedRead{tensor.size(), copy});
  }
  void write(std::span<const float> values, std::span<float> tensor) override {
    table_.to_device(device_, values.data(), tensor.data(), tensor.size_bytes());
    table_.wait(device_);  // afterwards the caller may change the values
    check();
  }

  void write_tokens(std::span<const std::int32_t> values, std::span<std::int32_t> tensor) override {
    table_.to_device(device_, values.data(), tensor.data(), tensor.size_bytes());
    table_.wait(device_);
    check();
  }

  void gemm(Transpose transpose_a, Transpose transpose_b, int m, int n, int k, float alpha, const float* a,
            const float* b, float beta, float* c) override {
    table_.gemm(device_, transpose_a == Transpose::yes, transpose_b == Transpose::yes, m, n, k, alpha, a, b,
                beta, c);
  }
  void add_bias(int rows, int columns, const float* bias, float* x) override {
    table_.add_bias(device_, rows, columns, bias, x);
  }
  void add_bias_relu(int rows, int columns, const float* bias, float* x) override {
    table_.add_bias_relu(device_, rows, columns, bias, x);
  }
  void bias_backward(int rows, int columns, const float* delta, float* bias_gradient) override {
    table_.bias_backward(device_, rows, columns, delta, bias_gradient);
  }
  void bias_relu_backward(int rows, int columns, const float* output, float* delta,
                          float* bias_gradient) override {
    table_.bias_relu_backward(device_, rows, columns, output, delta, bias_gradient);
  }
  void add_bias_gelu(int rows, int columns, const float* bias, float* x, float* out) override {
    table_.add_bias_gelu(device_, rows, columns, bias, x, out);
  }
  void bias_gelu_backward(int rows, int columns, const float* x, float* delta,
                          float* bias_gradient) override {
    table_.bias_gelu_backward(device_, rows, columns, x, delta, bias_gradient);
  }
  void linear(const LinearLayer& layer, const float* residual, float* out) override {
    table_.linear(device_, &layer, residual, out);
  }
  void linear_gelu(const LinearLayer& layer, float* sums, float* out) override {
    table_.linear_gelu(device_, &layer, sums, out);
  }
  void linear_backward(const LinearLayer& layer, const float* delta, const LinearGradients& to) override {
    table_.linear_backward(device_, &layer, delta, &to);
  }
  std::size_t kept_size(int rows, int inputs) const override {
    return table_.kept_size(device_, rows, inputs);
  }
  bool uses_rounded() const override { return table_.uses_rounded(device_); }
  void round(std::span<const float> x, BFloat16* rounded) override {
    table_.round(device_, x.size(), x.data(), rounded);
  }
  std::size_t most_at_once() const override { return std::size_t{1} << 27; }
  void layer_norm(int rows, int columns, const float* x, const float* weight, const float* bias, float* out,
                  float* mean, float* scale) override {
    table_.layer_norm(device_, rows, columns, x, weight, bias, out, mean, scale);
  }
  void layer_norm_backward(int rows, int columns, const float* x, const float* weight, const float* mean,
                           const float* scale, const float* delta, float* x_gradient, float* weight_gradient,
                           float* bias_gradient) override {
    table_.layer_norm_backward(device_, rows, columns, x, weight, mean, scale, delta, x_gradient,
                               weight_gradient, bias_gradient);
  }
  void embed(int rows, int length, int columns, const std::int32_t* tokens, const float* token_table,
             const float* position_table, float* out) override {
    table_.embed(device_, rows, length, columns, tokens, token_table, position_table, out);
  }
  void embed_backward(int rows, int length, int columns, const std::int32_t* tokens, const float* delta,
                      float* token_gradient, float* position_gradient) override {
    table_.embed_backward(device_, rows, length, columns, tokens, delta, token_gradient, position_gradient);
  }
  void attention(const AttentionShape& shape, const float* qkv, float* out, float* log_sums) override {
    table_.attention(device_, &shape, qkv, out, log_sums);
  }
  void attention_backward(const AttentionShape& shape, const float* qkv, const float* out,
                          const float* log_sums, const float* delta, float* qkv_gradient) override {
    table_.attention_backward(device_, &shape, qkv, out, log_sums, delta, qkv_gradient);
  }
  void convolve(const ImageShape& shape, int outputs, int kernel, const float* x, const float* weight,
                float* out) override {
    table_.convolve(device_, &shape, outputs, kernel, x, weight, out);
  }
  void convolve_backward(const ImageShape& shape, int outputs, int kernel, const float* x,
                         const float* weight, const float* delta, float* x_gradient,
                         float* weight_gradient) override {
    table_.convolve_backward(device_, &shape, outputs, kernel, x, weight, delta, x_gradient, weight_gradient);
  }
  void max_pool(const ImageShape& shape, const float* x, float* out) override {
    table_.max_pool(device_, &shape, x, out);
  }
  void max_pool_backward(const ImageShape& shape, const float* x, const float* delta,
                         float* x_gradient) override {
    table_.max_pool_backward(device_, &shape, x, delta, x_gradient);
  }
  void dropout(const DropoutMask& mask, std::span<const float> x, std::span<float> out) override {
    table_.dropout(device_, out.size(), &mask, x.data(), out.data());
  }
  void clip(std::span<float> gradients, float most) override {
    table_.clip(device_, gradients.size(), gradients.data(), most);
  }
  float softmax_cross_entropy(int rows, int classes, const float* logits,
                              const std::int32_t* labels) override {
    if (loss_.empty()) loss_ = allocate<float>(1);
    table_.softmax_cross_entropy(device_, rows, classes, logits, labels, nullptr, loss_.data());
    return read(loss_).front();
  }
  void softmax_cross_entropy_backward(int rows, int classes, const float* logits, const std::int32_t* labels,
                                      float* delta, float* loss) override {
    table_.softmax_cross_entropy(device_, rows, classes, logits, labels, delta, loss);
  }
  std::int64_t count_correct(int rows, int classes, const float* logits,
                             const std::int32_t* labels) override {
    const std::int64_t correct = table_.count_correct(device_, rows, classes, logits, labels);
    check();
    return correct;
  }
  void sgd(std::span<float> parameters, std::span<const float> gradients, std::span<float> velocity,
           const SgdStep& step, BFloat16* rounded) override {
    table_.sgd(device_, parameters.size(), parameters.data(), gradients.data(), velocity.data(), &step,
               rounded);
  }
  void adam(std::span<float> parameters, std::span<const float> gradients, std::span<float> mean,
            std::span<float> square, const AdamStep& step, BFloat16* rounded) override {
    table_.adam(device_, parameters.size(), parameters.data(), gradients.data(), mean.data(), square.data(),
                &step, rounded);
  }
  void scale(float factor, std::span<const float> x, std::span<float> out) override {
    table_.scale(device_, out.size(), factor, x.data(), out.data());
  }
  void add_scaled(std::span<const float> x, float factor, std::span<const float> y,
                  std::span<float> out) override {
    table_.add_scaled(device_, out.size(), x.data(), factor, y.data(), out.data());
  }
  Buffer<std::uint8_t> hold(std::span<const std::uint8_t> bytes) override;
  void gather_rows(std::span<const std::uint64_t> ids, int columns, const std::uint8_t* table, float scale,
                   float* out) override {
    table_.gather_rows(device_, static_cast<int>(ids.size()), send(ids), columns, table, scale, out);
  }
  void gather_labels(std::span<const std::uint64_t> ids, const std::uint8_t* table,
                     std::int32_t* out) override {
    table_.gather_labels(device_, static_cast<int>(ids.size()), send(ids), table, out);
  }
  DeviceUsage usage() override {
    double utilisation = -1, memory_bytes = -1, watts = -1;
    table_.usage(device_, &utilisation, &memory_bytes, &watts);
    const auto known = [](double value) { return value < 0 ? std::nullopt : std::optional(value); };
    return {known(utilisation), known(memory_bytes), known(watts)};
  }
  void repeat(std::uint64_t key, const std::function<void()>& work) override {
    struct Work {
      const std::function<void()>& call;
      std::exception_ptr failed = {};
    } context{work};
    table_.repeat(
        device_, key,
        [](void* given) {
          auto& called = *static_cast<Work*>(given);
          try {
            called.call();
          } catch (...) {  // an exception must not pass through C
            called.failed = std::current_exception();
          }
          return !called.failed;
        },
        &context);
    if (context.failed) std::rethrow_exception(context.failed);
  }
  Collectives* collectives() override {
    if (!collectives_) collectives_ = make_device_collectives(table_, *device_);
    return collectives_.get();
  }

 protected:
  Memory allocate_bytes(std::size_t bytes) override;
  Memory allocate_host_bytes(std::size_t bytes) override;

 private:
  // A buffer, and its host memory, which exists only if a caller has asked for it.
  struct Mirror {
    std::size_t bytes = 0;
    Memory host{nullptr, nullptr};
  };
  struct StartedRead {
    std::size_t size = 0;
    std::uint64_t copy = 0;
  };
  std::byte* place_of(const void* tensor, std::size_t bytes);
  const std::uint64_t* send(std::span<const std::uint64_t> ids);
  void check() const {
    if (const char* failure = table_.failure(device_)) throw DeviceFailure(failure);
  }
  [[noreturn]] void out_of_memory(std::size_t bytes, const char* whose) const {
    check();
    throw DeviceFailure(std::string(name()) + ": out of memory of the " + whose + ": " +
                        std::to_string(bytes) + " bytes more are not there");
  }

  const mlk_device_table& table_;
  mlk_device* device_ = nullptr;
  std::unique_ptr<Collectives> collectives_;
  std::map<const std::byte*, Mirror> mirrors_;         // by the first byte of the buffer
  std::map<const float*, StartedRead> started_reads_;  // by the first number of the tensor
  Buffer<float> loss_;
  // The ids of the last batch: in host memory that the device can reach, and on the device.
  Memory ids_on_host_{nullptr, nullptr};
  std::span<const std::uint64_t> sent_ids_;
  Buffer<std::uint64_t> ids_;
};

Memory DeviceOps::allocate_bytes(std::size_t bytes) {
  Memory memory(table_.allocate(device_, bytes), table_.free);
  if (!memory) out_of_memory(bytes, "device");
  // Earlier buffers at this address have been freed, so their mirrors are forgotten, and also the copies
  // that start_read() has begun for them.
  const auto* const first = static_cast<const std::byte*>(memory.get());
  mirrors_.insert_or_assign(first, Mirror{bytes});
  started_reads_.erase(started_reads_.lower_bound(reinterpret_cast<const float*>(first)),
                       started_reads_.lower_bound(reinterpret_cast<const float*>(first + bytes)));
  return memory;
}

Memory DeviceOps::allocate_host_bytes(std::size_t bytes) {
  Memory memory(table_.allocate_host(bytes), table_.free_host);
  if (!memory) out_of_memory(bytes, "host that the device can reach");
  std::memset(memory.get(), 0, bytes);
  return memory;
}

std::byte* DeviceOps::place_of(const void* tensor, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const auto* first = static_cast<const std::byte*>(tensor);
  const auto after = mirrors_.upper_bound(first);
  if (after == mirrors_.begin()) throw std::logic_error("a tensor that lies in no buffer");
  auto& [base, mirror] = *std::prev(after);
  if (first + bytes > base + mirror.bytes) throw std::logic_error("a tensor that lies in no buffer");
  if (!mirror.host) {
    mirror.host = allocate_host_bytes(mirror.bytes);
  }
  return static_cast<std::byte*>(mirror.host.get()) + (first - base);
}

// A table that would take much of the device's memory stays on the host, where the device reads it.
Buffer<std::uint8_t> DeviceOps::hold(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t most_share = 4;  // a quarter of the memory that is left
  if (bytes.size() <= table_.memory_left(device_) / most_share) {
    auto table = allocate<std::uint8_t>(bytes.size());
    table_.to_device(device_, bytes.data(), table.data(), bytes.size());
    table_.wait(device_);
    check();
    return table;
  }
  Memory table = allocate_host_bytes(bytes.size());
  std::memcpy(table.get(), bytes.data(), bytes.size());
  return {std::move(table), bytes.size()};
}

// Returns the ids on the device, valid until the next batch is sent. Waits for the device, which may
// still be copying the previous ids.
const std::uint64_t* DeviceOps::send(std::span<const std::uint64_t> ids) {
  if (std::ranges::equal(ids, sent_ids_)) return ids_.data();  // gather_labels() follows with the same ids
  table_.wait(device_);
  if (ids.size() > ids_.size()) {
    ids_on_host_ = allocate_host_bytes(ids.size_bytes());
    ids_ = allocate<std::uint64_t>(ids.size());
  }
  auto* const place = static_cast<std::uint64_t*>(ids_on_host_.get());
  sent_ids_ = {place, ids.size()};
  std::ranges::copy(ids, place);
  table_.to_device(device_, place, ids_.data(), ids.size_bytes());
  return ids_.data();
}

}  // namespace

const mlk_device_table& load_plugin(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw DeviceFailure("the library for GPUs cannot be loaded: " + std::string(dlerror()));
  const auto table = reinterpret_cast<decltype(&mlk_device_v4)>(dlsym(library, "mlk_device_v4"));
  if (!table) throw DeviceFailure(path + " is of another version than mlk-runtime: install both from one");
  return *table();
}

std::unique_ptr<Ops> make_device_ops(const mlk_device_table& table, int index, Precision precision) {
  return std::make_unique<DeviceOps>(table, index, precision);
}

}  // namespace mlk::kernels
