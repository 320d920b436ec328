# The operations on NVIDIA's GPUs: kernels/cuda. What is built depends on what is here:
#   libmlk-cuda.so            where there is nvcc 13. mlk-runtime opens it on machines with a GPU
#   libmlk-cuda-emulated.so   where there are CUDA's headers, on x86-64: the same sources on the emulator of tests/cuda, for tests
# A toolkit is looked for in MLK_CUDA_ROOT, where tests/cuda/toolkit puts one, in $CUDA_HOME and in /usr/local/cuda.
set(mlk_cache $ENV{XDG_CACHE_HOME})
if(NOT mlk_cache)
  set(mlk_cache $ENV{HOME}/.cache)
endif()
find_path(MLK_CUDA_ROOT include/cuda_runtime.h NO_DEFAULT_PATH
          PATHS ${mlk_cache}/mlk/cuda-13.0.88/nvidia/cu13 $ENV{CUDA_HOME} /usr/local/cuda)
find_program(MLK_NVCC nvcc NO_DEFAULT_PATH PATHS ${MLK_CUDA_ROOT}/bin)
file(GLOB_RECURSE mlk_cuda_host CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cpp)
file(GLOB_RECURSE mlk_cuda_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu)
if(NOT MLK_CUDA_ROOT)
  message(STATUS "no CUDA headers: kernels/cuda is not built (tests/cuda/toolkit fetches a toolkit)")
  return()
endif()
set(mlk_cuda_include ${MLK_CUDA_ROOT}/include)

# ---- with nvcc
# Its own commands, since the CUDA language of CMake 3.25 cannot do C++20. What ptxas says of each kernel (registers, memory that
# it spills) lies beside the object, where a test reads it. -fmad=false: elementwise operations have the bits of processors.
if(MLK_NVCC AND NOT MLK_SANITIZE)
  set(architectures)
  foreach(number 80 90 100)
    list(APPEND architectures -gencode arch=compute_${number},code=sm_${number})
  endforeach()
  list(APPEND architectures -gencode arch=compute_100,code=compute_100)   # for what comes later
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
  set(objects)
  foreach(source ${mlk_cuda_kernels})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
    add_custom_command(
      OUTPUT ${object} ${object}.ptxas
      COMMAND ${CMAKE_SOURCE_DIR}/cmake/quietly ${object}.ptxas ${CCACHE} ${MLK_NVCC} -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr ${architectures}
              -Xcompiler=-fPIC,-Wall,-Wextra -Werror=all-warnings -Xptxas=-v -I${CMAKE_SOURCE_DIR} -MD -MF ${object}.d
              -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "nvcc ${name}.cu")
    list(APPEND objects ${object})
  endforeach()
  add_library(mlk-cuda SHARED ${mlk_cuda_host} ${objects})
  target_link_libraries(mlk-cuda PRIVATE mlk_options ${MLK_CUDA_ROOT}/lib/libcudart_static.a ${CMAKE_DL_LIBS} rt)
  target_include_directories(mlk-cuda SYSTEM PRIVATE ${mlk_cuda_include})
  set_target_properties(mlk-cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} UNITY_BUILD OFF
                        CXX_VISIBILITY_PRESET hidden)
  # Beside mlk-runtime, which looks for it there; optional: `make build` does not make it.
  install(TARGETS mlk-cuda LIBRARY DESTINATION bin OPTIONAL)

  # The tests of the operations on a GPU: tests/gpu/run builds and runs them.
  if(MLK_TESTS)
    find_package(doctest REQUIRED)
    add_executable(gpu_tests EXCLUDE_FROM_ALL tests/unit/main.cpp tests/unit/cuda/ops_test.cpp
                   tests/unit/cuda/transformer_test.cpp tests/unit/cuda/images_test.cpp tests/unit/cuda/bfloat16_test.cpp
                   tests/unit/cuda/linear_test.cpp tests/unit/cuda/early_copies_test.cpp
                   tests/unit/cuda/recordings_test.cpp)
    target_compile_definitions(gpu_tests PRIVATE MLK_DEVICE_PLUGIN="$<TARGET_FILE:mlk-cuda>" MLK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(gpu_tests PRIVATE mlk_options doctest::doctest mlk_kernels_device mlk_kernels_cpu)
    add_dependencies(gpu_tests mlk-cuda)
  endif()
endif()

# ---- on the emulator
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  return()
endif()
# Without sanitizers: it changes stacks under them, and its own memory is not the kernels'.
add_library(mlk_cuda_grids OBJECT tests/cuda/emulator/fiber.cpp tests/cuda/emulator/grid.cpp)
target_include_directories(mlk_cuda_grids PRIVATE ${CMAKE_SOURCE_DIR})
# No loop becomes a call of memset either: the sanitizers look into those.
target_compile_options(mlk_cuda_grids PRIVATE -O2 -fno-tree-loop-distribute-patterns -Wall -Wextra -Werror -fPIC)

add_library(mlk_cuda_emulated OBJECT tests/cuda/emulator/streams.cpp ${mlk_cuda_host} ${mlk_cuda_kernels})
set_source_files_properties(${mlk_cuda_kernels} PROPERTIES LANGUAGE CXX)
set_target_properties(mlk_cuda_emulated PROPERTIES UNITY_BUILD OFF POSITION_INDEPENDENT_CODE ON)
target_link_libraries(mlk_cuda_emulated PUBLIC mlk_options)
target_include_directories(mlk_cuda_emulated PRIVATE tests/cuda/emulator)
target_include_directories(mlk_cuda_emulated SYSTEM PUBLIC ${mlk_cuda_include})
target_compile_options(mlk_cuda_emulated PRIVATE -O2 -ffp-contract=off -Wno-unknown-pragmas)   # unroll
# Kernels ask for fmaf. Without the instruction each one is a call of the C library; the bits are the same.
include(CheckCXXSourceRuns)
set(CMAKE_REQUIRED_FLAGS -mfma)
check_cxx_source_runs("#include <cmath>\nint main(int count, char**) { return std::fma(count, 2.0f, -2.0f) != 2 * count - 2; }" MLK_HAS_FMA)
unset(CMAKE_REQUIRED_FLAGS)
if(MLK_HAS_FMA)
  target_compile_options(mlk_cuda_emulated PRIVATE -mfma)
endif()

add_library(mlk-cuda-emulated SHARED $<TARGET_OBJECTS:mlk_cuda_emulated> $<TARGET_OBJECTS:mlk_cuda_grids>)
target_link_libraries(mlk-cuda-emulated PRIVATE mlk_options)
set_target_properties(mlk-cuda-emulated PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# The NCCL and the NVML of emulated devices, which their plugin opens like the real ones.
add_library(mlk-fake-nccl SHARED tests/cuda/nccl/fake_nccl.cpp)
target_link_libraries(mlk-fake-nccl PRIVATE mlk_options)
target_include_directories(mlk-fake-nccl SYSTEM PRIVATE ${mlk_cuda_include})
set_target_properties(mlk-fake-nccl PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
add_library(mlk-fake-nvml SHARED tests/cuda/nvml/fake_nvml.cpp)
target_link_libraries(mlk-fake-nvml PRIVATE mlk_options)
set_target_properties(mlk-fake-nvml PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
add_dependencies(mlk-cuda-emulated mlk-fake-nccl mlk-fake-nvml)

mlk_test(cuda mlk_kernels_device mlk_kernels_cpu mlk_cuda_emulated)
if(TARGET unit_cuda)
  target_sources(unit_cuda PRIVATE $<TARGET_OBJECTS:mlk_cuda_emulated> $<TARGET_OBJECTS:mlk_cuda_grids>)
  target_include_directories(unit_cuda PRIVATE tests/cuda/emulator)
  add_library(fake_cublaslt MODULE tests/cuda/fake_cublaslt.cpp)
  set_target_properties(fake_cublaslt PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} LINK_OPTIONS -Wl,-soname,libcublasLt.so.13)
  target_include_directories(fake_cublaslt SYSTEM PRIVATE ${mlk_cuda_include})
  target_link_libraries(fake_cublaslt PRIVATE mlk_options)
  target_compile_definitions(unit_cuda PRIVATE MLK_FAKE_CUBLASLT="$<TARGET_FILE:fake_cublaslt>")
  add_dependencies(unit_cuda fake_cublaslt)
endif()
