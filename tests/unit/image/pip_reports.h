// Texts that tests use as reports of pip.
#pragma once

#include <string>

#include "cli/image/pip.h"

namespace mlk::image::samples {

// The marker values of an image for amd64 with this version of Python, as a JSON object.
inline std::string environment_of(const std::string& python) {
  std::string out;
  for (const auto& [name, value] : mlk::image::marker_environment({{"linux", "amd64", ""}, python}).known)
    out += (out.empty() ? "\"" : ",\"") + name + "\":\"" + value + "\"";
  return "{" + out + "}";
}

inline std::string report_of(const std::string& package, const std::string& version,
                             const std::string& digest, const std::string& python) {
  return R"({"version":"1","environment":)" + environment_of(python) +
         R"(,"install":[{"metadata":{"name":")" + package + R"(","version":")" + version +
         R"("},"download_info":{"archive_info":{"hashes":{"sha256":")" + digest + R"("}}}}]})";
}

// A report with these entries, which commas separate.
inline std::string report_with(const std::string& entries) {
  return R"({"environment":)" + environment_of("3.11") + R"(,"install":[)" + entries + "]}";
}

}  // namespace mlk::image::samples
