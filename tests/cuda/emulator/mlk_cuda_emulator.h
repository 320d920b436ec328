// All that kernels/cuda/base/cuda.h needs from the emulator.
#pragma once

#include "tests/cuda/emulator/kernel_language.h"
#include "tests/cuda/emulator/streams.h"
#include "tests/cuda/emulator/tensor_language.h"
