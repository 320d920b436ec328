# mlk-runtime: runtime/ and kernels/. Linux. oneDNN and zlib are used where they are installed.
find_package(nlohmann_json REQUIRED)
find_library(DNNL_LIBRARY dnnl)
find_path(DNNL_INCLUDE dnnl.h)
find_package(ZLIB)

mlk_rooms("^(runtime(/|$)|kernels(/(reference|cpu|device))?$)")   # kernels/cuda is in cuda.cmake

target_link_libraries(mlk_kernels_cpu PUBLIC ${CMAKE_DL_LIBS})
# Contraction to fused multiply-add would make results depend on the processor; -O2 of gcc 12 hardly vectorises.
foreach(kernels mlk_kernels_reference mlk_kernels_cpu)
  target_compile_options(${kernels} PRIVATE -ffp-contract=off)
endforeach()
# A square root that may set errno is not vectorised.
set_source_files_properties(kernels/cpu/vector_loops.cpp kernels/cpu/layer_loops.cpp PROPERTIES COMPILE_OPTIONS "-O3;-fno-math-errno")
# Both products call the sizes of their tiles the same.
set_source_files_properties(kernels/cpu/avx512_gemm.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
if(DNNL_LIBRARY AND DNNL_INCLUDE)
  target_compile_definitions(mlk_kernels_cpu PRIVATE MLK_ONEDNN=1)
  target_include_directories(mlk_kernels_cpu PRIVATE ${DNNL_INCLUDE})
  target_link_libraries(mlk_kernels_cpu PRIVATE ${DNNL_LIBRARY})
endif()

target_link_libraries(mlk_runtime_base PUBLIC nlohmann_json::nlohmann_json)
target_compile_options(mlk_runtime_base PUBLIC -ffp-contract=off)   # initial weights and learning rates: the same bits too
if(ZLIB_FOUND)
  target_compile_definitions(mlk_runtime_data PUBLIC MLK_ZLIB=1)   # its tests pack files too
  target_link_libraries(mlk_runtime_data PUBLIC ZLIB::ZLIB)
endif()

add_executable(mlk-runtime runtime/main.cpp)
target_link_libraries(mlk-runtime PRIVATE mlk_runtime)
target_compile_definitions(mlk-runtime PRIVATE MLK_VERSION="${PROJECT_VERSION}")
install(TARGETS mlk-runtime)

mlk_test(kernels mlk_kernels_cpu)
mlk_test(runtime mlk_runtime)

if(MLK_TESTS)   # for tests/torch_curves, and tests/e2e beside it
  add_executable(model_probe tests/support/model_probe.cpp)
  target_link_libraries(model_probe PRIVATE mlk_runtime)
endif()

# Runs in a simulated world: tests/sim/run.h. Built always, so that it cannot rot.
file(GLOB mlk_sim_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/sim/*.cpp)
add_executable(sim ${mlk_sim_sources})
target_link_libraries(sim PRIVATE mlk_runtime_collectives mlk_runtime_ps)

# For `make bench`; built always, so that they cannot rot.
add_executable(bench_step tests/bench/mlk_step.cpp)
target_link_libraries(bench_step PRIVATE mlk_runtime)
add_executable(bench_models tests/bench/mlk_models.cpp)
target_link_libraries(bench_models PRIVATE mlk_runtime)
add_executable(bench_gpu tests/bench/mlk_gpu.cpp)   # for tests/gpu/run
target_link_libraries(bench_gpu PRIVATE mlk_runtime)
add_executable(bench_checkpoint tests/bench/mlk_checkpoint.cpp)
target_link_libraries(bench_checkpoint PRIVATE mlk_runtime)
add_executable(bench_transport tests/bench/mlk_transport.cpp)
target_link_libraries(bench_transport PRIVATE mlk_runtime)
add_executable(teacher_data tests/bench/teacher_data.cpp)
target_link_libraries(teacher_data PRIVATE mlk_options)
