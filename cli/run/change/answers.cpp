#include "cli/run/change/answers.h"

#include <string_view>

#include "cli/kube/failure.h"

namespace mlk {

bool exists_already(const kube::ApiError& error) {
  return error.status() == 409 && error.reason() == "AlreadyExists";
}

bool unclear(const kube::ApiError& error) {
  return kube::may_pass(error.status()) || (error.status() == 409 && !exists_already(error));
}

bool has_just_started(const kube::ApiError& error) {
  const std::string_view what = error.what();
  return error.status() == 403 && (what.find("cannot create resource") != std::string_view::npos ||
                                   what.find("not yet ready to handle request") != std::string_view::npos);
}

bool is_inconclusive(const kube::ApiError& error) {
  return unclear(error) || has_just_started(error) || error.status() == 401;
}

}  // namespace mlk
