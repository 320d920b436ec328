// What the answers of registries mean. Pure.
#pragma once

#include <string>

#include "cli/http/connection.h"

namespace mlk::registry {

// Why there was no answer, in words for after a colon.
std::string describe(const http::Failure& failure);

// "CODE: message" of the first error in an answer, in the registry's own words; empty: it says nothing.
std::string words_of(const std::string& body);

// Whether trying again may help.
bool may_pass(const http::Reply& reply);

bool is_redirect(int status);

}  // namespace mlk::registry
