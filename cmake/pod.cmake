# The helpers in pods (pod/): static, and small enough for a ConfigMap, so with musl. musl's headers know nothing of C++; the
# definitions are what libstdc++'s ask of glibc's. Without musl-tools mlk refuses what needs a helper.
mlk_rooms("^pod(/|$)")   # for their tests

string(REGEX REPLACE "-gnu$" "-musl" mlk_musl "${CMAKE_LIBRARY_ARCHITECTURE}")
set(mlk_musl_specs /usr/lib/${mlk_musl}/musl-gcc.specs)
set(mlk_helpers)   # NAME=FILE for each helper, which cmake/cli.cmake compiles into mlk
set(mlk_helper_files)

# mlk_helper(NAME FOLDERS...): all *.cpp of the folders as the static program NAME.
function(mlk_helper name)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT EXISTS ${mlk_musl_specs})
    return()
  endif()
  set(sources ${CMAKE_SOURCE_DIR}/runtime/base/hmac.cpp ${CMAKE_SOURCE_DIR}/runtime/base/sha_extensions.cpp)
  set(headers ${CMAKE_SOURCE_DIR}/runtime/base/hmac.h ${CMAKE_SOURCE_DIR}/runtime/base/sha_extensions.h)
  foreach(folder pod/base ${ARGN})
    file(GLOB of_folder CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
    list(APPEND sources ${of_folder})
    file(GLOB of_folder CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.h)
    list(APPEND headers ${of_folder})
  endforeach()
  set(flags -std=c++20 -O2 -Wall -Wextra -Werror -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections
      -specs=${mlk_musl_specs} -DMLK_POD_STANDALONE "-D__GLIBC_PREREQ(major,minor)=0" -D__locale_t=locale_t -D_GLIBCXX_EXTERN_TEMPLATE=0 -I${CMAKE_SOURCE_DIR})
  foreach(folder ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
    if(folder MATCHES "c\\+\\+")
      list(APPEND flags -isystem ${folder})
    endif()
  endforeach()
  set(file ${CMAKE_BINARY_DIR}/${name})
  add_custom_command(OUTPUT ${file}
    COMMAND ${CMAKE_CXX_COMPILER} ${flags} ${sources} -static -nodefaultlibs -lc -lgcc -Wl,--gc-sections -s -o ${file}
    DEPENDS ${sources} ${headers} VERBATIM)
  set(mlk_helpers ${mlk_helpers} ${name}=${file} PARENT_SCOPE)
  set(mlk_helper_files ${mlk_helper_files} ${file} PARENT_SCOPE)
endfunction()
mlk_helper(mlk-mpi pod/mpi)
mlk_helper(mlk-pod pod)

mlk_test(pod mlk_pod mlk_pod_mpi)
