// What a test tells the library of fake_cublaslt.cpp, and asks it afterwards.
#pragma once

#include <cstddef>
#include <functional>

#include <cuda_runtime.h>

struct FakeCublasLt {
  std::size_t version = 130002;
  bool finds_nothing = false, knows_no_epilogues = false;
  cudaError_t (*enqueue)(cudaStream_t stream, std::function<void()> operation) = nullptr;
  int of_tf32 = 0;                              // descriptions of products
  int epilogues = 0;                            // products with one
  int choices = 0, products = 0, refusals = 0;  // a refusal: it was asked for what is wrong
  std::size_t left_alive = 0;                   // objects, when the handle was destroyed
};

extern "C" FakeCublasLt* fake_cublaslt();
