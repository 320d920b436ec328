# mlk: cli/. POSIX only. Arrows point down: see the map in ARCHITECTURE.md.
find_package(CLI11 REQUIRED)
find_package(CURL REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(fmt REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(ZLIB REQUIRED)
find_library(LIBDEFLATE NAMES libdeflate.a deflate REQUIRED)   # linked in if it can be: its version is seen in digests
find_library(RE2 NAMES libre2.a re2 REQUIRED)   # patterns of users, in linear time
find_library(WSLAY NAMES libwslay.a wslay REQUIRED)   # frames of WebSocket
find_package(PkgConfig REQUIRED)
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)   # 0.7 has no namespace
endif()

# mlk_embed(NAMESPACE::FUNCTION HEADER FOLDER ENDINGS...): the files of the folder, compiled in as one table of (path, text).
function(mlk_embed name header folder)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/${folder}/*. OUTPUT_VARIABLE patterns)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${patterns})
  string(REGEX MATCH "^(.+)::([^:]+)$" matched ${name})
  set(out ${CMAKE_BINARY_DIR}/${CMAKE_MATCH_2}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DROOT=${CMAKE_SOURCE_DIR}/${folder} "-DFILES=${files}" -DHEADER=${header}
            -DNAMESPACE=${CMAKE_MATCH_1} -DFUNCTION=${CMAKE_MATCH_2} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
endfunction()
mlk_embed(mlk::embedded_templates cli/render/embedded.h templates yaml)
mlk_embed(mlk::sweeps::report_assets sweeps/results/report_assets.h sweeps/results/report html css js)

set(completions ${CMAKE_BINARY_DIR}/embedded_completions.cpp)
add_custom_command(OUTPUT ${completions}
  COMMAND ${CMAKE_COMMAND} -DOUT=${completions} -DROOT=${CMAKE_SOURCE_DIR}/completions
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_completions.cmake
  DEPENDS ${CMAKE_SOURCE_DIR}/completions/mlk.bash ${CMAKE_SOURCE_DIR}/completions/_mlk
          ${CMAKE_SOURCE_DIR}/completions/mlk.fish ${CMAKE_SOURCE_DIR}/cmake/embed_completions.cmake VERBATIM)

set(helper ${CMAKE_BINARY_DIR}/embedded_helpers.cpp)
add_custom_command(OUTPUT ${helper}
  COMMAND ${CMAKE_COMMAND} -DOUT=${helper} "-DHELPERS=${mlk_helpers}" -P ${CMAKE_SOURCE_DIR}/cmake/embed_helper.cmake
  DEPENDS ${mlk_helper_files} ${CMAKE_SOURCE_DIR}/cmake/embed_helper.cmake VERBATIM)

mlk_rooms("^(cli|sweeps)(/|$)")
target_link_libraries(mlk_util PUBLIC nlohmann_json::nlohmann_json fmt::fmt OpenSSL::Crypto ${RE2})
# The cli waits for people and networks; a quarter of its compile time is worth more than what -O2 adds to -O1.
target_compile_options(mlk_util PUBLIC $<$<AND:$<CONFIG:Release>,$<STREQUAL:$<TARGET_PROPERTY:TYPE>,STATIC_LIBRARY>>:-O1>)
# All that comes from a server passes through the parser, and the searches compute.
file(GLOB computing CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/sweeps/search/tpe*.cpp)
set_source_files_properties(${computing} ${CMAKE_SOURCE_DIR}/sweeps/search/triangle.cpp ${CMAKE_SOURCE_DIR}/cli/util/json.cpp
  PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O2>")
target_link_libraries(mlk_yaml PUBLIC yaml-cpp::yaml-cpp)
target_link_libraries(mlk_image PUBLIC ZLIB::ZLIB ${LIBDEFLATE})
target_link_libraries(mlk_http PUBLIC CURL::libcurl OpenSSL::SSL ${WSLAY})
target_link_libraries(mlk_kube_login PUBLIC yaml-cpp::yaml-cpp)
target_link_libraries(mlk_local_api PUBLIC PkgConfig::HTTPLIB OpenSSL::SSL)
set_target_properties(mlk_local_api PROPERTIES UNITY_BUILD_BATCH_SIZE 16)   # httplib is most of what a group costs
target_link_libraries(mlk_args PUBLIC CLI11::CLI11)
target_sources(mlk_render PRIVATE ${CMAKE_BINARY_DIR}/embedded_templates.cpp ${helper})
target_sources(mlk_sweeps_results PRIVATE ${CMAKE_BINARY_DIR}/report_assets.cpp)
target_sources(mlk_args PRIVATE ${completions})

add_executable(mlk cli/main.cpp)
target_compile_definitions(mlk PRIVATE MLK_VERSION="${PROJECT_VERSION}")
target_link_libraries(mlk PRIVATE mlk_app)
install(TARGETS mlk)
install(DIRECTORY man/ DESTINATION share/man/man1 FILES_MATCHING PATTERN "*.1")
install(FILES LICENSE NOTICE DESTINATION share/doc/mlk)
install(DIRECTORY man/ DESTINATION share/man/man5 FILES_MATCHING PATTERN "*.5")

mlk_test(util mlk_util)
mlk_test(yaml mlk_yaml)
mlk_test(experiment mlk_experiment)
mlk_test(render mlk_render)
mlk_test(image mlk_image)
mlk_test(code mlk_code)
mlk_test(where mlk_where)
mlk_test(http mlk_http PkgConfig::HTTPLIB)
mlk_test(registry mlk_registry PkgConfig::HTTPLIB)
mlk_test(kube mlk_kube PkgConfig::HTTPLIB)
mlk_test(files mlk_files mlk_pod)
mlk_test(ui mlk_ui)
mlk_test(run mlk_run_change mlk_run_inputs mlk_local PkgConfig::HTTPLIB)
mlk_test(sweeps mlk_sweeps_driver mlk_sweeps_change mlk_sweeps_results mlk_local PkgConfig::HTTPLIB)
if(MLK_TESTS)   # reports to look at, and for tests/e2e/test_report.py
  add_executable(report_sample tests/support/report_sample.cpp)
  target_link_libraries(report_sample PRIVATE mlk_sweeps_results)
endif()
mlk_test(local mlk_local)
mlk_test(app mlk_app PkgConfig::HTTPLIB)   # the command tree against man pages and completions; whole commands
# The layering, the portability rule and the contract, read from the sources; experiment files against the runtime.
mlk_test(project mlk_render mlk_runtime)

# For `make bench`; built always, so that they cannot rot.
add_executable(bench_code tests/bench/mlk_code.cpp)
target_link_libraries(bench_code PRIVATE mlk_code)
add_executable(bench_search tests/bench/mlk_search.cpp)
add_executable(bench_asha tests/bench/mlk_asha.cpp)
foreach(bench bench_search bench_asha)
  target_link_libraries(${bench} PRIVATE mlk_sweeps_search mlk_runtime)
endforeach()
