# Fuzzers: the preset `fuzz`, with clang, whose library drives them. The cli stays out of that build: of it
# those fuzzers that need some compile what they need.
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED)
mlk_library(fuzzed_util cli/util nlohmann_json::nlohmann_json fmt::fmt OpenSSL::Crypto)

file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*.cpp)
add_custom_target(fuzzers)
foreach(source ${fuzzers})
  get_filename_component(name ${source} NAME_WE)
  add_executable(fuzz_${name} ${source})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers fuzz_${name})
  if(NOT name STREQUAL ledger)
    target_link_libraries(fuzz_${name} PRIVATE mlk_runtime)
  endif()
endforeach()
target_sources(fuzz_ledger PRIVATE sweeps/ledger.cpp sweeps/trial.cpp)
target_link_libraries(fuzz_ledger PRIVATE mlk_fuzzed_util)
