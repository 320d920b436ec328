// mlk image: lists the images of a repository, shows the content of an image, and compares two images.

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/args/validators.h"
#include "cli/commands/commands.h"
#include "cli/commands/image_gc.h"
#include "cli/provide/images.h"
#include "cli/session/session.h"
#include "cli/ui/table.h"
#include "cli/util/error.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using nlohmann::json;
using registry::FoundImage;

constexpr std::size_t most_tags = 2000;

struct ImageOptions {
  std::string first, second, platform, output;
  bool insecure = false;
};

std::optional<image::Platform> platform_option(const ImageOptions& options) {
  if (options.platform.empty()) return std::nullopt;
  return image::parse_platform(options.platform);
}

std::string short_digest(const std::string& digest) {
  constexpr std::size_t algorithm = 7, digits = 12;
  return digest.substr(algorithm, digits);
}

// The image of a tag.
struct Tagged {
  std::string platforms{};
  std::optional<std::uint64_t> size{};  // only if the image is for one platform
  std::string error{};                  // if not empty: why mlk cannot read an image there
};

Tagged describe_tagged(const registry::Access& access, const image::Reference& named,
                       const registry::Registry::Document& document) {
  Tagged out;
  try {
    const auto parsed = image::parse_manifest(document.bytes, document.type, "image " + named.text());
    if (const auto* index = std::get_if<image::Index>(&parsed)) {
      std::vector<std::string> names;
      for (const image::Index::Entry& entry : index->entries) {
        if (!entry.platform.architecture.empty()) names.push_back(entry.platform.text());
      }
      out.platforms = join(names, ",");
    } else {
      const FoundImage found = find_image(access, named, std::nullopt);
      out.platforms = found.image.configuration.platform.text();
      out.size = found.size;
    }
  } catch (const Error& error) {
    // A tag may also name a chart, a build cache or another artifact.
    if (error.code() != ExitCode::failure && error.code() != ExitCode::not_found) throw;
    out.error = error.what();
  }
  return out;
}

void list_images(const ImageOptions& options, Session& session) {
  const image::Reference repository = image::parse_repository(options.first);
  const Registries registries(session, options.insecure);
  registry::Registry registry(registries.access(), repository);
  std::vector<std::string> tags = registry.tags(repository.repository, most_tags);
  std::sort(tags.begin(), tags.end());
  json all = json::array();
  ui::Table table({"TAG", "DIGEST", "PLATFORM", "SIZE"});
  std::vector<std::string> errors;
  for (const std::string& tag : tags) {
    image::Reference named = repository;
    named.tag = tag;
    const auto document = registry.find_manifest(repository.repository, tag);
    if (!document) continue;  // somebody has deleted the tag meanwhile
    const Tagged tagged = describe_tagged(registries.access(), named, *document);
    if (!tagged.error.empty()) errors.push_back(tagged.error);
    table.add(
        {tag, short_digest(document->digest), tagged.platforms, tagged.size ? human_size(*tagged.size) : ""});
    all.push_back({{"tag", tag},
                   {"digest", document->digest},
                   {"platform", tagged.platforms},
                   {"bytes", tagged.size.value_or(0)}});
  }
  if (tags.size() == most_tags) session.warn(fmt::format("only the first {} tags are shown", most_tags));
  if (options.output == "json") {
    session.out << json_text(all, 2) << '\n';
  } else {
    table.print(session.out, session.out_is_terminal, session.style_out());
  }
  if (!errors.empty())
    session.note(fmt::format("{} of the tags {} no image that mlk can read, such as: {}", errors.size(),
                             errors.size() == 1 ? "names" : "name", errors.front()));
}

json as_json(const FoundImage& found) {
  json layers = json::array();
  for (const image::Descriptor& layer : found.image.manifest.layers)
    layers.push_back({{"digest", layer.digest}, {"bytes", layer.size}, {"type", layer.media_type}});
  return {{"image", found.reference.name() + "@" + found.reference.digest},
          {"platform", found.image.configuration.platform.text()},
          {"bytes", found.size},
          {"layers", layers},
          {"config", found.image.configuration.whole.value("config", json::object())}};
}

// What `mlk image inspect` prints about an image without -o json, the most important first.
std::vector<std::pair<std::string, std::string>> facts_of(const FoundImage& found) {
  std::vector<std::pair<std::string, std::string>> out{
      {"image", found.reference.name() + "@" + found.reference.digest},
      {"platform", found.image.configuration.platform.text()},
      {"size", fmt::format("{} in {} layers", human_size(found.size), found.image.manifest.layers.size())}};
  const json& config = at_path(found.image.configuration.whole, {"config"});
  for (const char* key : {"User", "WorkingDir", "Entrypoint", "Cmd"}) {
    const json& value = at_path(config, {key});
    if (value.empty() || (value.is_string() && value.get_ref<const std::string&>().empty())) continue;
    std::string name = key;
    name[0] = static_cast<char>(name[0] + ('a' - 'A'));
    out.emplace_back(name == "workingDir" ? "workdir" : name,
                     value.is_string() ? value.get<std::string>() : json_text(value));
  }
  if (const json& variables = at_path(config, {"Env"}); variables.is_array()) {
    for (const json& each : variables) {
      if (each.is_string()) out.emplace_back("env", each.get<std::string>());
    }
  }
  return out;
}

void inspect_image(const ImageOptions& options, Session& session) {
  const Registries registries(session, options.insecure);
  const FoundImage found =
      find_image(registries.access(), image::parse_reference(options.first), platform_option(options));
  if (options.output == "json") {
    session.out << json_text(as_json(found), 2) << '\n';
    return;
  }
  for (const auto& [name, value] : facts_of(found))
    session.out << fmt::format("{:<11} {}\n", name, printable(value));
  for (const image::Descriptor& layer : found.image.manifest.layers)
    session.out << fmt::format("{:<11} {} {}\n", "layer", layer.digest, human_size(layer.size));
}

void compare_images(const ImageOptions& options, Session& session) {
  const Registries registries(session, options.insecure);
  const auto find = [&](const std::string& named) {
    return find_image(registries.access(), image::parse_reference(named), platform_option(options));
  };
  const FoundImage first = find(options.first), second = find(options.second);
  if (first.reference.digest == second.reference.digest) return session.note("they are the same image");
  const auto lines_of = [](const FoundImage& found) {
    std::vector<std::string> out;
    for (const auto& [name, value] : facts_of(found)) {
      if (name != "image" && name != "size") out.push_back(fmt::format("{} {}", name, printable(value)));
    }
    for (const image::Descriptor& layer : found.image.manifest.layers)
      out.push_back(fmt::format("layer {} {}", layer.digest, human_size(layer.size)));
    return out;
  };
  const std::vector<std::string> before = lines_of(first), after = lines_of(second);
  const auto print = [&](const char* sign, const std::vector<std::string>& lines,
                         const std::vector<std::string>& others) {
    for (const std::string& line : lines) {
      if (std::find(others.begin(), others.end(), line) == others.end()) session.out << sign << line << '\n';
    }
  };
  print("-", before, after);
  print("+", after, before);
  const auto shared = std::count_if(before.begin(), before.end(), [&](const std::string& line) {
    return line.starts_with("layer ") && std::find(after.begin(), after.end(), line) != after.end();
  });
  session.note(shared == 1 ? "1 layer is the same" : fmt::format("{} layers are the same", shared));
}

void add_common(CLI::App& command, ImageOptions& options) {
  command.add_flag("--insecure", options.insecure,
                   "Do not check the registry's certificate; use plain http if it has no TLS");
}

void add_platform(CLI::App& command, ImageOptions& options) {
  command.add_option("--platform", options.platform, "Of an image for several platforms: linux/arm64")
      ->type_name("OS/ARCH");
}

}  // namespace

void add_image(CLI::App& root, Session& session) {
  CLI::App* command =
      root.add_subcommand("image", "Look at images in registries, and delete those that are not needed");
  command->require_subcommand(1);
  auto options = std::make_shared<ImageOptions>();

  CLI::App* ls = command->add_subcommand("ls", "List the images of a repository");
  ls->add_option("REPOSITORY", options->first, "Such as registry.example/team/digits")->required();
  ls->add_option("-o,--output", options->output, "json")->check(one_of({"json"}));
  add_common(*ls, *options);
  ls->callback([options, &session] { list_images(*options, session); });

  CLI::App* inspect = command->add_subcommand("inspect", "Show what is in an image");
  inspect->add_option("IMAGE", options->first, "Such as registry.example/team/digits:1")->required();
  inspect->add_option("-o,--output", options->output, "json")->check(one_of({"json"}));
  add_platform(*inspect, *options);
  add_common(*inspect, *options);
  inspect->callback([options, &session] { inspect_image(*options, session); });

  CLI::App* diff = command->add_subcommand("diff", "Show how two images differ: settings and layers");
  diff->add_option("IMAGE", options->first, "An image")->required();
  diff->add_option("OTHER", options->second, "The image to compare it with")->required();
  add_platform(*diff, *options);
  add_common(*diff, *options);
  diff->callback([options, &session] { compare_images(*options, session); });

  add_image_gc(*command, session);
}

}  // namespace mlk
