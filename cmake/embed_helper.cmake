# cmake -DOUT=x.cpp -DFILE=helper -P embed_helper.cmake
# The bytes of the program as C++; none if FILE is empty.
set(bytes)
if(FILE)
  file(READ ${FILE} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
endif()
file(WRITE ${OUT} "#include \"cli/render/helper.h\"\n\nnamespace mlk {\n\nstd::string_view embedded_mpi_helper() {\n  static const char bytes[] = {${bytes}'\\0'};\n  return {bytes, sizeof bytes - 1};\n}\n\n}  // namespace mlk\n")
