// Values and mistakes in job types and frameworks, and how templates are found.
#include <algorithm>

#include <doctest/doctest.h>

#include "cli/render/evaluate.h"
#include "cli/render/framework.h"
#include "cli/render/job_type.h"
#include "cli/util/error.h"
#include "tests/unit/render/golden.h"

TEST_SUITE_BEGIN("render/template_mistakes");

namespace mlk {
namespace {

using nlohmann::json;

std::string refusal_of_job_type(const std::string& text) {
  Templates templates;
  templates.add("jobs/mine.yaml", {text, "mine.yaml"});
  try {
    (void)load_job_type(templates, "mine");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_of_own_framework(const std::string& text) {
  Templates templates;
  templates.add("frameworks/own.yaml", {text, "own.yaml"});
  try {
    (void)load_framework(templates, "own");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

bool says(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

TEST_CASE("each mistake in a job type has its own message") {
  const auto role = [](const std::string& fields) {
    return refusal_of_job_type("roles: [{name: a, ends_run: true" + fields + "}]\n");
  };
  CHECK(role("") == "accepted");
  says(refusal_of_job_type("[1]\n"), "mine.yaml:1:1: a job type is a map with roles");
  says(refusal_of_job_type("roles: {a: 1}\n"), "mine.yaml:1:8: roles must be a list, not a map");
  says(refusal_of_job_type("roles: []\n"), "exactly one role must have ends_run: true");
  says(refusal_of_job_type("roles: [{name: a, ends_run: true}, {name: b, ends_run: true}]\n"),
       "exactly one role must have ends_run: true");
  says(refusal_of_job_type("roles: [a]\n"), "a role is a map with name, count and ends_run");
  says(refusal_of_job_type("parameters: [1]\nroles: [{name: a, ends_run: true}]\n"),
       "parameters must be a map, not a list");
  says(refusal_of_job_type("objects: {a: 1}\nroles: [{name: a, ends_run: true}]\n"),
       "objects must be a list, not a map");
  says(refusal_of_job_type("qqqqqqqq: 1\nroles: [{name: a, ends_run: true}]\n"),
       "mine.yaml:1:1: unknown key 'qqqqqqqq'; there are roles, parameters, objects");
  says(role(", count: 0"), "count must be");
  says(role(", count: 5001"), "count must be");
  CHECK(role(", count: 5000") == "accepted");
  says(refusal_of_job_type("roles: [{name: a, ends_run: 1}]\n"), "ends_run must be");
  says(role(", final_exit_codes: [1]"), "final_exit_codes must be a map, not a list");
  says(role(", final_exit_codes: {trian: [1]}"), "unknown key 'trian'; did you mean 'train'?");
  says(role(", final_exit_codes: {train: [256]}"), "train");
  says(role(", environment: []"), "environment must be a map, not a list");
  says(role(", pod: []"), "pod must be a map, not a list");
  says(role(", job: a"), "job must be a map, not 'a'");
}

TEST_CASE("the name of a role must be a label of at most ten characters") {
  const auto named_role = [](const std::string& name) {
    return refusal_of_job_type("roles: [{name: " + name + ", ends_run: true}]\n");
  };
  for (const char* good : {"a", "abcdefghij", "a-1"}) CHECK_MESSAGE(named_role(good) == "accepted", good);
  for (const char* bad : {"abcdefghijk", "A", "1a", "7", "a_b", "\"\"", "[a]"})
    CHECK_MESSAGE(
        says(named_role(bad), "a role needs a name: lower-case letters, digits and '-', at most 10"), bad);
  says(refusal_of_job_type("roles: [{ends_run: true}]\n"), "a role needs a name");
}

TEST_CASE("load_job_type() reads a job type, with defaults for missing values") {
  Templates templates;
  templates.add("jobs/mine.yaml",
                {"roles:\n"
                 "  - {name: a, ends_run: true, count: 4, final_exit_codes: {train: [64], run: "
                 "[1, \"3-5\"]}, environment: {A: b}, pod: {p: 1}, job: {j: 1}}\n"
                 "  - {name: b}\n"
                 "parameters: {x: 1}\nobjects: [{kind: A}]\n",
                 "mine.yaml"});
  const JobType type = load_job_type(templates, "mine");
  REQUIRE(type.roles.size() == 2);
  const RoleTemplate &a = type.roles[0], &b = type.roles[1];
  CHECK(a.name == "a");
  CHECK(a.count == 4);
  CHECK(a.ends_run);
  CHECK(a.final_for_train == std::vector<std::string>{"64"});
  CHECK(a.final_for_run == std::vector<std::string>{"1", "3-5"});
  CHECK(a.environment.find("A") != nullptr);
  CHECK(a.pod.find("p") != nullptr);
  CHECK(a.job.find("j") != nullptr);
  CHECK(b.name == "b");
  CHECK(b.count == 1);
  CHECK_FALSE(b.ends_run);
  CHECK(b.final_for_run.empty());
  CHECK(type.parameters.find("x") != nullptr);
  CHECK(type.objects.items.size() == 1);
}

TEST_CASE("a key of a framework is refused if its value has the wrong kind") {
  CHECK(refusal_of_own_framework("{}\n") == "accepted");
  for (const char* map : {"environment", "pod", "job", "role_names"})
    says(refusal_of_own_framework(std::string(map) + ": [1]\n"),
         "own.yaml:1:" + std::to_string(std::string(map).size() + 3) + ": " + map +
             " must be a map, not a list");
  for (const char* list : {"launch", "objects", "outside"})
    says(refusal_of_own_framework(std::string(list) + ": {a: 1}\n"),
         std::string(list) + " must be a list, not a map");
  says(refusal_of_own_framework("always_launch: 1\n"), "always_launch is true or false");
  says(refusal_of_own_framework("key: \"true\"\n"), "key is true or false");
  says(refusal_of_own_framework("helper: [mlk-mpi]\n"), "there is one helper, mlk-mpi");
  says(refusal_of_own_framework("qqqqqqqq: 1\n"), "unknown key 'qqqqqqqq'; there are role_names, outside, ");
}

TEST_CASE("load_framework() reads a framework from its file") {
  Templates templates;
  templates.add("frameworks/own.yaml",
                {"always_launch: true\nkey: true\nhelper: mlk-mpi\noutside: [b]\nrole_names: {a: c}\n"
                 "launch: [x]\npod: {p: 1}\njob: {j: 1}\nenvironment: {E: 1}\nobjects: [{kind: A}]\n",
                 "own.yaml"});
  const Framework own = load_framework(templates, "own");
  CHECK(own.name == "own");
  CHECK(own.always_launch);
  CHECK(own.key);
  CHECK(own.helper);
  CHECK(own.outside == std::set<std::string>{"b"});
  CHECK(own.role_names == std::map<std::string, std::string>{{"a", "c"}});
  CHECK(own.launch.items.size() == 1);
  CHECK(own.pod.find("p") != nullptr);
  CHECK(own.job.find("j") != nullptr);
  CHECK(own.environment.find("E") != nullptr);
  CHECK(own.objects.items.size() == 1);
  for (const char* none : {"", "none"}) {
    const Framework nothing = load_framework(templates, none);
    CHECK(nothing.name.empty());
    CHECK_FALSE(nothing.always_launch);
    CHECK_FALSE(nothing.key);
    CHECK_FALSE(nothing.helper);
    CHECK(framework_scope(nothing, "x-abcde", {}, "").is_null());
  }
  templates.add("frameworks/own.yaml", {"key: false\nalways_launch: false\n", "own.yaml"});
  CHECK_FALSE(load_framework(templates, "own").key);
  CHECK_FALSE(load_framework(templates, "own").always_launch);
}

TEST_CASE("`always_launch` lets the launcher start the program even if a pod has only one process") {
  const auto command_of = [](const std::string& text, const std::string& framework) {
    Templates templates;
    templates.add("frameworks/own.yaml", {framework, "own.yaml"});
    const Rendered run =
        render(test::load("name: x\nmode: single\nimage: i\nrun: [a]\nframework: " + text, templates), {},
               templates, {});
    return run.objects.back()["spec"]["template"]["spec"]["containers"][0]["command"];
  };
  CHECK(command_of("mpi\n", "{}\n") == json{"/etc/mlk/bin/mlk-mpi", "--launch", "a"});
  CHECK(command_of("own\n", "launch: [x]\n") == json::array({"a"}));
  CHECK(command_of("own\n", "{launch: [x, 3, true], always_launch: true}\n") == json{"x", "3", "true", "a"});
  CHECK(command_of("own\nworkers: {processes: 2}\n", "launch: [x, '${role.processes}']\n") ==
        json{"x", "2", "a"});
}

TEST_CASE("a variable of a framework may have 128 KiB together with its name, but not more") {
  const auto with_value = [](std::size_t bytes) {
    Templates templates;
    templates.add("frameworks/own.yaml",
                  {"environment: {NAME: \"" + std::string(bytes, 'x') + "\"}\n", "own.yaml"});
    try {
      render(test::load("name: x\nmode: single\nimage: i\nrun: a\nframework: own\n", templates), {},
             templates, {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  constexpr std::size_t most = 128 * 1024 - 2 - 4;  // "NAME=" and the zero at the end
  CHECK(with_value(most) == "accepted");
  CHECK(with_value(most + 1) ==
        "own.yaml: NAME has 128 KiB, and a variable has at most 128 KiB: there are too many pods");
}

TEST_CASE("a YAML file in jobs/ is a job type, and a YAML file in frameworks/ is a framework") {
  Templates templates;
  templates.add("jobs/mine.yaml", {"", "a"});
  templates.add("jobs/notes.txt", {"", "a"});
  templates.add("frameworks/own.yaml", {"", "a"});
  templates.add("other/jobs/no.yaml", {"", "a"});
  CHECK(templates.names().job_types == std::vector<std::string>{"allreduce", "mine", "ps", "single"});
  CHECK(templates.names().frameworks == std::vector<std::string>{"jax", "mpi", "own", "tensorflow", "torch"});
  CHECK(templates.find("jobs/gone.yaml") == nullptr);
  CHECK(templates.find("jobs/ps.yaml")->source == "built-in");
  CHECK(templates.find("jobs/mine.yaml")->source == "a");
}

TEST_CASE("a template is parsed again after add() has replaced it") {
  Templates templates;
  int read = 0;
  const auto tree = [&] {
    return templates.tree("jobs/mine.yaml", [&] {
      ++read;
      return YamlNode{};
    });
  };
  CHECK(tree() == tree());
  CHECK(read == 1);
  templates.add("jobs/mine.yaml", {"a: 1\n", "mine.yaml"});
  (void)tree();
  CHECK(read == 2);
}

TEST_CASE("the error for a missing template contains its name") {
  Templates templates;
  try {
    (void)load_framework(templates, "gone");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::not_found);
    CHECK(std::string(error.what()) == "there is no template frameworks/gone.yaml");
  }
  templates.add("jobs/mine.yaml", {"", "/home/me/mine.yaml"});
  CHECK(name_of_template(templates, "jobs/mine.yaml") == "/home/me/mine.yaml");
  CHECK(name_of_template(templates, "jobs/ps.yaml") == "templates/jobs/ps.yaml");
  CHECK(name_of_template(templates, "jobs/gone.yaml") == "templates/jobs/gone.yaml");
}

TEST_CASE("`cluster_text` names each role as the framework names it, and leaves out the roles of `outside`") {
  Framework framework;
  framework.name = "own";
  framework.role_names = {{"server", "ps"}};
  framework.outside = {"evaluator"};
  const auto role = [](const char* name, int count) {
    RoleInRun out;
    out.name = name;
    out.size.count = count;
    return out;
  };
  const std::vector<RoleInRun> roles{role("server", 1), role("worker", 2), role("evaluator", 1)};
  const json scope = framework_scope(framework, "r", roles, "worker");
  CHECK(scope["port"] == 7070);
  CHECK(scope["addresses"] == "r-worker-0.r:7070,r-worker-1.r:7070");
  CHECK(scope["role"] == "worker");
  CHECK(json::parse(scope["cluster_text"].get<std::string>()) ==
        json{{"ps", {"r-server-0.r:7070"}}, {"worker", {"r-worker-0.r:7070", "r-worker-1.r:7070"}}});
  CHECK(framework_scope(framework, "r", roles, "evaluator")["addresses"] == "r-evaluator-0.r:7070");
  CHECK(framework_scope(framework, "r", roles, "server")["role"] == "ps");
  CHECK(framework_scope(framework, "r", roles, "")["role"] == "");
  CHECK(framework_scope(framework, "r", roles, "")["addresses"] == "");
}

}  // namespace
}  // namespace mlk
