#include "cli/registry/base.h"

#include <sys/utsname.h>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::registry {
namespace {

struct Found {
  std::shared_ptr<Registry> registry;
  Registry::Document document;
};

// Asks the mirror first, and then the registry itself. Skips a mirror that fails or lacks the image.
std::optional<Found> find_document(const Access& access, const image::Reference& reference) {
  const auto ask = [&](const image::Reference& where) -> std::optional<Found> {
    auto registry = std::make_shared<Registry>(access, where);
    std::optional<Registry::Document> document = registry->find_manifest(where.repository, where.version());
    if (!document) return std::nullopt;
    return Found{std::move(registry), std::move(*document)};
  };
  if (const auto mirror = access.mirrors.find(reference.registry); mirror != access.mirrors.end()) {
    image::Reference there = reference;
    there.registry = mirror->second;
    try {
      if (std::optional<Found> found = ask(there)) return found;
    } catch (const Error& error) {
      if (error.code() == ExitCode::interrupted) throw;
      if (access.note) access.note(fmt::format("mirror {} is passed over: {}", mirror->second, error.what()));
    }
  }
  return ask(reference);
}

// The only platform in the index, or else the platform of this machine.
image::Platform usual_platform(const image::Index& index) {
  std::vector<image::Platform> there;
  for (const image::Index::Entry& entry : index.entries) {
    if (!entry.platform.architecture.empty()) there.push_back(entry.platform);
  }
  return there.size() == 1 ? there.front() : own_platform();
}

}  // namespace

image::Platform own_platform() {
  utsname name{};
  uname(&name);
  const std::string machine = name.machine;
  if (machine == "x86_64") return {"linux", "amd64", ""};
  if (machine == "aarch64" || machine == "arm64") return {"linux", "arm64", ""};
  return {"linux", machine, ""};
}

FoundImage find_image(const Access& access, const image::Reference& reference,
                      const std::optional<image::Platform>& platform,
                      const std::function<void(const FoundImage&)>& know_layers) {
  const std::string name = "image " + reference.text();
  std::optional<Found> found = find_document(access, reference);
  if (!found)
    throw Error(ExitCode::not_found, fmt::format("registry {} has no {}", reference.registry, name),
                "a private image needs a login: docker login " + reference.registry);
  FoundImage out{.registry = found->registry, .reference = reference, .image = {}};
  std::string digest = found->document.digest;
  auto parsed = image::parse_manifest(found->document.bytes, found->document.type, name);
  constexpr int deepest = 3;  // nested indexes
  for (int depth = 0; depth < deepest; ++depth) {
    const auto* index = std::get_if<image::Index>(&parsed);
    if (index == nullptr) break;
    digest = choose(*index, platform ? *platform : usual_platform(*index), name).manifest.digest;
    const auto document = out.registry->find_manifest(reference.repository, digest);
    if (!document)
      throw Error(ExitCode::failure, fmt::format("{}: its index names a manifest that is not there", name));
    parsed = image::parse_manifest(document->bytes, document->type, name);
  }
  const auto* manifest = std::get_if<image::Manifest>(&parsed);
  if (manifest == nullptr)
    throw Error(ExitCode::failure, fmt::format("{}: more than {} indexes name each other", name, deepest));
  out.reference.digest = digest;
  out.image.manifest = *manifest;
  for (const image::Descriptor& layer : manifest->layers) out.size += layer.size;
  if (know_layers) know_layers(out);
  const std::string configuration =
      out.registry->blob(reference.repository, manifest->configuration, image::longest_configuration);
  out.image.configuration = image::parse_configuration(configuration, manifest->layers.size(), name);
  if (platform && platform->architecture != out.image.configuration.platform.architecture)
    throw Error(ExitCode::not_found,
                fmt::format("{} is for {}, not for {}", name,
                            printable(out.image.configuration.platform.text()), platform->text()));
  return out;
}

std::optional<image::Libc> libc_of(const FoundImage& image) {
  constexpr std::uint64_t most_bytes = 256 << 20;  // an image without a C library is smaller
  std::uint64_t bytes = 0;
  for (const image::Descriptor& layer : image.image.manifest.layers) {
    image::LibcOfLayer search;
    image.registry->read_blob(image.reference.repository, layer, [&](std::string_view part) {
      bytes += part.size();
      return search.feed(part) && bytes < most_bytes;
    });
    if (search.found() || bytes >= most_bytes) return search.found();
  }
  return std::nullopt;
}

}  // namespace mlk::registry
