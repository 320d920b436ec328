// The challenges of registries that answer 401.
#include "cli/registry/challenge.h"

#include <cctype>
#include <cstdint>
#include <string>

#include "tests/fuzz/demand.h"

using mlk::fuzz::demand;
using mlk::registry::Challenge;

namespace {

bool is_name(const std::string& text) {
  for (const char c : text) {
    if (c <= ' ' || c >= 0x7f || std::isupper(static_cast<unsigned char>(c)) != 0 || c == '"' || c == ',' ||
        c == '=')
      return false;
  }
  return !text.empty();
}

// Returns the challenges as text, with each value in quotes.
std::string written(const std::vector<Challenge>& challenges) {
  std::string out;
  for (const Challenge& challenge : challenges) {
    out += (out.empty() ? "" : ", ") + challenge.scheme;
    std::string separator = " ";
    for (const auto& [name, value] : challenge.parameters) {
      out += separator + name + "=\"";
      for (const char c : value) out += std::string(c == '"' || c == '\\' ? "\\" : "") + c;
      out += '"';
      separator = ", ";
    }
  }
  return out;
}

bool is_same(const std::vector<Challenge>& a, const std::vector<Challenge>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].scheme != b[i].scheme || a[i].parameters != b[i].parameters) return false;
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<Challenge> found =
      mlk::registry::parse_challenges(std::string(reinterpret_cast<const char*>(data), size));
  demand(found.size() <= 16);
  for (const Challenge& challenge : found) {
    demand(is_name(challenge.scheme));
    demand(challenge.parameters.size() <= 16);
    for (const auto& each : challenge.parameters) demand(is_name(each.first));
  }
  demand(is_same(mlk::registry::parse_challenges(written(found)), found));
  if (const auto best = mlk::registry::best_of(found))
    demand(best->scheme == "basic" || (best->scheme == "bearer" && best->parameters.contains("realm")));
  return 0;
}
