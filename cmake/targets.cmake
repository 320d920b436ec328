# The lines of the rooms.
file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/rooms.txt mlk_room_lines REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/rooms.txt)

# mlk_name(VARIABLE FOLDER): the library of a room: runtime/ps is runtime_ps, cli/local/api is local_api, cli itself app.
function(mlk_name variable folder)
  string(REGEX REPLACE "^cli/" "" name ${folder})
  string(REGEX REPLACE "^cli$" "app" name ${name})
  string(REPLACE "/" "_" name ${name})
  set(${variable} ${name} PARENT_SCOPE)
endfunction()

# mlk_rooms(REGEX): a library mlk_NAME of each room whose folder matches, linked to those that it may include.
function(mlk_rooms regex)
  foreach(line ${mlk_room_lines})
    string(REGEX MATCH "^([^ |]+) *\\|([^|]*)\\|" matched ${line})
    set(folder ${CMAKE_MATCH_1})
    separate_arguments(uses UNIX_COMMAND ${CMAKE_MATCH_2})
    if(NOT folder MATCHES ${regex})
      continue()
    endif()
    set(libraries)
    foreach(used ${uses})
      mlk_name(name ${used})
      list(APPEND libraries mlk_${name})
    endforeach()
    mlk_name(name ${folder})
    mlk_library(${name} ${folder} ${libraries})
  endforeach()
endfunction()

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

# mlk_test(NAME [LIBRARIES...]): all *.cpp at or below tests/unit/NAME as the doctest program unit_NAME. Tests run once after they were
# compiled: what optimising them costs, or a catch around every assertion, does not come back.
function(mlk_test name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${name}/*.cpp)
  if(NOT sources OR NOT MLK_TESTS)
    return()
  endif()
  find_package(doctest REQUIRED)
  if(NOT TARGET unit_main)   # compiled once: it is all of doctest
    add_custom_target(units)   # all unit tests
    add_library(unit_main OBJECT ${CMAKE_SOURCE_DIR}/tests/unit/main.cpp)
    target_compile_definitions(unit_main PRIVATE MLK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(unit_main PRIVATE mlk_options doctest::doctest)
  endif()
  add_executable(unit_${name} ${sources} $<TARGET_OBJECTS:unit_main>)
  target_link_libraries(unit_${name} PRIVATE mlk_options doctest::doctest ${ARGN})
  target_compile_definitions(unit_${name} PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
  target_compile_options(unit_${name} PRIVATE $<$<CONFIG:Release>:-Og>)
  if(MLK_GROUP_TESTS)   # also in the preset dev: the headers of tests are most of what it compiles
    set_target_properties(unit_${name} PROPERTIES UNITY_BUILD ON)
    target_link_libraries(unit_${name} PRIVATE mlk_grouped)
  endif()
  add_dependencies(units unit_${name})
endfunction()
