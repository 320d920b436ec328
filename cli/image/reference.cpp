#include "cli/image/reference.h"

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <vector>

#include <fmt/format.h>

#include "cli/util/error.h"
#include "cli/util/text.h"

namespace mlk::image {
namespace {

constexpr std::size_t longest_image_name = 255, longest_tag = 128;

bool is_small(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_word(char c) { return is_small(c) || (c >= 'A' && c <= 'Z') || c == '_'; }

// Whether the text is a list of [a-z0-9]+ with ".", "_", "__" or dashes between them.
bool is_component(std::string_view text) {
  if (text.empty() || !is_small(text.front()) || !is_small(text.back())) return false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end =
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_small) - text.begin();
    const std::string_view between = text.substr(at, end - at);
    const bool dashes = between.find_first_not_of('-') == between.npos;
    if (!dashes && between != "." && between != "_" && between != "__") return false;
    at = end + 1;
  }
  return true;
}

// Whether the text is a label of a host name: [a-zA-Z0-9], with dashes inside.
bool is_host_label(std::string_view text) {
  return !text.empty() && text.front() != '-' && text.back() != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) { return (is_word(c) && c != '_') || c == '-'; });
}

bool is_address_of_v6(const std::string& text) {
  in6_addr address{};
  if (text.find('\0') != text.npos) return false;  // a C string would end there
  return ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool is_port(std::string_view text) {
  constexpr std::size_t digits = 5;
  constexpr int last = 65535;
  if (text.empty() || text.size() > digits || text.find_first_not_of("0123456789") != text.npos) return false;
  const int port = std::stoi(std::string(text));
  return port > 0 && port <= last;
}

// Whether the text is a valid host of a URL. Without this check, the first request would report the error.
bool is_host(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != text.npos && text.back() != ']';
  if (has_port && !is_port(text.substr(colon + 1))) return false;
  const std::string_view host = text.substr(0, has_port ? colon : text.npos);
  if (host.starts_with('[') && host.ends_with(']'))
    return is_address_of_v6(std::string(host.substr(1, host.size() - 2)));
  const std::vector<std::string> labels = split(host, '.');
  return !labels.empty() && std::all_of(labels.begin(), labels.end(), is_host_label);
}

[[noreturn]] void refuse_name(const std::string& why) {
  throw Error(ExitCode::usage, why, "an image is named like registry.example/team/trainer:1");
}

// Splits the text into registry and repository, and checks both.
Reference named(std::string_view text, std::string_view whole) {
  Reference out{.registry = docker_hub, .repository = std::string(text)};
  const std::size_t slash = text.find('/');
  if (slash != text.npos) {
    const std::string_view first = text.substr(0, slash);
    const bool is_registry =
        first.find_first_of(".:") != first.npos || first == "localhost" ||
        std::any_of(first.begin(), first.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
    if (is_registry) {
      out.registry = first;
      out.repository = text.substr(slash + 1);
    }
  }
  if (out.registry == "index.docker.io" || out.registry == "registry-1.docker.io") out.registry = docker_hub;
  if (out.registry == docker_hub && out.repository.find('/') == std::string::npos)
    out.repository = "library/" + out.repository;
  const std::string shown = printable(whole.substr(0, longest_image_name));
  if (!is_host(out.registry))
    refuse_name(fmt::format("'{}' does not begin with a valid registry host", shown));
  const std::vector<std::string> parts = split(out.repository, '/');
  const bool good = !parts.empty() && std::all_of(parts.begin(), parts.end(), is_component);
  if (!good || out.name().size() > longest_image_name)
    refuse_name(
        fmt::format("'{}' is not the name of an image: its parts have lower-case letters, digits and single "
                    "'.', '_' or '-' between them",
                    shown));
  return out;
}

// Refuses a login in a name, because mlk shows names in many places.
void refuse_login(std::string_view text) {
  const std::size_t at = text.find('@');
  const bool is_url = text.find("://") != text.npos;
  const bool is_login = at != text.npos && (is_url || text.find('/', at) != text.npos);
  if (is_login || is_url)
    throw Error(
        ExitCode::usage,
        is_login ? "the name of an image holds no user and no password"
                 : fmt::format("'{}' is a URL, and an image is named without a scheme",
                               printable(text.substr(0, longest_image_name))),
        "log in to the registry by docker login, podman login or skopeo login, and name the image like "
        "registry.example/team/trainer:1");
}

// The text before the @ may be a login, so the message does not show it.
[[noreturn]] void refuse_digest(std::string_view text) {
  refuse_name(fmt::format("'{}' in the name of an image: after @ stands sha256: and 64 hexadecimal digits",
                          printable(text.substr(text.rfind('@'), longest_image_name))));
}

}  // namespace

bool is_digest(std::string_view text) {
  constexpr std::string_view algorithm = "sha256:";
  constexpr std::size_t digits = 64;
  return text.starts_with(algorithm) && text.size() == algorithm.size() + digits &&
         text.find_first_not_of("0123456789abcdef", algorithm.size()) == text.npos;
}

bool is_tag(std::string_view text) {
  return !text.empty() && text.size() <= longest_tag && is_word(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_word(c) || c == '.' || c == '-'; });
}

std::string Reference::text() const {
  return name() + (tag.empty() ? "" : ":" + tag) + (digest.empty() ? "" : "@" + digest);
}

Reference parse_reference(std::string_view text) {
  refuse_login(text);
  std::string_view rest = text;
  std::string tag, digest;
  if (const std::size_t at = rest.find('@'); at != rest.npos) {
    digest = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!is_digest(digest)) refuse_digest(text);
  }
  const std::size_t slash = rest.rfind('/');
  if (const std::size_t colon = rest.find(':', slash == rest.npos ? 0 : slash); colon != rest.npos) {
    tag = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!is_tag(tag))
      refuse_name(fmt::format("'{}': a tag has letters, digits, '_', '.' and '-', {} at most",
                              printable(text.substr(0, longest_image_name)), longest_tag));
  }
  Reference out = named(rest, text);
  out.tag = tag.empty() && digest.empty() ? "latest" : tag;
  out.digest = digest;
  return out;
}

Reference parse_repository(std::string_view text) {
  refuse_login(text);
  if (text.find('@') != text.npos) refuse_digest(text);
  return named(text, text);
}

}  // namespace mlk::image
