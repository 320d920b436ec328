#include "cli/image/manifest.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "cli/image/reference.h"
#include "cli/util/error.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::image {

using nlohmann::json;

namespace {

constexpr JsonBounds bounds{.depth = 50, .values = 200'000};

[[noreturn]] void fail(const std::string& name, const std::string& why) {
  throw Error(ExitCode::failure, fmt::format("{}: {}", name, why));
}

// The text of a member, or "" if the member is absent or null. Fails if the member is no text.
std::string checked_text(const json& object, const char* key, const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  if (!found->is_string()) fail(name, fmt::format("its {} is no text", key));
  return found->get<std::string>();
}

Descriptor descriptor_of(const json& value, const std::string& name) {
  if (!value.is_object()) fail(name, "a part of it is not described");
  Descriptor out{.media_type = checked_text(value, "mediaType", name),
                 .digest = checked_text(value, "digest", name)};
  if (!is_digest(out.digest)) fail(name, "a part of it is named by no digest of sha256");
  const auto size = value.find("size");
  constexpr std::uint64_t most = std::uint64_t{1} << 42;
  if (size == value.end() || !size->is_number_unsigned() || size->get<std::uint64_t>() > most)
    fail(name, "a part of it has no size");
  out.size = size->get<std::uint64_t>();
  if (const auto urls = value.find("urls"); urls != value.end() && !urls->empty())
    fail(name, "a layer of it lies outside of its registry, and mlk does not follow it there");
  if (const auto notes = value.find("annotations"); notes != value.end() && notes->is_object())
    out.purpose = checked_text(*notes, purpose_annotation, name);
  return out;
}

Platform platform_of(const json& value, const std::string& name) {
  Platform out;
  if (!value.is_object()) {
    out.is_unsaid = true;
    return out;
  }
  out.os = checked_text(value, "os", name);
  if (const auto features = value.find("os.features"); features != value.end() && features->is_array()) {
    for (const json& feature : *features) out.features.push_back(text_or_json(feature));
  }
  out.architecture = checked_text(value, "architecture", name);
  out.variant = checked_text(value, "variant", name);
  if (out.architecture == "unknown") out.architecture.clear();
  return out;
}

const json& list_of(const json& object, const char* key, const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) fail(name, fmt::format("it has no list of {}", key));
  if (found->size() > most_layers)
    fail(name, fmt::format("it has {} {}, more than {}", found->size(), key, most_layers));
  return *found;
}

json object_in(std::string_view bytes, const std::string& name) {
  json out = parse_json(bytes, name, bounds);
  if (!out.is_object()) fail(name, "it is no object of JSON");
  return out;
}

// The number in a variant: 8 for "v8" and for "8". nullopt if the variant has another form.
std::optional<int> number_of_variant(std::string_view variant) {
  if (variant.starts_with('v')) variant.remove_prefix(1);
  if (variant.empty() || variant.size() > 3 || variant.find_first_not_of("0123456789") != variant.npos)
    return std::nullopt;
  return std::stoi(std::string(variant));
}

// The variant that container runtimes assume for an architecture without a variant.
std::string_view usual_variant(std::string_view architecture) {
  if (architecture == "amd64") return "v1";
  if (architecture == "arm64") return "v8";
  return architecture == "arm" ? "v7" : "";
}

// How far an entry is from the wanted platform. mlk chooses the entry with the smallest distance. nullopt:
// the programs of the entry may fail on this platform.
std::optional<int> distance(const Platform& platform, const Platform& wanted) {
  if (platform.os != wanted.os || platform.architecture != wanted.architecture) return std::nullopt;
  const std::string usual(usual_variant(wanted.architecture));
  const auto or_usual = [&](const std::string& variant) { return variant.empty() ? usual : variant; };
  const std::string own = or_usual(platform.variant), asked = or_usual(wanted.variant);
  constexpr int of_features = 10'000;  // added if an entry needs features that nodes may lack
  const int last = platform.features.empty() ? 0 : of_features;
  if (own == asked) return last + (platform.variant == wanted.variant ? 0 : 1);
  const std::optional<int> has = number_of_variant(own), needs = number_of_variant(asked);
  constexpr int another = 10, newer = 2000;
  if (has && needs && *has <= *needs) return last + another + *needs - *has;  // built for an older processor
  // The entry is for a newer or unknown processor. It fits only if the user has not named a variant.
  if (!wanted.variant.empty()) return std::nullopt;
  return last + (has && needs ? newer + *has - *needs : 2 * newer);
}

}  // namespace

std::string Platform::text() const {
  return os + "/" + architecture + (variant.empty() ? "" : "/" + variant);
}

Platform parse_platform(std::string_view text) {
  std::vector<std::string> parts = split(text, '/');
  if (parts.size() == 1) parts.insert(parts.begin(), "linux");
  const auto is_word = [](const std::string& part) {
    return !part.empty() && part.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == part.npos;
  };
  if (parts.size() < 2 || parts.size() > 3 || !std::all_of(parts.begin(), parts.end(), is_word))
    throw Error(ExitCode::usage, fmt::format("'{}' is no platform", printable(text)),
                "for example: --platform linux/arm64");
  return {parts[0], parts[1], parts.size() == 3 ? parts[2] : ""};
}

std::variant<Manifest, Index> parse_manifest(std::string_view bytes, const std::string& content_type,
                                             const std::string& name) {
  const json object = object_in(bytes, name);
  std::string type = checked_text(object, "mediaType", name);
  if (type.empty()) type = content_type.substr(0, content_type.find(';'));
  const bool is_index = object.contains("manifests"), is_manifest = object.contains("layers");
  if (object.value("schemaVersion", json()) != 2 || is_index == is_manifest)
    fail(name,
         "it is neither a manifest nor an index, or of Docker's schema 1, which is not in use any more");
  if (is_index) {
    Index out;
    for (const json& entry : list_of(object, "manifests", name)) {
      const Descriptor manifest = descriptor_of(entry, name);
      out.entries.push_back({manifest, platform_of(entry.value("platform", json()), name)});
    }
    return out;
  }
  Manifest out{type == docker_types.manifest ? docker_types.manifest : oci_types.manifest, {}, {}};
  out.configuration = descriptor_of(object.value("config", json()), name);
  for (const json& layer : list_of(object, "layers", name)) out.layers.push_back(descriptor_of(layer, name));
  return out;
}

const Index::Entry& choose(const Index& index, const Platform& wanted, const std::string& name) {
  const Index::Entry* found = nullptr;
  int best = 0;
  std::vector<std::string> there;
  for (const Index::Entry& entry : index.entries) {
    if (entry.platform.architecture.empty()) continue;
    there.push_back(entry.platform.text());
    const std::optional<int> how_far = distance(entry.platform, wanted);
    if (!how_far || (found != nullptr && *how_far >= best)) continue;
    found = &entry;
    best = *how_far;
  }
  // An entry without a platform may be for any platform: only the image itself shows which one. So mlk
  // follows such an entry if it is the only one, and no other entry has a platform.
  const auto is_unsaid = [](const Index::Entry& entry) { return entry.platform.is_unsaid; };
  if (there.empty() && std::count_if(index.entries.begin(), index.entries.end(), is_unsaid) == 1)
    return *std::find_if(index.entries.begin(), index.entries.end(), is_unsaid);
  if (found == nullptr)
    throw Error(ExitCode::not_found, fmt::format("{} is not there for {}", name, wanted.text()),
                there.empty() ? "" : "it is there for " + printable(join(there, ", ")));
  return *found;
}

Configuration parse_configuration(std::string_view bytes, std::size_t layers, const std::string& name) {
  Configuration out;
  out.whole = object_in(bytes, name);
  out.platform = platform_of(out.whole, name);
  const auto files = out.whole.find("rootfs");
  if (files == out.whole.end() || !files->is_object()) fail(name, "its configuration has no rootfs");
  for (const json& id : list_of(*files, "diff_ids", name)) {
    if (!id.is_string() || !is_digest(id.get_ref<const std::string&>()))
      fail(name, "its configuration names a layer by no digest of sha256");
    out.diff_ids.push_back(id.get<std::string>());
  }
  if (out.diff_ids.size() != layers)
    fail(name, "its configuration and its manifest disagree about the layers");
  if (const auto config = out.whole.find("config");
      config != out.whole.end() && !config->is_object() && !config->is_null())
    fail(name, "its configuration is no object");
  return out;
}

std::string variable_of(const Configuration& configuration, const std::string& name) {
  const json& variables = at_path(configuration.whole, {"config", "Env"});
  if (!variables.is_array()) return "";
  for (const json& each : variables) {
    if (each.is_string() && each.get_ref<const std::string&>().starts_with(name + "="))
      return each.get<std::string>().substr(name.size() + 1);
  }
  return "";
}

}  // namespace mlk::image
