#include "cli/local/state/status.h"

#include <algorithm>
#include <utility>

#include "cli/local/state/kinds.h"
#include "cli/util/text.h"

namespace mlk::local {

json StatusError::status() const {
  json status = {{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", json::object()},
                 {"status", "Failure"}, {"message", what()},  {"reason", reason_},
                 {"code", code_}};
  if (!details_.is_null()) status["details"] = details_;
  return status;
}

namespace {

const Kind* kind_by(const std::string Kind::* name, const std::string& wanted) {
  const auto found = std::ranges::find(kinds(), wanted, name);
  return found == kinds().end() ? nullptr : &*found;
}

// "jobs.batch": Kubernetes' form for a resource or kind outside of the core group.
std::string qualified(const std::string& name, const Kind* kind) {
  return kind == nullptr || kind->group.empty() ? name : name + "." + kind->group;
}

json details_of(const std::string& name, const std::string& of, const Kind* kind) {
  json details = {{"name", name}, {"kind", of}};
  if (kind != nullptr && !kind->group.empty()) details["group"] = kind->group;
  return details;
}

std::string reason_of(const std::string& message) {
  for (const auto& [words, reason] : {std::pair{"Required value", "FieldValueRequired"},
                                      {"Unsupported", "FieldValueNotSupported"},
                                      {"Duplicate value", "FieldValueDuplicate"},
                                      {"Not found", "FieldValueNotFound"},
                                      {"Forbidden", "FieldValueForbidden"},
                                      {"Too long", "FieldValueTooLong"}}) {
    if (message.starts_with(words)) return reason;
  }
  return "FieldValueInvalid";
}

}  // namespace

StatusError no_such_resource() {
  return StatusError(404, "NotFound", "the server could not find the requested resource");
}

StatusError method_not_allowed() {
  return StatusError(405, "MethodNotAllowed",
                     "the server does not allow this method on the requested resource");
}

StatusError not_found(const std::string& plural, const std::string& name) {
  const Kind* kind = kind_by(&Kind::plural, plural);
  return StatusError(404, "NotFound", qualified(plural, kind) + " \"" + name + "\" not found",
                     details_of(name, plural, kind));
}

StatusError already_exists(const std::string& plural, const std::string& name) {
  const Kind* kind = kind_by(&Kind::plural, plural);
  return StatusError(409, "AlreadyExists", qualified(plural, kind) + " \"" + name + "\" already exists",
                     details_of(name, plural, kind));
}

StatusError conflict(const std::string& plural, const std::string& name, const std::string& why) {
  const Kind* kind = kind_by(&Kind::plural, plural);
  return StatusError(
      409, "Conflict",
      "Operation cannot be fulfilled on " + qualified(plural, kind) + " \"" + name + "\": " + why,
      details_of(name, plural, kind));
}

StatusError bad_request(const std::string& message) { return StatusError(400, "BadRequest", message); }

StatusError expired(const std::string& message) { return StatusError(410, "Expired", message); }

StatusError invalid(const std::string& kind_name, const std::string& name, const std::vector<Cause>& causes) {
  const Kind* kind = kind_by(&Kind::kind, kind_name);
  std::vector<std::string> sentences;
  json list = json::array();
  for (const auto& [field, message] : causes) {
    sentences.push_back(field + ": " + message);
    list.push_back({{"reason", reason_of(message)}, {"message", message}, {"field", field}});
  }
  const std::string what = causes.size() == 1 ? sentences.front() : "[" + join(sentences, ", ") + "]";
  json details = details_of(name, kind_name, kind);
  details["causes"] = list;
  return StatusError(422, "Invalid", qualified(kind_name, kind) + " \"" + name + "\" is invalid: " + what,
                     details);
}

StatusError invalid(const std::string& kind, const std::string& name, const std::string& field,
                    const std::string& message) {
  return invalid(kind, name, std::vector<Cause>{{field, message}});
}

}  // namespace mlk::local
