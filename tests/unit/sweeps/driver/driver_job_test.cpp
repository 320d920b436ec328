// Tests the input of a driver in the cluster, and the rights of the driver.
#include "sweeps/driver/driver_job.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json.h"
#include "sweeps/driver/driver_rights.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/driver/driver_job");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

DriverInput full_input() {
  DriverInput input;
  input.version = "1.2";
  input.file = {"x.yaml", "", "name: x\n"};
  input.overrides.set = {"a=1", "b=2"};
  input.overrides.env = {"C=3"};
  input.overrides.image = "default:1";
  input.parameters = {"lr=1,2"};
  input.folders = {"d"};
  input.code = "digest";
  input.python_files = "wheels";
  input.image_built = "built@1";
  input.user.is_assigned = true;
  input.code_in_image = true;
  input.code_on_machine = "code-here";
  input.python_on_machine = "python-here";
  input.texts = {{"points.csv", std::string("\xff\0x", 3)}};
  input.own_templates = {{"jobs/mine.yaml", "text"}};
  input.image = "driver:1";
  input.local = true;
  input.sweep = {"x-abcde", "hash"};
  input.files_of = "x-fghij";
  input.defined_as = "x-klmno";
  return input;
}

constexpr char of_driver[] =
    "name: x\nmode: allreduce\nimage: own/image:1\nimage_pull_policy: Always\n"
    "train: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n";

json rendered_driver(const DriverInput& input) {
  const test::Sweeper sweeper(of_driver);
  return render_driver(sweeper.define({"lr=0.1,0.2"}), input, Templates(), {"space", ""});
}

}  // namespace

TEST_CASE("parse_driver_input() reads back each part of an input as to_text() wrote it") {
  const DriverInput was = full_input(), read = parse_driver_input(to_text(was));
  CHECK(read.version == "1.2");
  CHECK(read.file.name == "x.yaml");
  CHECK(read.file.text == "name: x\n");
  CHECK(read.overrides.set == was.overrides.set);
  CHECK(read.overrides.env == was.overrides.env);
  CHECK(read.overrides.image == "default:1");
  CHECK(read.parameters == was.parameters);
  CHECK(read.folders == was.folders);
  CHECK(read.code == "digest");
  CHECK(read.python_files == "wheels");
  CHECK(read.image_built == "built@1");
  CHECK(read.user.is_assigned);
  CHECK(read.code_in_image);
  CHECK(read.code_on_machine == "code-here");
  CHECK(read.python_on_machine == "python-here");
  CHECK(read.texts == was.texts);
  CHECK(read.own_templates == was.own_templates);
  CHECK(read.image == "driver:1");
  CHECK(read.local);
  CHECK(read.sweep.run == "x-abcde");
  CHECK(read.sweep.hash == "hash");
  CHECK(read.files_of == "x-fghij");
  CHECK(read.defined_as == "x-klmno");
  const DriverInput empty = parse_driver_input(to_text(DriverInput()));
  CHECK_FALSE(empty.local);
  CHECK_FALSE(empty.code_in_image);
  CHECK(empty.texts.empty());
}

TEST_CASE("parse_driver_input() refuses a text that is no input, and ignores values of a wrong type") {
  CHECK_THROWS_WITH_AS(parse_driver_input(R"({"schema": 1, "texts": {"a": "?"}})"),
                       "the input of this driver cannot be read: it is not base64", Error);
  const DriverInput odd = parse_driver_input(
      R"({"schema": 1, "set": ["a=1", 2], "templates": {"a": 1, "b": "t"}, "local": "true", "env": 3})");
  CHECK(odd.overrides.set == std::vector<std::string>{"a=1"});
  CHECK(odd.own_templates == std::map<std::string, std::string>{{"b", "t"}});
  CHECK_FALSE(odd.local);
  CHECK(odd.overrides.env.empty());
}

TEST_CASE("different inputs have different keys, and the objects of a driver have the key in their names") {
  CHECK(key_of_input("a").size() == 5);
  CHECK(key_of_input("a") != key_of_input("b"));
  CHECK(driver_name("x-abcde", "fghij") == "x-abcde-driver-fghij");
  CHECK(input_part_name("x-abcde", "fghij", 3) == "x-abcde-driver-fghij-3");
}

TEST_CASE("a ConfigMap of an input is immutable, and says how many ConfigMaps the input has") {
  json owner = test::owner_of("x-abcde", "x");
  owner["metadata"]["uid"] = "u";
  const std::string text = std::string(longest_input_part, 'a') + "b";
  const std::vector<json> parts = input_objects(owner, text);
  REQUIRE(parts.size() == 2);
  CHECK(parts[1]["metadata"]["name"] == "x-abcde-driver-" + key_of_input(text) + "-1");
  CHECK(parts[1]["data"] == json{{"input", "b"}, {"parts", "2"}});
  CHECK(parts[0]["immutable"] == true);
  CHECK(parts[0]["metadata"]["labels"][labels::role] == "driver");
  CHECK(parts[0]["metadata"]["labels"][labels::run] == "x-abcde");
  CHECK_FALSE(parts[0]["metadata"]["labels"].contains(labels::sweep));
  CHECK(parts[0]["metadata"]["ownerReferences"][0]["uid"] == "u");
  CHECK(input_objects(owner, text.substr(1)).size() == 1);
  CHECK(input_objects(owner, std::string(longest_input_part * most_input_parts, 'a')).size() ==
        most_input_parts);
  CHECK_THROWS_WITH_AS(input_objects(owner, std::string(longest_input_part * most_input_parts + 1, 'a')),
                       "the files of this sweep take 28 MiB, which is too much for a driver in the cluster",
                       Error);
}

TEST_CASE("a driver runs as user 65532 if the namespace assigns no user") {
  DriverInput input;
  input.image = "driver:1";
  const json job = rendered_driver(input);
  const json& pod = job["spec"]["template"]["spec"];
  CHECK(pod["securityContext"]["runAsUser"] == 65532);
  CHECK(pod["containers"][0]["imagePullPolicy"] == "Always");
  CHECK_FALSE(pod.contains("imagePullSecrets"));
  input.user.is_assigned = true;
  CHECK_FALSE(rendered_driver(input)["spec"]["template"]["spec"]["securityContext"].contains("runAsUser"));
  input.image.clear();
  CHECK(rendered_driver(input)["spec"]["template"]["spec"]["containers"][0]["image"] == local_image);
}

TEST_CASE("definition_of() takes the sweep's name, its hash and `files_of` from the input of a driver") {
  const test::Sweeper sweeper(of_driver);
  const Definition typed = sweeper.define({"lr=0.1,0.2"});
  DriverInput input;
  input.file = sweeper.file;
  input.parameters = {"lr=0.1,0.2"};
  fill_defined_as(input, {});
  CHECK(input.defined_as == typed.identity.run);
  input.sweep = {"x-other", "other-hash"};
  input.files_of = "x-files";
  const Definition read = definition_of(input, {}, Templates());
  CHECK(read.identity.run == "x-other");
  CHECK(read.identity.hash == "other-hash");
  CHECK(read.files_of == "x-files");
  CHECK(read.points == typed.points);
}

TEST_CASE("render_driver_rights() makes a ServiceAccount, a Role and a RoleBinding") {
  const std::vector<json> rights = render_driver_rights(Templates(), "space");
  REQUIRE(rights.size() == 3);
  CHECK(rights[0]["kind"] == "ServiceAccount");
  CHECK(rights[1]["kind"] == "Role");
  CHECK(rights[2]["kind"] == "RoleBinding");
  for (const json& object : rights) CHECK(object["metadata"]["namespace"] == "space");
  const std::string yaml = rights_as_yaml(rights);
  CHECK(yaml.starts_with("---\n"));
  CHECK(yaml.find("\n---\n") != std::string::npos);
  CHECK(yaml.find("kind: RoleBinding") != std::string::npos);
  Templates own;
  own.add("shapes/driver-rights.yaml", {"kind: List\napiVersion: v1\nitems:\n"
                                        "  - {apiVersion: v1, kind: Secret, metadata: {name: key}}\n",
                                        "mine.yaml"});
  CHECK_THROWS_WITH_AS(render_driver_rights(own, "space"),
                       "mine.yaml: it makes a Secret key, which is no ServiceAccount, Role or RoleBinding",
                       Error);
}

TEST_CASE("driver_questions() returns one question to the server for each right in a Role") {
  const std::vector<kube::AccessQuestion> questions =
      driver_questions({{{"kind", "ServiceAccount"}},
                        {{"rules",
                          {{{"apiGroups", {"", "batch"}},
                            {"resources", {"pods/log", "jobs"}},
                            {"verbs", {"get", "list"}}}}}}});
  std::string words;
  for (const kube::AccessQuestion& each : questions)
    words += each.resource.group + ":" + words_of(each) + " ";
  CHECK(words ==
        ":get pods/log :list pods/log :get jobs :list jobs "
        "batch:get pods/log batch:list pods/log batch:get jobs batch:list jobs ");
  CHECK(questions[0].resource.plural == "pods");
  CHECK(questions[0].subresource == "log");
  CHECK(questions[2].subresource == "");
}

namespace {

// A cluster whose answers to questions about the driver's account can be set.
struct Asked {
  test::FakeCluster cluster;
  kube::Client client{cluster.config()};
  std::vector<json> rights = render_driver_rights(Templates(), "default");
  int code_of_account = 200, code_of_reviews = 0;
  std::string refused_verb;

  Asked() {
    cluster.before([this](const local::Request& asked) -> std::optional<local::Answer> {
      if (asked.path.ends_with("/serviceaccounts/mlk-driver")) {
        const char* reason = code_of_account == 404 ? "NotFound" : "Refused";
        if (code_of_account != 200) return test::refusal(code_of_account, reason, "no");
        local::Answer account;
        account.status = 200;
        account.body = "{}";
        return account;
      }
      if (asked.path.find("accessreviews") == std::string::npos) return std::nullopt;
      if (code_of_reviews != 0) return test::refusal(code_of_reviews, "Refused", "no");
      const json question = json::parse(asked.body)["spec"]["resourceAttributes"];
      local::Answer answer;
      answer.status = 201;
      answer.body = json({{"status", {{"allowed", question["verb"] != refused_verb}}}}).dump();
      return answer;
    });
  }
  AccountRights ask() { return ask_for_account(client, "default", rights); }
};

using Account = AccountRights::Account;

}  // namespace

TEST_CASE("ask_for_account() says whether the driver's account exists, and which rights it lacks") {
  Asked asked;
  CHECK(asked.ask().account == Account::there);
  CHECK(asked.ask().enough());
  asked.code_of_account = 404;
  CHECK(asked.ask().account == Account::missing);
  CHECK_FALSE(asked.ask().enough());
  asked.code_of_account = 403;
  CHECK(asked.ask().account == Account::unknown);
  CHECK(asked.ask().enough());
  CHECK(asked.ask().known);
  CHECK(asked.ask().missing.empty());
  asked.refused_verb = "create";
  const AccountRights lacking = asked.ask();
  CHECK_FALSE(lacking.enough());
  CHECK(std::find(lacking.missing.begin(), lacking.missing.end(), "create jobs") != lacking.missing.end());
  for (const std::string& each : lacking.missing) CHECK(each.starts_with("create "));
  asked.code_of_reviews = 403;
  CHECK_FALSE(asked.ask().known);
  CHECK(asked.ask().missing.empty());
  asked.code_of_reviews = 400;
  CHECK_THROWS_AS(asked.ask(), kube::ApiError);
  asked.code_of_account = 400;
  CHECK_THROWS_AS(asked.ask(), kube::ApiError);
}

TEST_CASE(
    "create_driver_rights() creates or updates each object, and names an object that the server refuses") {
  test::FakeCluster cluster;
  kube::Client client(cluster.config());
  const std::vector<json> rights = render_driver_rights(Templates(), "default");
  std::string log;
  int code_of_post = 201, code_of_patch = 200;
  cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    const std::string plural = asked.path.substr(asked.path.find("/default/") + 9);
    log += asked.method + " " + plural + ", ";
    const int code = asked.method == "POST" ? code_of_post : code_of_patch;
    if (code >= 400) return test::refusal(code, "Refused", "not you");
    local::Answer answer;
    answer.status = code;
    answer.body = "{}";
    return answer;
  });
  create_driver_rights(client, "default", rights);
  CHECK(log == "POST serviceaccounts, POST roles, POST rolebindings, ");
  log.clear();
  code_of_post = 409;
  create_driver_rights(client, "default", rights);
  CHECK(log ==
        "POST serviceaccounts, PATCH serviceaccounts/mlk-driver, POST roles, PATCH roles/mlk-driver, "
        "POST rolebindings, PATCH rolebindings/mlk-driver, ");
  for (const int code : {403, 422}) {
    code_of_post = code;
    CHECK_THROWS_WITH_AS(create_driver_rights(client, "default", rights),
                         doctest::Contains("ServiceAccount mlk-driver cannot be created: "), Error);
  }
  code_of_post = 409;
  code_of_patch = 403;
  CHECK_THROWS_WITH_AS(create_driver_rights(client, "default", rights),
                       doctest::Contains("cannot be created"), Error);
  code_of_post = 400;
  CHECK_THROWS_AS(create_driver_rights(client, "default", rights), kube::ApiError);
}
