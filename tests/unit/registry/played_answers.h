// Helpers for requests to registries that tests play, and for the answers of these registries.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/registry/registry.h"
#include "cli/util/error.h"
#include "tests/unit/registry/played_registry.h"

using Request = PlayedRegistry::Request;
using Response = PlayedRegistry::Response;

inline const std::string repository = "team/x";
inline constexpr char manifest_text[] = R"({"schemaVersion":2})";

// The error that the action has thrown; with the code ok if it has thrown nothing.
inline mlk::Error registry_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

inline bool answered_with(Response& response, int status, const std::string& body = "") {
  response.status = status;
  if (!body.empty()) response.set_content(body, "application/json");
  return true;
}

// Access with very short waits.
inline mlk::registry::Access hasty() {
  mlk::registry::Access out;
  out.haste = 10'000;
  return out;
}

// A handler that refuses requests without a token, and gives tokens at /token: "t1", "t2". Only the newest
// token is valid.
struct TokenGuard {
  std::string realm;
  int given = 0;
  std::string good{};
  std::vector<std::string> logins{};

  bool operator()(const Request& request, Response& response) {
    if (request.path == "/token") {
      logins.push_back(request.get_header_value("Authorization"));
      good = "t" + std::to_string(++given);
      return answered_with(response, 200, R"({"token":")" + good + "\"}");
    }
    if (request.path == "/v2/" || request.get_header_value("Authorization") == "Bearer " + good) return false;
    response.set_header("WWW-Authenticate", "Bearer realm=\"" + realm + "/token\",service=\"played\"");
    return answered_with(response, 401);
  }
};

inline mlk::image::Descriptor described(const std::string& bytes) {
  return {"", "sha256:" + mlk::sha256_hex(bytes), bytes.size()};
}

inline void upload(mlk::registry::Registry& registry, const std::string& bytes) {
  registry.upload(repository, described(bytes), [&](const auto& take) { take(bytes); }, {});
}

// A blob of more than 16 MiB: one random MiB, sixteen times, and a different end.
inline std::string large_blob() {
  std::string out = mlk::random_bytes(1 << 20);
  for (int i = 0; i < 4; ++i) out += out;
  return out + "and the end";
}
