// The files of templates/, compiled into the binary. cmake/embed.cmake generates the table of the files.
#pragma once

#include <string_view>
#include <vector>

namespace mlk {

struct EmbeddedFile {
  std::string_view path;  // below templates/, for example "jobs/ps.yaml"
  std::string_view text;
};

const std::vector<EmbeddedFile>& embedded_templates();

}  // namespace mlk
