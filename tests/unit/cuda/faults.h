// The message of the emulator about a wrong kernel.
#pragma once

#include <functional>
#include <string>

#include "tests/cuda/emulator/grid.h"

namespace mlk::test {

inline std::string fault_of(const emulator::Launch& launch, const std::function<void()>& kernel) {
  try {
    emulator::run_grid(launch, kernel);
  } catch (const emulator::KernelFault& fault) {
    return fault.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace mlk::test
