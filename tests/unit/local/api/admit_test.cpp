// The admission of objects: names, limits, fields of the server, and immutable fields.
#include "cli/local/api/admit.h"

#include <doctest/doctest.h>

#include "cli/local/state/status.h"
#include "tests/unit/local/api_cluster.h"

TEST_SUITE_BEGIN("local/api/admit");

using namespace mlk::local;
using namespace mlk::local::samples;

namespace {

Admission admission_of(const char* plural) { return {kind_of(plural), "default", "the-uid", "sffix", noon}; }

json admitted(const char* plural, const json& object) { return admit_new(admission_of(plural), object); }

// "422 FIELD: MESSAGE" of the first cause, or the code and the message.
std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const StatusError& refusal) {
    const json status = refusal.status();
    const json::json_pointer cause("/details/causes/0");
    const std::string code = std::to_string(refusal.code()) + " ";
    if (!status.contains(cause)) return code + refusal.what();
    return code + status.at(cause).at("field").get<std::string>() + ": " +
           status.at(cause).at("message").get<std::string>();
  } catch (const json::exception&) {
    return "400";
  }
  return "taken";
}

std::string refused_new(const char* plural, const json& object) {
  return refusal_of([&] { admitted(plural, object); });
}

json stored(const char* plural, const json& object) {
  json result = admitted(plural, object);
  result["metadata"]["resourceVersion"] = "7";
  return result;
}

json changed(const char* plural, const json& before, const json& patch, bool of_status = false) {
  json after = before;
  after.merge_patch(patch);
  return admit_change(admission_of(plural), before, after, of_status);
}

std::string refused_change(const char* plural, const json& before, const json& patch) {
  return refusal_of([&] { changed(plural, before, patch); });
}

json service_named(const std::string& name, const json& spec = {{"clusterIP", "None"}}) {
  return {{"metadata", {{"name", name}}}, {"spec", spec}};
}

json bare_pod(const json& spec = json::object()) {
  json pod = {{"metadata", {{"name", "p"}}},
              {"spec", {{"restartPolicy", "Never"}, {"containers", {{{"name", "main"}, {"image", "i"}}}}}}};
  pod["spec"].merge_patch(spec);
  return pod;
}

}  // namespace

TEST_CASE(
    "the name of a Service or Namespace must be a DNS label, and the name of a ConfigMap a DNS subdomain") {
  const std::string most(253, 'a'), label(63, 'a');
  for (const std::string& good : {std::string("a"), std::string("1"), std::string("a.b-c.1"), most})
    CHECK_MESSAGE(is_dns_subdomain(good), good);
  for (const std::string& bad :
       {std::string(), std::string("A"), std::string("-a"), std::string("a-"), std::string("a."),
        std::string(".a"), std::string("a..b"), std::string("a-.b"), std::string("a.-b"), std::string("a_b"),
        std::string("a/b"), most + "a"})
    CHECK_MESSAGE(!is_dns_subdomain(bad), bad);
  CHECK(refused_new("configmaps", map_named("a.b")) == "taken");
  CHECK(refused_new("services", service_named(label)) == "taken");
  CHECK(refused_new("services", service_named("a.b")) ==
        "422 metadata.name: Invalid value: \"a.b\": a lowercase RFC 1123 label must consist of lower case "
        "alphanumeric characters or '-', and must start and end with an alphanumeric character");
  CHECK(refused_new("services", service_named(label + "a")).starts_with("422 metadata.name"));
  CHECK(refused_new("namespaces", map_named("a.b")).starts_with("422 metadata.name"));
  CHECK(refused_new("configmaps", map_named("A")) ==
        "422 metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case "
        "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character");
  CHECK(refused_new("configmaps", json::object()) ==
        "422 metadata.name: Required value: name or generateName is required");
}

TEST_CASE("labels and annotations with an invalid key, an invalid value or too many bytes are refused") {
  const auto with = [](const char* list, const std::string& key, const json& value) {
    return refused_new("configmaps", map_named("a", {{"metadata", {{list, {{key, value}}}}}}));
  };
  const std::string most(63, 'a');
  for (const std::string& key : {std::string("a"), std::string("A_b.c-1"), std::string("x.io/a"), most})
    CHECK_MESSAGE(with("labels", key, "v") == "taken", key);
  for (const std::string& key :
       {std::string(), std::string("-a"), std::string("a-"), std::string("a b"), std::string("/a"),
        std::string("a/"), std::string("X.io/a"), std::string("a/b/c"), most + "a"})
    CHECK_MESSAGE(with("labels", key, "v") == "422 metadata.labels: Invalid value: \"" + key + "\"", key);
  for (const std::string& value : {std::string(), std::string("1"), std::string("a_B.c-1"), most})
    CHECK_MESSAGE(with("labels", "k", value) == "taken", value);
  for (const std::string& value : {std::string("-a"), std::string("a_"), std::string("a/b"), most + "a"})
    CHECK_MESSAGE(with("labels", "k", value)
                      .starts_with("422 metadata.labels: Invalid value: \"" + value +
                                   "\": a valid label must be an empty string or consist of"),
                  value);
  CHECK(with("annotations", "X.io/A", "any thing") == "taken");  // the key is checked in lower case
  CHECK(with("annotations", "a b", "v") == "422 metadata.annotations: Invalid value: \"a b\"");
  CHECK(with("annotations", "abcd", std::string(256 * 1024 - 4, 'x')) == "taken");
  CHECK(with("annotations", "abcd", std::string(256 * 1024 - 3, 'x')) ==
        "422 metadata.annotations: Too long: may not be more than 262144 bytes");
  CHECK(refused_new(
            "configmaps",
            map_named("a", {{"metadata",
                             {{"annotations",
                               {{"a", std::string(200'000, 'x')}, {"b", std::string(100'000, 'x')}}}}}}))
            .starts_with("422 metadata.annotations: Too long"));
}

TEST_CASE("an owner reference without apiVersion, kind, name or uid is refused") {
  const json whole = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"name", "o"}, {"uid", "u"}};
  const auto with = [](const json& owner) {
    return refused_new("configmaps",
                       map_named("a", {{"metadata", {{"ownerReferences", json::array({owner})}}}}));
  };
  CHECK(with(whole) == "taken");
  for (const std::string field : {"apiVersion", "kind", "name", "uid"}) {
    json part = whole;
    part.erase(field);
    CHECK(with(part) == "422 metadata.ownerReferences." + field + ": Required value");
  }
}

TEST_CASE("keys of ConfigMaps and Secrets must be valid file names, and encoded values must be base64") {
  const auto with = [](const char* plural, const char* part, const std::string& key, const json& value) {
    return refused_new(plural, {{"metadata", {{"name", "a"}}}, {part, {{key, value}}}});
  };
  const std::string most(253, 'k');
  for (const std::string& key : {std::string("a"), std::string(".a"), std::string("A_b-1.x"), most})
    CHECK_MESSAGE(with("configmaps", "data", key, "v") == "taken", key);
  for (const std::string& key : {std::string(), std::string("."), std::string(".."), std::string("..a"),
                                 std::string("a/b"), std::string("a b"), most + "k"})
    CHECK_MESSAGE(
        with("configmaps", "data", key, "v") == "422 data[" + key + "]: Invalid value: a valid config key",
        key);
  CHECK(with("configmaps", "binaryData", "a/b", "") ==
        "422 binaryData[a/b]: Invalid value: a valid config key");
  CHECK(with("configmaps", "data", "k", "not base64!") == "taken");
  CHECK(with("configmaps", "binaryData", "k", "!") == "400 ConfigMap \"a\": binaryData[k] is not base64");
  CHECK(with("secrets", "data", "k", "!") == "400 Secret \"a\": data[k] is not base64");
  CHECK(with("secrets", "data", "k", "dmFsdWU=") == "taken");
  CHECK(with("services", "data", "a/b", "v") != "taken");  // refused because the spec is missing
  // The limit applies to data and binaryData together.
  const std::string half(600 * 1024, 'x');
  json two = map_named("a", {{"data", {{"k", half}, {"l", half}}}});
  CHECK(refused_new("configmaps", two) == "422 []: Too long: may not be more than 1048576 bytes");
}

TEST_CASE("the server ignores the uid, version, times and status that a client sends with a new object") {
  json sent = map_named("a");
  for (const char* field : {"resourceVersion", "deletionTimestamp", "managedFields", "selfLink"})
    sent["metadata"][field] = "x";
  sent["metadata"]["deletionGracePeriodSeconds"] = 3;
  sent["metadata"]["uid"] = "mine";
  CHECK(admitted("configmaps", sent).at("metadata") == json({{"name", "a"},
                                                             {"namespace", "default"},
                                                             {"uid", "the-uid"},
                                                             {"creationTimestamp", "2026-11-21T12:00:00Z"}}));
  const json job = admitted("jobs", job_named("j", json::object()));
  CHECK(job.at("metadata").at("generation") == 1);
  CHECK_FALSE(admitted("configmaps", map_named("a")).at("metadata").contains("generation"));
  json with_status = job_named("j");
  with_status["status"]["active"] = 5;
  CHECK_FALSE(admitted("jobs", with_status).contains("status"));
  const json untyped = admitted("jobs", {{"metadata", {{"name", "j"}}}, {"spec", job_named("j").at("spec")}});
  CHECK(untyped.at("kind") == "Job");
  CHECK(untyped.at("apiVersion") == "batch/v1");
  const json name_space = admitted("namespaces", {{"metadata", {{"name", "n"}, {"namespace", "x"}}}});
  CHECK_FALSE(name_space.at("metadata").contains("namespace"));
  CHECK(name_space.at("metadata").at("labels").at("kubernetes.io/metadata.name") == "n");
  CHECK(name_space.at("status").at("phase") == "Active");
}

TEST_CASE("generateName is cut to 58 bytes before the suffix is added") {
  const auto name = [](const json& metadata) {
    return admitted("configmaps", {{"metadata", metadata}}).at("metadata").at("name").get<std::string>();
  };
  CHECK(name({{"generateName", "a-"}}) == "a-sffix");
  CHECK(name({{"generateName", std::string(58, 'a')}}) == std::string(58, 'a') + "sffix");
  CHECK(name({{"generateName", std::string(59, 'a')}}) == std::string(58, 'a') + "sffix");
  CHECK(name({{"generateName", "a-"}, {"name", "b"}}) == "b");
}

TEST_CASE("an update of an object keeps the fields that the server owns") {
  const json before = stored("jobs", job_named("j"));
  const json after = changed("jobs", before,
                             {{"metadata",
                               {{"creationTimestamp", "2020-01-01T00:00:00Z"},
                                {"generation", 9},
                                {"generateName", "g"},
                                {"deletionTimestamp", "2020-01-01T00:00:00Z"},
                                {"deletionGracePeriodSeconds", 1},
                                {"managedFields", {1}},
                                {"labels", {{"l", "1"}}}}},
                              {"status", {{"active", 5}}}});
  json expected = before;
  expected["metadata"]["labels"] = {{"l", "1"}};
  CHECK(after == expected);
  json going = before;
  going["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z";
  going["metadata"]["deletionGracePeriodSeconds"] = 0;
  CHECK(changed("jobs", going, {{"metadata", {{"deletionTimestamp", nullptr}}}})
            .at("metadata")
            .at("deletionTimestamp") == "2026-11-21T12:00:00Z");
  CHECK(admit_change(admission_of("jobs"), before, {{"spec", before.at("spec")}}, false) == before);
}

TEST_CASE("an update of a Job's status replaces the status, and changes no other part of the Job") {
  json before = stored("jobs", job_named("j"));
  before["status"]["active"] = 1;
  json expected = before;
  expected["status"] = {{"active", 2}};
  CHECK(changed("jobs", before, {{"status", {{"active", 2}}}, {"spec", {{"suspend", true}}}}, true) ==
        expected);
  json without = before;
  without.erase("status");
  CHECK(admit_change(admission_of("jobs"), before, without, true) == before);
}

TEST_CASE("the generation of an object increases with each change of the spec, and with no other change") {
  const json before = stored("jobs", job_named("j"));
  CHECK(changed("jobs", before, {{"metadata", {{"labels", {{"l", "1"}}}}}}).at("metadata").at("generation") ==
        1);
  const json once = changed("jobs", before, {{"spec", {{"suspend", true}}}});
  CHECK(once.at("metadata").at("generation") == 2);
  CHECK(changed("jobs", once, {{"spec", {{"suspend", false}}}}).at("metadata").at("generation") == 3);
  const json map = stored("configmaps", map_named("a"));
  CHECK_FALSE(changed("configmaps", map, {{"data", {{"k", "w"}}}}).at("metadata").contains("generation"));
}

TEST_CASE("a change is refused if it gives another name, version or uid than the object has") {
  const json before = stored("configmaps", map_named("a"));
  const auto with = [&](const char* field, const json& value) {
    return refused_change("configmaps", before, {{"metadata", {{field, value}}}});
  };
  for (const char* good : {"", "0", "7"}) CHECK_MESSAGE(with("resourceVersion", good) == "taken", good);
  CHECK(with("resourceVersion", "6") ==
        "409 Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply "
        "your "
        "changes to the latest version and try again");
  CHECK(with("uid", "") == "taken");
  CHECK(with("uid", "other") ==
        "409 Operation cannot be fulfilled on configmaps \"a\": Precondition failed: UID in precondition: "
        "other, "
        "UID in object meta: the-uid");
  CHECK(with("name", "b") == "400 the name of the object (b) does not match the name on the URL (a)");
}

TEST_CASE("an immutable ConfigMap or Secret cannot change its data, and no Secret can change its type") {
  const json open = stored("configmaps", map_named("a"));
  CHECK(refused_change("configmaps", open, {{"data", {{"k", "w"}}}}) == "taken");
  CHECK(refused_change("configmaps", open, {{"immutable", true}}) == "taken");
  const json map = stored("configmaps", map_named("a", {{"immutable", true}}));
  for (const json& patch :
       {json{{"data", {{"k", "w"}}}}, json{{"binaryData", {{"k", ""}}}}, json{{"immutable", false}},
        json{{"immutable", nullptr}}, json{{"data", nullptr}}})
    CHECK_MESSAGE(refused_change("configmaps", map, patch).starts_with("422 "), patch.dump());
  CHECK(refused_change("configmaps", map, {{"metadata", {{"labels", {{"l", "1"}}}}}}) == "taken");
  const json secret = stored("secrets", {{"metadata", {{"name", "s"}}}, {"data", {{"k", "dg=="}}}});
  CHECK(refused_change("secrets", secret, {{"data", {{"k", "dw=="}}}}) == "taken");
  CHECK(refused_change("secrets", secret, {{"type", "other"}}).starts_with("422 type: Invalid value"));
  json closed = secret;
  closed["immutable"] = true;
  CHECK(refused_change("secrets", closed, {{"data", {{"k", "dw=="}}}}).starts_with("422 data: "));
  CHECK(refused_change("services", stored("services", service_named("s")),
                       {{"spec", {{"publishNotReadyAddresses", true}}}}) == "taken");
}

TEST_CASE(
    "a Job accepts a change of its parallelism or deadline, and refuses a change of an immutable field") {
  const json before = stored("jobs", job_named("j", {{"backoffLimitPerIndex", 1}}));
  const std::pair<const char*, json> table[] = {{"selector", {{"matchLabels", {{"x", "y"}}}}},
                                                {"podFailurePolicy", {{"rules", json::array()}}},
                                                {"successPolicy", {{"rules", json::array()}}},
                                                {"backoffLimitPerIndex", 2},
                                                {"maxFailedIndexes", 1},
                                                {"managedBy", "me.io/x"},
                                                {"template", {{"metadata", {{"labels", {{"l", "1"}}}}}}},
                                                {"completions", 3}};
  for (const auto& [field, value] : table) {
    json patch = {{"spec", {{field, value}}}};
    if (std::string(field) == "podFailurePolicy") patch["spec"]["podReplacementPolicy"] = "Failed";
    CHECK_MESSAGE(refused_change("jobs", before, patch).starts_with(std::string("422 spec.") + field + ": "),
                  field);
  }
  CHECK(refused_change("jobs", before, {{"spec", {{"podReplacementPolicy", "Failed"}}}})
            .starts_with("422 spec.podReplacementPolicy: "));
  for (const json& patch : {json{{"parallelism", 1}}, json{{"suspend", true}}, json{{"backoffLimit", 1}},
                            json{{"activeDeadlineSeconds", 5}}, json{{"ttlSecondsAfterFinished", 5}},
                            json{{"completions", 3}, {"parallelism", 3}}})
    CHECK_MESSAGE(refused_change("jobs", before, {{"spec", patch}}) == "taken", patch.dump());
  CHECK(refused_change("jobs", before, {{"spec", {{"completions", 3}, {"parallelism", 2}}}})
            .starts_with("422 spec.completions: "));
}

TEST_CASE(
    "the tolerations, grace period and scheduling gates of a pod can change, but not its image or node") {
  const json before = stored("pods", bare_pod());
  for (const json& patch :
       {json{{"tolerations", {{{"key", "a"}}}}}, json{{"terminationGracePeriodSeconds", 1}},
        json{{"schedulingGates", json::array()}}})
    CHECK_MESSAGE(refused_change("pods", before, {{"spec", patch}}) == "taken", patch.dump());
  for (const json& patch : {json{{"hostname", "h"}}, json{{"nodeName", "n"}},
                            json{{"containers", {{{"name", "main"}, {"image", "j"}}}}}})
    CHECK_MESSAGE(refused_change("pods", before, {{"spec", patch}}).starts_with("422 spec: "), patch.dump());
  CHECK(refused_change("pods", before, {{"metadata", {{"labels", {{"l", "1"}}}}}}) == "taken");
}

TEST_CASE("the deadline of a pod may be added and lowered, but not raised or removed") {
  json before = stored("pods", bare_pod());
  const auto with = [&](const json& seconds) {
    return refused_change("pods", before, {{"spec", {{"activeDeadlineSeconds", seconds}}}});
  };
  CHECK(with(5) == "taken");
  before["spec"]["activeDeadlineSeconds"] = 5;
  CHECK(with(5) == "taken");
  CHECK(with(4) == "taken");
  const std::string field = "422 spec.activeDeadlineSeconds: Invalid value: ";
  CHECK(with(6) == field + "6: must be less than or equal to previous value");
  CHECK(with(nullptr) == field + "null: must not update from a positive integer to nil value");
  CHECK(with(0) == field + "0: must be between 1 and 2147483647, inclusive");
}
