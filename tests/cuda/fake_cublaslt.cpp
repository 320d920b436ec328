// A library with the symbols of cuBLASLt 13, for tests. It checks the arguments of each call, and multiplies
// with plain loops when the stream reaches the product. It has only the functions that
// kernels/cuda/products/cublaslt.cpp uses.
#include "tests/cuda/fake_cublaslt.h"

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/cuda/products/cublaslt_api.h"

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  std::int32_t transposes[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float *bias = nullptr, *aux = nullptr;
  std::int64_t aux_stride = 0;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t stride;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reductions = 7, alignments[4] = {256, 256, 256, 256};
};

namespace {

FakeCublasLt state;
std::set<const void*> alive;  // handles, descriptions, layouts, preferences

constexpr std::uint64_t needed_workspace = 1024;

cublasStatus_t refuse() {
  ++state.refusals;
  return CUBLAS_STATUS_INVALID_VALUE;
}

template <typename Object, typename... Values>
cublasStatus_t make(Object** object, Values... values) {
  *object = new Object{values...};
  alive.insert(*object);
  return CUBLAS_STATUS_SUCCESS;
}
template <typename Object>
cublasStatus_t destroy(Object* object) {
  if (alive.erase(object) == 0) return refuse();
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Value>
cublasStatus_t assign(Value& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof to) return refuse();
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// op(a)[m, k] * op(b)[k, n] = d[m, n], in columns.
struct Product {
  std::uint64_t m, n, k;
  bool transposed_a, transposed_b;
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, d;

  Product(const cublasLtMatmulDescOpaque_t& of, const cublasLtMatrixLayoutOpaque_t& of_a,
          const cublasLtMatrixLayoutOpaque_t& of_b, const cublasLtMatrixLayoutOpaque_t& of_d)
      : m(of_d.rows),
        n(of_d.columns),
        k(of.transposes[0] == CUBLAS_OP_T ? of_a.rows : of_a.columns),
        transposed_a(of.transposes[0] == CUBLAS_OP_T),
        transposed_b(of.transposes[1] == CUBLAS_OP_T),
        desc(of),
        a(of_a),
        b(of_b),
        d(of_d) {}

  bool fits() const {
    const auto is = [](const cublasLtMatrixLayoutOpaque_t& layout, bool transposed, std::uint64_t rows,
                       std::uint64_t columns) {
      return (transposed ? layout.columns : layout.rows) == rows &&
             (transposed ? layout.rows : layout.columns) == columns &&
             layout.stride >= static_cast<std::int64_t>(layout.rows);
    };
    const bool inputs = a.type == b.type && (a.type == CUDA_R_32F || a.type == CUDA_R_16BF);
    return inputs && fits_epilogue() && d.type == CUDA_R_32F && m > 0 && n > 0 && k > 0 &&
           is(a, transposed_a, m, k) && is(b, transposed_b, k, n) && is(d, false, m, n);
  }
  bool fits_epilogue() const {
    switch (desc.epilogue) {
      case CUBLASLT_EPILOGUE_DEFAULT:
        return true;
      case CUBLASLT_EPILOGUE_BIAS:
        return desc.bias;
      case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      case CUBLASLT_EPILOGUE_DGELU_BGRAD:
        return desc.bias && desc.aux && desc.aux_stride % 8 == 0 &&
               desc.aux_stride >= static_cast<std::int64_t>(m);
      default:
        return false;
    }
  }
  cublasLtMatmulAlgo_t algorithm(const std::uint32_t* alignments) const {
    return {{m, n, k, static_cast<std::uint64_t>(a.type), transposed_a, transposed_b,
             alignments[0] | std::uint64_t{alignments[1]} << 32,
             alignments[2] | std::uint64_t{desc.epilogue} << 32}};
  }
  static float at(const cublasLtMatrixLayoutOpaque_t& layout, const void* numbers, bool transposed,
                  std::uint64_t row, std::uint64_t column) {
    if (transposed) std::swap(row, column);
    const std::uint64_t place = column * static_cast<std::uint64_t>(layout.stride) + row;
    if (layout.type == CUDA_R_32F) return static_cast<const float*>(numbers)[place];
    return static_cast<const mlk::kernels::BFloat16*>(numbers)[place].value();
  }
  // The derivative has the formula of the reference, but another precision.
  float finish(float number, std::uint64_t row, std::uint64_t column) const {
    if (desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return number;
    if (desc.epilogue == CUBLASLT_EPILOGUE_BIAS) return number + desc.bias[row];
    float& kept = desc.aux[column * static_cast<std::uint64_t>(desc.aux_stride) + row];
    const double root_2_over_pi = 0.7978845608028654;
    if (desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
      const double x = kept = number + desc.bias[row];
      return static_cast<float>(x / 2 * (1 + std::tanh(root_2_over_pi * (x + 0.044715 * x * x * x))));
    }
    const double x = kept, t = std::tanh(root_2_over_pi * (x + 0.044715 * x * x * x));
    const double slope = (1 + t) / 2 + x / 2 * (1 - t * t) * root_2_over_pi * (1 + 3 * 0.044715 * x * x);
    const float gradient = number * static_cast<float>(slope);
    desc.bias[row] = (column == 0 ? 0 : desc.bias[row]) + gradient;
    return gradient;
  }
  void compute(float alpha, const void* of_a, const void* of_b, float beta, const float* c,
               float* out) const {
    for (std::uint64_t column = 0; column < n; ++column) {
      for (std::uint64_t row = 0; row < m; ++row) {
        float sum = 0;
        for (std::uint64_t inner = 0; inner < k; ++inner)
          sum += at(a, of_a, transposed_a, row, inner) * at(b, of_b, transposed_b, inner, column);
        const std::uint64_t place = column * static_cast<std::uint64_t>(d.stride) + row;
        out[place] = finish(beta == 0 ? alpha * sum : alpha * sum + beta * c[place], row, column);
      }
    }
  }
};

bool is_aligned(const void* address, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

}  // namespace

extern "C" {

FakeCublasLt* fake_cublaslt() { return &state; }

std::size_t cublasLtGetVersion() { return state.version; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return make(handle); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const cublasStatus_t status = destroy(handle);
  state.left_alive = alive.size();
  return status;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  const bool tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (!tf32 && compute != CUBLAS_COMPUTE_32F) return refuse();
  state.of_tf32 += tf32;
  return scale == CUDA_R_32F ? make(desc) : refuse();
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(desc->transposes[0], value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(desc->transposes[1], value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return assign(desc->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return assign(desc->aux_stride, value, bytes);
  }
  return refuse();
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t stride) {
  return make(layout, type, rows, columns, stride);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return make(preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return assign(preference->workspace_bytes, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    return assign(preference->reductions, value, bytes);
  const int which = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  return which >= 0 && which < 4 ? assign(preference->alignments[which], value, bytes) : refuse();
}

// Products load vectors of 16 bytes where alignment and strides allow it. As in the real library, there is no
// algorithm for a product of bfloat16 whose alignment or strides do not allow it.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  const Product product(*desc, *a, *b, *d);
  if (!product.fits() || c != d || wanted != 1 ||
      preference->reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
    return refuse();
  ++state.choices;
  *found = 0;
  if (state.finds_nothing || (state.knows_no_epilogues && desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT) ||
      preference->workspace_bytes < needed_workspace)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (product.a.type == CUDA_R_16BF && (a->stride % 8 != 0 || b->stride % 8 != 0 ||
                                        preference->alignments[0] < 16 || preference->alignments[1] < 16))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *results = {product.algorithm(preference->alignments), needed_workspace, CUBLAS_STATUS_SUCCESS, 1, {}};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t of_a, const void* b, cublasLtMatrixLayout_t of_b,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t of_d, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, std::size_t bytes, cudaStream_t stream) {
  const Product product(*desc, *of_a, *of_b, *of_d);
  const std::uint64_t* const chosen = algorithm->data;
  const std::uint32_t alignments[] = {static_cast<std::uint32_t>(chosen[6]),
                                      static_cast<std::uint32_t>(chosen[6] >> 32),
                                      static_cast<std::uint32_t>(chosen[7])};
  const cublasLtMatmulAlgo_t expected = product.algorithm(alignments);
  if (!product.fits() || std::memcmp(&expected, algorithm, sizeof expected) != 0 || !workspace ||
      bytes < needed_workspace || !is_aligned(a, alignments[0]) || !is_aligned(b, alignments[1]) ||
      !is_aligned(c, alignments[2]) || !is_aligned(d, alignments[2]) || !state.enqueue)
    return refuse();
  ++state.products;
  state.epilogues += desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  const float factors[] = {*static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
  state.enqueue(stream, [=] {
    std::memset(workspace, 0xff, needed_workspace);
    product.compute(factors[0], a, b, factors[1], static_cast<const float*>(c), static_cast<float*>(d));
  });
  return CUBLAS_STATUS_SUCCESS;
}
}
