#include "kernels/cuda/products/cublaslt.h"

#include <algorithm>
#include <dlfcn.h>
#include <utility>

namespace mlk::cuda {
namespace {

using kernels::Transpose;

constexpr const char* file_name = "libcublasLt.so.13";
constexpr std::size_t wanted_version = 13, wanted_workspace = 32 << 20;  // 32 MiB, as advised for an H100
constexpr std::size_t most_plans = 512;                                  // a model has some dozens of shapes

// Returns at most 16, because no load is wider than 16 bytes.
std::uint32_t alignment_of(const void* address) {
  std::uint32_t alignment = 16;
  while (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) alignment /= 2;
  return alignment;
}

bool has_sums(CublasLt::Epilogue epilogue) {
  return epilogue == CublasLt::Epilogue::add_bias_gelu || epilogue == CublasLt::Epilogue::gelu_backward;
}

}  // namespace

// The functions of the opened library.
struct CublasLt::Library {
  void* const handle = dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
  bool complete = handle != nullptr;

  template <typename Function>
  Function* function(const char* name) {
    void* const found = handle ? dlsym(handle, name) : nullptr;
    complete = complete && found;
    return reinterpret_cast<Function*>(found);
  }

// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration, not an expression
#define MLK_FUNCTION(name) decltype(name)* name##_ = function<decltype(name)>(#name)
  MLK_FUNCTION(cublasLtGetVersion);
  MLK_FUNCTION(cublasLtCreate);
  MLK_FUNCTION(cublasLtDestroy);
  MLK_FUNCTION(cublasLtMatmulDescCreate);
  MLK_FUNCTION(cublasLtMatmulDescDestroy);
  MLK_FUNCTION(cublasLtMatmulDescSetAttribute);
  MLK_FUNCTION(cublasLtMatrixLayoutCreate);
  MLK_FUNCTION(cublasLtMatrixLayoutDestroy);
  MLK_FUNCTION(cublasLtMatmulPreferenceCreate);
  MLK_FUNCTION(cublasLtMatmulPreferenceDestroy);
  MLK_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
  MLK_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  MLK_FUNCTION(cublasLtMatmul);
#undef MLK_FUNCTION

  Library() = default;
  ~Library() {
    if (handle) dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
};

// The matrices of a product, and the algorithm that was chosen for them.
//
// cuBLASLt is column-major, and our matrices are row-major. So it computes the transpose of our c: its
// factors are b and a, each as it is stored.
struct CublasLt::Plan {
  const Library& library;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t of_a = nullptr, of_b = nullptr, of_c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool usable = false;

  explicit Plan(const Library& of) : library(of) {}
  ~Plan() {
    for (const auto layout : {of_a, of_b, of_c}) {
      if (layout) library.cublasLtMatrixLayoutDestroy_(layout);
    }
    if (product) library.cublasLtMatmulDescDestroy_(product);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  template <typename Value>
  bool set(cublasLtMatmulDescAttributes_t attribute, Value value) const {
    return library.cublasLtMatmulDescSetAttribute_(product, attribute, static_cast<const void*>(&value),
                                                   sizeof value) == CUBLAS_STATUS_SUCCESS;
  }
  bool describe(const Key& key, cublasComputeType_t compute);
  // Sets the tensors of the epilogue, which may differ from product to product.
  bool use(const Fused& fused) const {
    return fused.epilogue == Epilogue::none ||
           (set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, fused.bias) &&
            (!fused.sums || set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, fused.sums)));
  }
  bool choose(cublasLtHandle_t handle, const Key& key, std::uint64_t workspace_bytes);
};

bool CublasLt::Plan::describe(const Key& key, cublasComputeType_t compute) {
  const auto add_layout = [&](cublasLtMatrixLayout_t& layout, cudaDataType_t type, Transpose transpose,
                              int rows, int columns, std::int64_t stride) {
    if (transpose == Transpose::yes) std::swap(rows, columns);
    return library.cublasLtMatrixLayoutCreate_(&layout, type, static_cast<std::uint64_t>(columns),
                                               static_cast<std::uint64_t>(rows),
                                               stride) == CUBLAS_STATUS_SUCCESS;
  };
  const auto operation = [](Transpose transpose) {
    return std::int32_t{transpose == Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N};
  };
  return library.cublasLtMatmulDescCreate_(&product, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
         set(CUBLASLT_MATMUL_DESC_TRANSA, operation(key.transpose_b)) &&
         set(CUBLASLT_MATMUL_DESC_TRANSB, operation(key.transpose_a)) &&
         set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(key.epilogue)) &&
         (!has_sums(key.epilogue) || set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{key.n})) &&
         add_layout(of_a, key.type, key.transpose_a, key.m, key.k, key.stride_a) &&
         add_layout(of_b, key.type, key.transpose_b, key.k, key.n, key.stride_b) &&
         add_layout(of_c, CUDA_R_32F, Transpose::no, key.m, key.n, key.n);
}

// Partial sums are float32 too. A separate step adds them up, so that their order is always the same.
bool CublasLt::Plan::choose(cublasLtHandle_t handle, const Key& key, std::uint64_t workspace_bytes) {
  cublasLtMatmulPreference_t preference = nullptr;
  if (library.cublasLtMatmulPreferenceCreate_(&preference) != CUBLAS_STATUS_SUCCESS) return false;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return library.cublasLtMatmulPreferenceSetAttribute_(preference, attribute, &value, sizeof value) ==
           CUBLAS_STATUS_SUCCESS;
  };
  const std::uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const bool chosen =
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes) &&
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignments[1]) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignments[0]) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignments[2]) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignments[2]) &&
      library.cublasLtMatmulAlgoGetHeuristic_(handle, product, of_b, of_a, of_c, of_c, preference, 1, &result,
                                              &found) == CUBLAS_STATUS_SUCCESS &&
      found > 0 && result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes;
  library.cublasLtMatmulPreferenceDestroy_(preference);
  algorithm = result.algo;
  return chosen;
}

CublasLt::CublasLt(std::unique_ptr<Library> library, cublasComputeType_t compute)
    : library_(std::move(library)), compute_(compute) {}

CublasLt::~CublasLt() {
  plans_.clear();
  if (handle_) library_->cublasLtDestroy_(handle_);
}

std::unique_ptr<CublasLt> CublasLt::open(cublasComputeType_t compute) {
  auto library = std::make_unique<Library>();
  if (!library->complete || library->cublasLtGetVersion_() / 10000 != wanted_version) return nullptr;
  std::unique_ptr<CublasLt> opened(new CublasLt(std::move(library), compute));
  if (opened->library_->cublasLtCreate_(&opened->handle_) != CUBLAS_STATUS_SUCCESS) return nullptr;
  // If there is no memory for a workspace, the library still has algorithms that need none.
  if (opened->workspace_.make_room(wanted_workspace) == cudaSuccess) {
    opened->workspace_bytes_ = wanted_workspace;
  } else {
    cudaGetLastError();
  }
  return opened;
}

std::string CublasLt::version() const {
  const std::size_t number = library_->cublasLtGetVersion_();
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

// The choice of an algorithm depends on the alignment of the epilogue's tensors, so the library needs their
// addresses first.
const CublasLt::Plan& CublasLt::plan_for(const Key& key, const Fused& fused) {
  if (const auto known = plans_.find(key); known != plans_.end()) return *known->second;
  if (plans_.size() == most_plans) plans_.clear();
  auto plan = std::make_unique<Plan>(*library_);
  plan->usable =
      plan->describe(key, compute_) && plan->use(fused) && plan->choose(handle_, key, workspace_bytes_);
  return *plans_.emplace(key, std::move(plan)).first->second;
}

bool CublasLt::gemm(cudaStream_t stream, int m, int n, int k, float alpha, const Factor& a, const Factor& b,
                    float beta, float* c, const Fused& fused) {
  if (m == 0 || n == 0 || k == 0) return false;
  if (has_sums(fused.epilogue) && n % 8 != 0) return false;
  const float* const added = fused.added ? fused.added : c;
  const Plan& plan = plan_for(
      {m,
       n,
       k,
       a.transpose,
       b.transpose,
       a.type,
       a.stride,
       b.stride,
       {alignment_of(a.numbers), alignment_of(b.numbers), std::min(alignment_of(c), alignment_of(added)),
        alignment_of(fused.bias), alignment_of(fused.sums)},
       fused.epilogue},
      fused);
  return plan.usable && plan.use(fused) &&
         library_->cublasLtMatmul_(handle_, plan.product, &alpha, b.numbers, plan.of_b, a.numbers, plan.of_a,
                                   &beta, added, plan.of_c, c, plan.of_c, &plan.algorithm,
                                   workspace_.numbers(), workspace_bytes_, stream) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace mlk::cuda
