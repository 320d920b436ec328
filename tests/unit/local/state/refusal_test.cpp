// Errors of the API as the complete Status objects that clients get.
#include <doctest/doctest.h>

#include "cli/local/state/status.h"

TEST_SUITE_BEGIN("local/state/refusal");

namespace mlk::local {
namespace {

using namespace nlohmann::literals;

TEST_CASE("an error has the name and the resource of the object, and the group if it is not the core group") {
  const struct {
    StatusError refusal;
    int code;
    const char* reason;
    const char* message;
    json details;
  } table[] = {
      {not_found("jobs", "j"), 404, "NotFound", "jobs.batch \"j\" not found",
       R"({"name": "j", "group": "batch", "kind": "jobs"})"_json},
      {not_found("pods", "p"), 404, "NotFound", "pods \"p\" not found",
       R"({"name": "p", "kind": "pods"})"_json},
      {not_found("things", "t"), 404, "NotFound", "things \"t\" not found",
       R"({"name": "t", "kind": "things"})"_json},
      {already_exists("leases", "l"), 409, "AlreadyExists", "leases.coordination.k8s.io \"l\" already exists",
       R"({"name": "l", "group": "coordination.k8s.io", "kind": "leases"})"_json},
      {already_exists("configmaps", "c"), 409, "AlreadyExists", "configmaps \"c\" already exists",
       R"({"name": "c", "kind": "configmaps"})"_json},
      {conflict("jobs", "j", "why"), 409, "Conflict",
       "Operation cannot be fulfilled on jobs.batch \"j\": why",
       R"({"name": "j", "group": "batch", "kind": "jobs"})"_json},
      {conflict("pods", "p", "why"), 409, "Conflict", "Operation cannot be fulfilled on pods \"p\": why",
       R"({"name": "p", "kind": "pods"})"_json},
      {bad_request("why"), 400, "BadRequest", "why", nullptr},
      {expired("why"), 410, "Expired", "why", nullptr},
      {invalid("Job", "j", "spec.x", "Required value"), 422, "Invalid",
       "Job.batch \"j\" is invalid: spec.x: Required value",
       R"({"name": "j", "group": "batch", "kind": "Job", "causes":
           [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.x"}]})"_json},
      {invalid("Pod", "", "a", "odd"), 422, "Invalid", "Pod \"\" is invalid: a: odd",
       R"({"name": "", "kind": "Pod", "causes":
           [{"reason": "FieldValueInvalid", "message": "odd", "field": "a"}]})"_json},
      {invalid("Options", "o", {{"a", "x"}, {"b", "Too long: 2"}}), 422, "Invalid",
       "Options \"o\" is invalid: [a: x, b: Too long: 2]",
       R"({"name": "o", "kind": "Options", "causes":
           [{"reason": "FieldValueInvalid", "message": "x", "field": "a"},
            {"reason": "FieldValueTooLong", "message": "Too long: 2", "field": "b"}]})"_json}};
  for (const auto& row : table) {
    CAPTURE(row.message);
    json whole = {{"kind", "Status"},    {"apiVersion", "v1"},     {"metadata", json::object()},
                  {"status", "Failure"}, {"message", row.message}, {"reason", row.reason},
                  {"code", row.code}};
    if (!row.details.is_null()) whole["details"] = row.details;
    CHECK(row.refusal.status() == whole);
    CHECK(row.refusal.code() == row.code);
    CHECK(row.refusal.reason() == row.reason);
    CHECK(std::string(row.refusal.what()) == row.message);
  }
}

TEST_CASE("the field `reason` of a cause follows from the first words of the cause's message") {
  for (const auto& [message, reason] : {std::pair("Required value", "FieldValueRequired"),
                                        {"Required value: for x", "FieldValueRequired"},
                                        {"Unsupported value: \"x\"", "FieldValueNotSupported"},
                                        {"Unsupported: x", "FieldValueNotSupported"},
                                        {"Duplicate value", "FieldValueDuplicate"},
                                        {"Not found: \"x\"", "FieldValueNotFound"},
                                        {"Forbidden: x", "FieldValueForbidden"},
                                        {"Too long: x", "FieldValueTooLong"},
                                        {"Invalid value: x", "FieldValueInvalid"},
                                        {"Value: Required value", "FieldValueInvalid"},
                                        {"", "FieldValueInvalid"}})
    CHECK_MESSAGE(
        invalid("Pod", "p", "f", message).status().at("/details/causes/0/reason"_json_pointer) == reason,
        message);
}

}  // namespace
}  // namespace mlk::local
