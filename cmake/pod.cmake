# mlk-mpi, the helper of `framework: mpi` (pod/mpi/): static, and small enough for a ConfigMap, so with musl. musl's headers know
# nothing of C++; the definitions are what libstdc++'s ask of glibc's. Without musl-tools mlk refuses `framework: mpi`.
mlk_rooms("^pod/mpi$")   # for its tests

file(GLOB mlk_mpi_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/pod/mpi/*.cpp)
file(GLOB mlk_mpi_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/pod/mpi/*.h)
list(APPEND mlk_mpi_sources ${CMAKE_SOURCE_DIR}/runtime/base/hmac.cpp)
string(REGEX REPLACE "-gnu$" "-musl" mlk_musl "${CMAKE_LIBRARY_ARCHITECTURE}")
set(mlk_musl_specs /usr/lib/${mlk_musl}/musl-gcc.specs)
set(mlk_mpi_helper)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND EXISTS ${mlk_musl_specs})
  set(mlk_mpi_flags -std=c++20 -Os -Wall -Wextra -Werror -fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections
      -specs=${mlk_musl_specs} -DMLK_MPI_STANDALONE "-D__GLIBC_PREREQ(major,minor)=0" -D__locale_t=locale_t -D_GLIBCXX_EXTERN_TEMPLATE=0 -I${CMAKE_SOURCE_DIR})
  foreach(folder ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
    if(folder MATCHES "c\\+\\+")
      list(APPEND mlk_mpi_flags -isystem ${folder})
    endif()
  endforeach()
  set(mlk_mpi_helper ${CMAKE_BINARY_DIR}/mlk-mpi)
  add_custom_command(OUTPUT ${mlk_mpi_helper}
    COMMAND ${CMAKE_CXX_COMPILER} ${mlk_mpi_flags} ${mlk_mpi_sources} -static -nodefaultlibs -lc -lgcc -Wl,--gc-sections -s -o ${mlk_mpi_helper}
    DEPENDS ${mlk_mpi_sources} ${mlk_mpi_headers} ${CMAKE_SOURCE_DIR}/runtime/base/hmac.h VERBATIM)
endif()

mlk_test(pod mlk_pod_mpi)
