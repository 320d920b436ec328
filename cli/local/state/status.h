// What a request failed with, as Kubernetes says it: kind Status.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk::local {

using nlohmann::json;

// Thrown by everything that serves a request, caught in api.cpp, where it becomes the answer.
class Refusal : public std::runtime_error {
 public:
  Refusal(int code, std::string reason, const std::string& message, json details = nullptr)
      : std::runtime_error(message), code_(code), reason_(std::move(reason)), details_(std::move(details)) {}

  int code() const { return code_; }
  const std::string& reason() const { return reason_; }
  json status() const;

 private:
  int code_;
  std::string reason_;
  json details_;
};

Refusal not_found(const std::string& plural, const std::string& name);
Refusal already_exists(const std::string& plural, const std::string& name);
Refusal conflict(const std::string& plural, const std::string& name, const std::string& why);
Refusal bad_request(const std::string& message);
Refusal expired(const std::string& message);
// 422, as the API server words it: "Job.batch "x" is invalid: FIELD: MESSAGE", and a list of them in
// brackets.
struct Cause {
  std::string field;
  std::string message;  // its first words, "Required value" for one, say which kind of mistake it is
};
Refusal invalid(const std::string& kind, const std::string& name, const std::vector<Cause>& causes);
Refusal invalid(const std::string& kind, const std::string& name, const std::string& field,
                const std::string& message);

}  // namespace mlk::local
