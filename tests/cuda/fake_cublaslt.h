// The settings that a test gives to the library of fake_cublaslt.cpp, and the counts that it reads
// afterwards.
#pragma once

#include <cstddef>
#include <functional>

#include <cuda_runtime.h>

struct FakeCublasLt {
  std::size_t version = 130002;
  bool finds_nothing = false, knows_no_epilogues = false;
  cudaError_t (*enqueue)(cudaStream_t stream, std::function<void()> operation) = nullptr;
  int of_tf32 = 0;                              // descriptions of products that use TF32
  int epilogues = 0;                            // products with an epilogue
  int choices = 0, products = 0, refusals = 0;  // a refusal: a call with wrong arguments
  std::size_t left_alive = 0;                   // objects that still existed after the handle was destroyed
};

extern "C" FakeCublasLt* fake_cublaslt();
