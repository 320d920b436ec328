// The message with which an expression of --where is refused.
#pragma once

#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"

namespace mlk::test {

// Returns the message of the Error{usage} that `action` throws, or "accepted".
template <typename Action>
std::string refusal_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "accepted";
}

}  // namespace mlk::test
