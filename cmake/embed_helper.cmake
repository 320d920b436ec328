# cmake -DOUT=x.cpp "-DHELPERS=NAME=FILE;..." -P embed_helper.cmake
# The bytes of the programs as C++, by their names.
set(found)
foreach(helper ${HELPERS})
  string(REGEX MATCH "^([^=]+)=(.+)$" matched ${helper})
  set(name ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND found "  if (name == \"${name}\") {\n    static const char bytes[] = {${bytes}'\\0'};\n    return {bytes, sizeof bytes - 1};\n  }\n")
endforeach()
file(WRITE ${OUT} "#include \"cli/render/helper.h\"\n\nnamespace mlk {\n\nstd::string_view embedded_helper([[maybe_unused]] std::string_view name) {\n${found}  return {};\n}\n\n}  // namespace mlk\n")
