// Products by cuBLASLt, if the library is on the machine.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/base/scratch.h"
#include "kernels/cuda/products/cublaslt_api.h"
#include "kernels/ops.h"

namespace mlk::cuda {

// For one thread, one device and one stream.
class CublasLt {
 public:
  // Null if the library is missing, has another version than 13, or cannot be used. compute: the arithmetic
  // of all products, float32 or TF32.
  static std::unique_ptr<CublasLt> open(cublasComputeType_t compute);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  std::string version() const;  // such as 13.1.0

  // A matrix of float32 or bfloat16 as it is stored. stride: how many numbers lie between the starts of two
  // adjacent rows.
  struct Factor {
    kernels::Transpose transpose = kernels::Transpose::no;
    cudaDataType_t type = CUDA_R_32F;
    const void* numbers = nullptr;
    std::int64_t stride = 0;
  };
  // What cuBLASLt does with a product of m rows and n columns before it stores the product.
  enum class Epilogue {
    none = CUBLASLT_EPILOGUE_DEFAULT,
    // + bias[n]
    add_bias = CUBLASLT_EPILOGUE_BIAS,
    // sums[m, n] = product + bias[n]; stores GELU(sums)
    add_bias_gelu = CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
    // times the derivative of GELU at sums[m, n]; bias[n] = the sum of the result's rows
    gelu_backward = CUBLASLT_EPILOGUE_DGELU_BGRAD,
  };
  struct Fused {
    Epilogue epilogue = Epilogue::none;
    const float *bias = nullptr, *sums = nullptr;  // written by the epilogues that compute them
    const float* added = nullptr;                  // if not null, it replaces `c` in beta * c
  };
  // Ops::gemm, with float32 sums. False: cuBLASLt does not compute this product, and nothing was queued.
  bool gemm(cudaStream_t stream, int m, int n, int k, float alpha, const Factor& a, const Factor& b,
            float beta, float* c, const Fused& fused);

 private:
  struct Library;
  struct Plan;
  // The properties of a product that determine its algorithm.
  struct Key {
    int m, n, k;
    kernels::Transpose transpose_a, transpose_b;
    cudaDataType_t type;
    std::int64_t stride_a, stride_b;
    std::uint32_t alignments[5];  // of a, b, c, bias, sums
    Epilogue epilogue;
    auto operator<=>(const Key&) const = default;
  };
  CublasLt(std::unique_ptr<Library> library, cublasComputeType_t compute);
  const Plan& plan_for(const Key& key, const Fused& fused);

  std::unique_ptr<Library> library_;
  const cublasComputeType_t compute_;
  cublasLtHandle_t handle_ = nullptr;
  Scratch<std::byte> workspace_;
  std::size_t workspace_bytes_ = 0;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace mlk::cuda
