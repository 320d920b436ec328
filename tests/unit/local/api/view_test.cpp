// The forms of objects that clients ask for, and the tables that kubectl prints.
#include "cli/local/api/view.h"

#include <doctest/doctest.h>

#include "cli/local/state/status.h"
#include "tests/unit/local/samples.h"

TEST_SUITE_BEGIN("local/api/view");

using namespace mlk::local;
using mlk::local::samples::noon;

namespace {

// The columns of one object, as "NAME=CELL" joined by blanks.
std::string row_of(const char* plural, json object) {
  object["metadata"]["name"] = "x";
  object["metadata"]["creationTimestamp"] = "2026-11-21T11:59:15Z";
  const json table = show(kind_of(plural), object, View::table, noon);
  std::string text;
  const json& columns = table.at("columnDefinitions");
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const json& cell = table.at("rows").at(0).at("cells").at(i);
    text += (i == 0 ? "" : " ") + columns.at(i).at("name").get<std::string>() + "=" +
            (cell.is_string() ? cell.get<std::string>() : cell.dump());
  }
  return text;
}

std::string status_of_pod(const std::string& status, const std::string& metadata = "{}") {
  const std::string row =
      row_of("pods", {{"metadata", json::parse(metadata)}, {"status", json::parse(status)}});
  const auto at = row.find("Status=") + 7;
  return row.substr(at, row.find(' ', at) - at);
}

std::string status_of_job(const std::string& conditions) {
  const std::string row = row_of("jobs", {{"status", {{"conditions", json::parse(conditions)}}}});
  const auto at = row.find("Status=") + 7;
  return row.substr(at, row.find(' ', at) - at);
}

}  // namespace

TEST_CASE("view_of() takes the first supported form in the Accept header, and throws 406 if there is none") {
  for (const char* accept : {"", " ", "application/json", "*/*", "application/*", "application/json;q=0.9",
                             "application/vnd.kubernetes.protobuf, application/json", "text/html,*/*"})
    CHECK_MESSAGE(view_of(accept) == View::object, accept);
  for (const char* accept :
       {"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json; as=Table",
        "application/json;as=Unknown,application/json;as=Table", "text/html, */*;as=Table"})
    CHECK_MESSAGE(view_of(accept) == View::table, accept);
  for (const char* accept : {"application/json;as=PartialObjectMetadata;g=meta.k8s.io",
                             "application/json;as=PartialObjectMetadataList",
                             "application/json;as=PartialObjectMetadata,application/json"})
    CHECK_MESSAGE(view_of(accept) == View::metadata, accept);
  for (const char* accept :
       {"application/vnd.kubernetes.protobuf", "text/html", "application/json;as=Unknown", ","}) {
    try {
      view_of(accept);
      FAIL(accept);
    } catch (const StatusError& refusal) {
      CHECK(refusal.code() == 406);
      CHECK(refusal.reason() == "NotAcceptable");
      CHECK(std::string(refusal.what()) == "only the following media types are accepted: application/json");
    }
  }
}

TEST_CASE("the table row of a pod shows how many containers are ready, and the state of the pod") {
  CHECK(
      row_of(
          "pods",
          R"({"status": {"phase": "Running", "containerStatuses": [{"ready": true, "state": {"running": {}}}]}})"_json) ==
      "Name=x Ready=1/1 Status=Running Restarts=0 Age=45s");
  CHECK(row_of("pods", R"({"status": {"phase": "Pending"}})"_json) ==
        "Name=x Ready=0/1 Status=Pending Restarts=0 Age=45s");
  CHECK(
      status_of_pod(
          R"({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]})") ==
      "ContainerCreating");
  CHECK(
      status_of_pod(
          R"({"phase": "Failed", "reason": "NodeLost", "containerStatuses": [{"state": {"terminated": {"reason": "Error"}}}]})") ==
      "Error");
  CHECK(status_of_pod(R"({"phase": "Failed", "reason": "NodeLost"})") == "NodeLost");
  CHECK(status_of_pod(R"({"phase": "Running"})", R"({"deletionTimestamp": "2026-11-21T12:00:00Z"})") ==
        "Terminating");
}

TEST_CASE("the table row of a Job shows the state, the completions and the duration of the Job") {
  CHECK(status_of_job("[]") == "Running");
  for (const char* type : {"Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"}) {
    CHECK(status_of_job(std::string(R"([{"type": ")") + type + R"(", "status": "True"}])") == type);
    CHECK(status_of_job(std::string(R"([{"type": ")") + type + R"(", "status": "False"}])") == "Running");
  }
  CHECK(status_of_job(R"([{"type": "Other", "status": "True"}])") == "Running");
  CHECK(status_of_job(
            R"([{"type": "Failed", "status": "True"}, {"type": "FailureTarget", "status": "True"}])") ==
        "Failed");
  CHECK(
      status_of_job(
          R"([{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}])") ==
      "Complete");
  CHECK(row_of("jobs",
               R"({"spec": {"completions": 4}, "status": {"succeeded": 3, "startTime": "2026-11-21T11:50:00Z",
                           "completionTime": "2026-11-21T11:50:40Z"}})"_json) ==
        "Name=x Status=Running Completions=3/4 Duration=40s Age=45s");
  CHECK(row_of("jobs", R"({"status": {"startTime": "2026-11-21T11:59:30Z"}})"_json) ==
        "Name=x Status=Running Completions=0/1 Duration=30s Age=45s");
  CHECK(row_of("jobs", json::object()) == "Name=x Status=Running Completions=0/1 Duration= Age=45s");
}

TEST_CASE("for each kind except pods and Jobs, a table row has a cell for each column") {
  CHECK(row_of("configmaps", R"({"data": {"a": "", "b": ""}, "binaryData": {"c": ""}})"_json) ==
        "Name=x Data=3 Age=45s");
  CHECK(row_of("secrets", R"({"type": "Opaque", "data": {"a": ""}})"_json) ==
        "Name=x Type=Opaque Data=1 Age=45s");
  CHECK(row_of("services", R"({"spec": {"type": "ClusterIP", "clusterIP": "None"}})"_json) ==
        "Name=x Type=ClusterIP Cluster-IP=None Age=45s");
  CHECK(row_of("namespaces", R"({"status": {"phase": "Active"}})"_json) == "Name=x Status=Active Age=45s");
  CHECK(row_of("leases", R"({"spec": {"holderIdentity": "me"}})"_json) == "Name=x Holder=me Age=45s");
  CHECK(row_of("nodes", json::object()) == "Name=x Status=Ready Age=45s");
  CHECK(row_of("serviceaccounts", json::object()) == "Name=x Age=45s");
  CHECK(
      row_of(
          "events",
          R"({"type": "Warning", "reason": "Failed", "message": "no", "lastTimestamp": "2026-11-21T11:59:50Z",
                             "involvedObject": {"kind": "Pod", "name": "p"}})"_json) ==
      "Last Seen=10s Type=Warning Reason=Failed Object=pod/p Message=no");
  CHECK(row_of("events", json::object()).starts_with("Last Seen=<unknown> "));
}

TEST_CASE("a table has the names and types of its columns, and the metadata of each object") {
  const json map =
      R"({"kind": "ConfigMap", "metadata": {"name": "x", "resourceVersion": "7"}, "data": {"k": "v"}})"_json;
  const json table = show(kind_of("configmaps"), map, View::table, noon);
  CHECK(table.at("kind") == "Table");
  CHECK(table.at("apiVersion") == "meta.k8s.io/v1");
  CHECK(table.at("metadata") == R"({"resourceVersion": "7"})"_json);
  CHECK(table.at("columnDefinitions").at(0) ==
        R"({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0})"_json);
  CHECK(table.at("columnDefinitions").at(1) ==
        R"({"name": "Data", "type": "integer", "format": "", "description": "", "priority": 0})"_json);
  CHECK(
      table.at("rows").at(0).at("object") ==
      R"({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x", "resourceVersion": "7"}})"_json);
  CHECK(show(kind_of("configmaps"), map, View::metadata, noon) == table.at("rows").at(0).at("object"));
  CHECK(show(kind_of("configmaps"), map, View::object, noon) == map);
}

TEST_CASE("a list has a kind and a version, and a page also says how many objects remain") {
  const json map = R"({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "x"}, "spec": {}})"_json;
  ListPage page{{std::make_shared<const json>(map)}, "9", "", 0};
  CHECK(show_list(kind_of("jobs"), page, View::object, noon) ==
        R"({"kind": "JobList", "apiVersion": "batch/v1", "metadata": {"resourceVersion": "9"},
            "items": [{"metadata": {"name": "x"}, "spec": {}}]})"_json);
  page.next = "token";
  page.remaining = 5;
  const json metadata = R"({"resourceVersion": "9", "continue": "token", "remainingItemCount": 5})"_json;
  CHECK(show_list(kind_of("jobs"), page, View::object, noon).at("metadata") == metadata);
  CHECK(
      show_list(kind_of("jobs"), page, View::metadata, noon) ==
      json{
          {"kind", "PartialObjectMetadataList"},
          {"apiVersion", "meta.k8s.io/v1"},
          {"metadata", metadata},
          {"items",
           {R"({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}})"_json}}});
  const json table = show_list(kind_of("jobs"), page, View::table, noon);
  CHECK(table.at("metadata") == metadata);
  CHECK(table.at("rows").size() == 1);
}
