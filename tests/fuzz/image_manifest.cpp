// Documents of images in registries: any JSON, and mutated documents, which are nearly right.
#include <algorithm>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/image/compose.h"
#include "cli/image/manifest.h"
#include "cli/image/reference.h"
#include "cli/util/error.h"
#include "tests/fuzz/demand.h"

using mlk::fuzz::demand;
using namespace mlk::image;

namespace {

void demand_good(const Descriptor& descriptor) {
  demand(is_digest(descriptor.digest));
  demand(descriptor.size <= std::uint64_t{1} << 42);
}

// Composes an image above the base. The image also has the layers of the base, and it can be parsed.
void compose_above(const Manifest& manifest, const std::string& text) {
  const Configuration configuration = parse_configuration(text, manifest.layers.size(), "x");
  demand(configuration.diff_ids.size() == manifest.layers.size());
  (void)variable_of(configuration, "PYTHON_VERSION");
  const Layer layer{
      {oci_types.layer, "sha256:" + std::string(64, 'a'), 1}, "sha256:" + std::string(64, 'b'), "x"};
  const Composed composed =
      compose(Base{manifest, configuration}, {{layer, "code"}},
              {.env = {{"A", "b"}}, .workdir = "/x", .user = "1", .entrypoint = {"run"}});
  if (manifest.layers.size() == most_layers) return;
  const auto again = parse_manifest(composed.manifest, "", "x");
  demand(std::get<Manifest>(again).layers.size() == manifest.layers.size() + 1);
  demand(std::get<Manifest>(again).is_docker() == manifest.is_docker());
  const Configuration own = parse_configuration(composed.configuration, manifest.layers.size() + 1, "x");
  demand(variable_of(own, "A") == "b");
}

void read(const std::string& text, const std::string& type) {
  const auto found = parse_manifest(text, type, "x");
  if (const auto* index = std::get_if<Index>(&found)) {
    for (const Index::Entry& entry : index->entries) demand_good(entry.manifest);
    const Index::Entry& chosen = choose(*index, {"linux", "amd64", ""}, "x");
    demand(chosen.platform.os == "linux" && chosen.platform.architecture == "amd64");
    return;
  }
  const auto& manifest = std::get<Manifest>(found);
  demand(manifest.layers.size() <= most_layers);
  demand_good(manifest.configuration);
  for (const Descriptor& layer : manifest.layers) demand_good(layer);
}

}  // namespace

// The input is a document, a newline, the media type of the registry's answer, a newline, and a
// configuration.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const std::size_t first = std::min(all.find('\n'), all.size()),
                    second = std::min(all.find('\n', first + 1), size);
  const std::string document = all.substr(0, first),
                    type = first < size ? all.substr(first + 1, second - first - 1) : "",
                    configuration = second < size ? all.substr(second + 1) : document;
  try {
    read(document, type);
  } catch (const mlk::Error&) {
    // The error says why the document cannot be read.
  }
  try {
    Manifest manifest;
    manifest.media_type = type == "docker" ? docker_types.manifest : oci_types.manifest;
    manifest.configuration = {"", "sha256:" + std::string(64, 'c'), 1};
    manifest.layers.resize(type.size() % 3, manifest.configuration);
    compose_above(manifest, configuration);
  } catch (const mlk::Error&) {
    // The error says why the image cannot be composed.
  }
  return 0;
}
