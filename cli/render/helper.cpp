#include "cli/render/helper.h"

#include <map>
#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/hash.h"

namespace mlk {
namespace {

// Computes each digest only once, because a sweep renders thousands of runs.
std::string digest_of(const Helper& helper) {
  static std::mutex mutex;
  static std::map<std::string_view, std::string> digests;
  const std::lock_guard lock(mutex);
  std::string& digest = digests[helper.name];
  if (digest.empty()) digest = sha256_hex(std::string(embedded_helper(helper.name)));
  return digest;
}

}  // namespace

std::string helper_path(const Helper& helper) { return fmt::format("{}/{}", helper.mount, helper.name); }

std::string helper_map_name(const Helper& helper) {
  if (embedded_helper(helper.name).empty()) {
    throw Error(ExitCode::cannot_start, fmt::format("this mlk was built without {}", helper.name),
                "install musl-gcc (musl-tools in Debian) and build mlk again");
  }
  constexpr std::size_t digits = 16;
  return fmt::format("{}-{}", helper.name, digest_of(helper).substr(0, digits));
}

nlohmann::json helper_volume(const Helper& helper) {
  constexpr int for_all_to_execute = 0555;
  return {{"configMap", {{"name", helper_map_name(helper)}, {"defaultMode", for_all_to_execute}}}};
}

nlohmann::json helper_scope(const Helper& helper) {
  return {{"name", helper_map_name(helper)},
          {"digest", digest_of(helper)},
          {"files", {{std::string(helper.name), base64_encode(std::string(embedded_helper(helper.name)))}}}};
}

}  // namespace mlk
