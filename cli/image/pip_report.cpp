#include "cli/image/pip_report.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/image/requirements.h"
#include "cli/util/error.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::image {

using nlohmann::json;

namespace {

// The digest of an entry of the report: "sha256=...". Old and new versions of pip write it in different
// places.
std::string digest_of(const json& item) {
  for (const char* algorithm : {"sha256", "sha384", "sha512", "md5", "sha1"}) {
    const std::string digest = text_of(item, {"download_info", "archive_info", "hashes", algorithm});
    if (!digest.empty()) return algorithm + ("=" + digest);
  }
  return text_of(item, {"download_info", "archive_info", "hash"});
}

}  // namespace

std::vector<ResolvedPackage> parse_pip_report(const std::string& report, const MarkerEnvironment& markers) {
  const json whole = json_or_null(report);
  const json list = whole.is_object() ? whole.value("install", json()) : json();
  if (!list.is_array())
    throw Error(ExitCode::failure, "code.python: pip gave no report of what it would install");
  for (const auto& [name, value] : markers.known) {
    if (text_of(whole, {"environment", name.c_str()}) != value)
      throw Error(ExitCode::failure,
                  fmt::format("code.python: pip {} does not choose for the image's Python: its {} is '{}' in "
                              "place of '{}'",
                              printable(text_of(whole, {"pip_version"})), name,
                              printable(text_of(whole, {"environment", name.c_str()})), value),
                  "take another version of pip, 22.2 or newer, or an image that has the packages");
  }
  std::vector<ResolvedPackage> out;
  for (const json& item : list) {
    ResolvedPackage one{text_of(item, {"metadata", "name"}), text_of(item, {"metadata", "version"}),
                        digest_of(item)};
    if (one.name.empty() || one.version.empty())
      throw Error(ExitCode::failure, "code.python: pip's report names a package without its version");
    const std::string url = text_of(item, {"download_info", "url"});
    const std::string path = url.substr(0, url.find_first_of("?#"));
    if (one.digest.empty() || (!url.empty() && !path.ends_with(".whl")))
      throw Error(ExitCode::usage,
                  fmt::format("code.python: {} {} is not from a wheel: pip would build the package on this "
                              "machine, and each build may differ",
                              printable(one.name), printable(one.version)),
                  "name a wheel of it instead, or take an image that has the package");
    if (item.contains("is_direct") && item["is_direct"] == true) one.url = url;
    out.push_back(std::move(one));
  }
  std::sort(out.begin(), out.end(), [](const ResolvedPackage& a, const ResolvedPackage& b) {
    return std::tie(a.name, a.version, a.digest) < std::tie(b.name, b.version, b.digest);
  });
  return out;
}

std::string pinned(const std::vector<ResolvedPackage>& packages, const std::vector<std::string>& urls) {
  const auto is_checked = [](const ResolvedPackage& one) {
    return one.digest.starts_with("sha256=") || one.digest.starts_with("sha384=") ||
           one.digest.starts_with("sha512=");
  };
  // pip refuses requirements if only some of the packages have digests.
  const bool by_digest = std::all_of(packages.begin(), packages.end(), is_checked);
  std::string out;
  for (const ResolvedPackage& one : packages) {
    std::string place = one.url;
    for (const std::string& url : urls) {
      const std::string plain = url.substr(0, url.find('#'));
      if (without_logins(plain, "") == one.url) place = plain;
    }
    out += place.empty() ? one.name + "==" + one.version : one.name + " @ " + place;
    if (by_digest) out += fmt::format(" --hash={}:{}", one.digest.substr(0, 6), one.digest.substr(7));
    out += "\n";
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> entry_scripts(const std::string& entry_points) {
  constexpr std::string_view for_words = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  const auto is_plain = [&](std::string_view word) {
    return !word.empty() && word[0] != '.' && word.find_first_not_of(for_words) == word.npos;
  };
  std::vector<std::pair<std::string, std::string>> out;
  bool counts = false;
  for (const std::string& whole : split(entry_points, '\n')) {
    const std::string_view line = trim(whole);
    if (line.starts_with('[')) counts = line == "[console_scripts]" || line == "[gui_scripts]";
    const std::size_t equals = line.find('='), colon = line.find(':');
    if (!counts || line.starts_with('#') || equals == line.npos || colon == line.npos || colon < equals)
      continue;
    const std::string_view name = trim(line.substr(0, equals)),
                           module = trim(line.substr(equals + 1, colon - equals - 1));
    std::string_view function = line.substr(colon + 1);
    function = trim(function.substr(0, function.find('[')));
    if (!is_plain(name) || !is_plain(module) || !is_plain(function)) continue;
    out.emplace_back(name, fmt::format("#!/usr/bin/env python3\n"
                                       "import sys\n"
                                       "from {} import {}\n"
                                       "if __name__ == \"__main__\":\n"
                                       "    sys.exit({}())\n",
                                       module, function.substr(0, function.find('.')), function));
  }
  return out;
}

std::string last_collected(const std::string& output) {
  constexpr std::string_view of_file = " (from -r ", by_file = "->-r ";
  constexpr std::size_t longest = 300;
  std::string found;
  for (const std::string& line : split(output, '\n')) {
    for (const std::string_view mark : {"Collecting ", "Processing "}) {
      if (line.starts_with(mark)) found = line.substr(mark.size());
    }
  }
  if (const std::size_t at = found.find(by_file); at != found.npos) found = found.substr(0, at) + ")";
  found = found.substr(0, found.find(of_file));
  return printable(cut(without_secrets(found), longest));
}

std::string without_secrets(std::string text) {
  constexpr std::string_view mark = "://";
  text = without_logins(std::move(text), "***@");
  for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + mark.size())) {
    const std::size_t end = std::min(text.find_first_of(" \n'\"", at), text.size());
    const std::size_t query = text.find('?', at);
    if (query < end) text.replace(query + 1, end - query - 1, "***");
  }
  return text;
}

}  // namespace mlk::image
