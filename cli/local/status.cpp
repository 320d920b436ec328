#include "cli/local/status.h"

namespace mlk::local {

json Refusal::status() const {
  json status = {{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", json::object()},
                 {"status", "Failure"}, {"message", what()},  {"reason", reason_},
                 {"code", code_}};
  if (!details_.is_null()) status["details"] = details_;
  return status;
}

Refusal not_found(const std::string& plural, const std::string& name) {
  return Refusal(404, "NotFound", plural + " \"" + name + "\" not found", {{"name", name}, {"kind", plural}});
}

Refusal already_exists(const std::string& plural, const std::string& name) {
  return Refusal(409, "AlreadyExists", plural + " \"" + name + "\" already exists",
                 {{"name", name}, {"kind", plural}});
}

Refusal conflict(const std::string& plural, const std::string& name, const std::string& why) {
  return Refusal(409, "Conflict", "Operation cannot be fulfilled on " + plural + " \"" + name + "\": " + why,
                 {{"name", name}, {"kind", plural}});
}

Refusal bad_request(const std::string& message) { return Refusal(400, "BadRequest", message); }

Refusal expired(const std::string& message) { return Refusal(410, "Expired", message); }

Refusal invalid(const std::string& kind, const std::string& name, const std::string& field,
                const std::string& message) {
  return Refusal(
      422, "Invalid", kind + " \"" + name + "\" is invalid: " + field + ": " + message,
      {{"name", name},
       {"kind", kind},
       {"causes", json::array({{{"reason", "FieldValueInvalid"}, {"message", message}, {"field", field}}})}});
}

}  // namespace mlk::local
