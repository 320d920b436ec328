find_package(Threads REQUIRED)

add_library(mlk_options INTERFACE)
target_include_directories(mlk_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(mlk_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
target_link_libraries(mlk_options INTERFACE Threads::Threads)
# __FILE__, which tests print, is below the checkout: then the compiler's cache holds for another checkout as well.
target_compile_options(mlk_options INTERFACE -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 reports these two inside its own <string> and <vector> at -O2 (GCC bugs 105329, 105651).
  target_compile_options(mlk_options INTERFACE -Wno-restrict -Wno-stringop-overflow)
elseif(MLK_SANITIZE MATCHES "fuzzer")
  target_compile_options(mlk_options INTERFACE -w)   # clang; the other builds warn
endif()
# For targets whose files are compiled in groups: a name may shadow one of another file of the group. Link it after mlk_options.
add_library(mlk_grouped INTERFACE)
target_compile_options(mlk_grouped INTERFACE -Wno-shadow -Wshadow=local -Wno-subobject-linkage)
if(CMAKE_UNITY_BUILD)
  target_link_libraries(mlk_options INTERFACE mlk_grouped)
endif()
if(MLK_SANITIZE)
  target_compile_options(mlk_options INTERFACE -fsanitize=${MLK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(mlk_options INTERFACE -fsanitize=${MLK_SANITIZE})
  if(MLK_SANITIZE MATCHES "address")   # at a fixed address: the table of all variables, read at each start, needs no relocation
    target_link_options(mlk_options INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
    target_sources(mlk_options INTERFACE
                   $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${CMAKE_SOURCE_DIR}/cmake/asan_options.cpp>)
  endif()
  if(MLK_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Undefined behaviour ends a program by a trap, and asan prints the stack. With messages instead, mlk has 56 MB more of data: each start
    # maps them, and at each end the search for leaks reads them.
    target_compile_options(mlk_options INTERFACE -fsanitize-undefined-trap-on-error)
  endif()
  target_compile_definitions(mlk_options INTERFACE MLK_SANITIZED=1)
endif()
if(MOLD)
  target_link_options(mlk_options INTERFACE -fuse-ld=mold)
endif()
