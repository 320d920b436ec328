// The credentials that mlk presents to a server.
#pragma once

#include <optional>
#include <string>

#include "cli/util/time.h"

namespace mlk::kube {

// Each field may be empty; never print a field.
struct Credential {
  std::string token;
  std::string certificate_pem, key_pem;
  std::optional<Time> expires{};  // the expiry that the issuer gave

  bool operator==(const Credential& other) const {
    return token == other.token && certificate_pem == other.certificate_pem && key_pem == other.key_pem;
  }
};

}  // namespace mlk::kube
