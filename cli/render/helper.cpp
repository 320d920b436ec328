#include "cli/render/helper.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/error.h"
#include "cli/util/hash.h"

namespace mlk {
namespace {

// Computes the digest only once, because a sweep renders thousands of runs.
const std::string& digest_of_helper() {
  static const std::string digest = sha256_hex(std::string(embedded_mpi_helper()));
  return digest;
}

}  // namespace

std::string helper_map_name(const std::string& helper) {
  if (embedded_mpi_helper().empty()) {
    throw Error(ExitCode::cannot_start, fmt::format("this mlk was built without {}", helper),
                "install musl-gcc (musl-tools in Debian) and build mlk again");
  }
  constexpr std::size_t digits = 16;
  return fmt::format("{}-{}", helper, digest_of_helper().substr(0, digits));
}

nlohmann::json helper_scope(const std::string& helper) {
  return {{"file", helper},
          {"name", helper_map_name(helper)},
          {"digest", digest_of_helper()},
          {"program", base64_encode(std::string(embedded_mpi_helper()))}};
}

}  // namespace mlk
