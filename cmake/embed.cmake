# cmake -DOUT=x.cpp -DROOT=folder -DFILES=a;b -DHEADER=y.h -DNAMESPACE=mlk -DFUNCTION=name -P embed.cmake
# Defines the function, which the header declares. Writes the text files as one C++ table, in pieces: a string literal may hold 64 KiB only.
set(text "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\nconst std::vector<EmbeddedFile>& ${FUNCTION}() {\n  static const std::vector<EmbeddedFile> files = {\n")
foreach(file IN LISTS FILES)
  file(RELATIVE_PATH name ${ROOT} ${file})
  file(READ ${file} content)
  string(APPEND text "      {\"${name}\", R\"mlk-yaml(${content})mlk-yaml\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUT} "${text}")
