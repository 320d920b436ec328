// Names of images. The text of an accepted name is parsed as the same name, and can be part of a URL and of a
// path.
#include "cli/image/reference.h"

#include <cstdint>
#include <string>

#include "cli/util/error.h"
#include "tests/fuzz/demand.h"

using mlk::fuzz::demand;
using mlk::image::Reference;

namespace {

void demand_good(const Reference& reference) {
  demand(reference.name().size() <= 255);
  for (const std::string& text : {reference.registry, reference.repository, reference.tag}) {
    for (const char c : text)
      demand(c > ' ' && c < 0x7f && c != '@' && c != '?' && c != '#' && c != '%' && c != '\\');
    demand(("/" + text + "/").find("/../") == std::string::npos);
    demand(("/" + text + "/").find("/./") == std::string::npos);
  }
  demand(!reference.registry.empty() && reference.registry.find('/') == std::string::npos);
  demand(!reference.repository.empty() && ("/" + reference.repository + "/").find("//") == std::string::npos);
  demand(reference.digest.empty() || mlk::image::is_digest(reference.digest));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Reference reference = mlk::image::parse_reference(text);
    demand_good(reference);
    demand(!reference.version().empty());
    demand(mlk::image::parse_reference(reference.text()).text() == reference.text());
  } catch (const mlk::Error& error) {
    demand(error.code() == mlk::ExitCode::usage);
  }
  try {
    const Reference repository = mlk::image::parse_repository(text);
    demand_good(repository);
    demand(repository.version().empty());
  } catch (const mlk::Error& error) {
    demand(error.code() == mlk::ExitCode::usage);
  }
  return 0;
}
