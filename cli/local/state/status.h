// The error of a request in Kubernetes' form: kind Status.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk::local {

using nlohmann::json;

// Code that serves a request throws StatusError to refuse the request. api.cpp catches the error and sends it
// as the answer.
class StatusError : public std::runtime_error {
 public:
  StatusError(int code, std::string reason, const std::string& message, json details = nullptr)
      : std::runtime_error(message), code_(code), reason_(std::move(reason)), details_(std::move(details)) {}

  int code() const { return code_; }
  const std::string& reason() const { return reason_; }
  json status() const;

 private:
  int code_;
  std::string reason_;
  json details_;
};

StatusError no_such_resource();    // 404 for a path that the cluster does not serve
StatusError method_not_allowed();  // 405
StatusError not_found(const std::string& plural, const std::string& name);
StatusError already_exists(const std::string& plural, const std::string& name);
StatusError conflict(const std::string& plural, const std::string& name, const std::string& why);
StatusError bad_request(const std::string& message);
StatusError expired(const std::string& message);
// 422 with the wording of Kubernetes: "Job.batch "x" is invalid: FIELD: MESSAGE". Several causes stand in
// brackets: "[FIELD: MESSAGE, FIELD: MESSAGE]".
struct Cause {
  std::string field;
  std::string message;  // begins with the kind of mistake, for example "Required value"
};
StatusError invalid(const std::string& kind, const std::string& name, const std::vector<Cause>& causes);
StatusError invalid(const std::string& kind, const std::string& name, const std::string& field,
                    const std::string& message);

}  // namespace mlk::local
