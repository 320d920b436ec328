// Interprets the answers of registries. Pure.
#pragma once

#include <string>

#include "cli/http/connection.h"

namespace mlk::registry {

// The reason why there is no answer, as text that a message shows after a colon.
std::string describe(const http::Failure& failure);

// "CODE: message" of the first error in an answer, in the registry's own words; empty if the answer has none.
std::string words_of(const std::string& body);

// Whether a retry may help.
bool may_pass(const http::Reply& reply);

bool is_redirect(int status);

}  // namespace mlk::registry
