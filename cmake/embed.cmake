# cmake -DOUT=x.cpp -DROOT=folder -DFILES=a;b -P embed.cmake
# Writes the text files as one C++ table, in pieces: a string literal may hold 64 KiB only.
set(text "#include \"cli/render/embedded.h\"\n\nnamespace mlk {\n\nconst std::vector<EmbeddedFile>& embedded_templates() {\n  static const std::vector<EmbeddedFile> files = {\n")
foreach(file IN LISTS FILES)
  file(RELATIVE_PATH name ${ROOT} ${file})
  file(READ ${file} content)
  string(APPEND text "      {\"${name}\", R\"mlk-yaml(${content})mlk-yaml\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n}  // namespace mlk\n")
file(WRITE ${OUT} "${text}")
