#include "cli/run/change/first_error.h"

#include "cli/util/error.h"

namespace mlk {

bool FirstError::attempt(const std::function<void()>& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    if (error.code() == ExitCode::interrupted) {
      if (first_) hooks_.warn(what_);  // nobody calls rethrow() any more
      throw;
    }
    if (first_) {
      hooks_.warn(error.what());
    } else {
      first_ = std::current_exception();
      what_ = error.what();
    }
    return false;
  }
}

void FirstError::rethrow() const {
  if (first_) std::rethrow_exception(first_);
}

}  // namespace mlk
