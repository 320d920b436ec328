# mlk_library(NAME FOLDER [LIBRARIES...]): all *.cpp of FOLDER (but main.cpp) as the static library mlk_NAME.
function(mlk_library name folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(NOT sources)   # a folder of headers alone
    set(sources ${CMAKE_BINARY_DIR}/empty.cpp)
    file(TOUCH ${sources})
  endif()
  add_library(mlk_${name} STATIC ${sources})
  target_link_libraries(mlk_${name} PUBLIC mlk_options ${ARGN})
endfunction()

# mlk_test(NAME [LIBRARIES...]): all *.cpp of tests/unit/NAME as the doctest program unit_NAME. Tests run once after they were
# compiled: what optimising them costs, or a catch around every assertion, does not come back.
function(mlk_test name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${name}/*.cpp)
  if(NOT sources OR NOT MLK_TESTS)
    return()
  endif()
  find_package(doctest REQUIRED)
  if(NOT TARGET unit_main)   # compiled once: it is all of doctest
    add_library(unit_main OBJECT ${CMAKE_SOURCE_DIR}/tests/unit/main.cpp)
    target_compile_definitions(unit_main PRIVATE MLK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(unit_main PRIVATE mlk_options doctest::doctest)
  endif()
  add_executable(unit_${name} ${sources} $<TARGET_OBJECTS:unit_main>)
  target_link_libraries(unit_${name} PRIVATE mlk_options doctest::doctest ${ARGN})
  target_compile_definitions(unit_${name} PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
  target_compile_options(unit_${name} PRIVATE $<$<CONFIG:Release>:-Og>)
  set_property(GLOBAL APPEND PROPERTY MLK_UNIT_TESTS unit_${name})
endfunction()
