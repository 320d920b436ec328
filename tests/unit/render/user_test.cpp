// How the file, the image and the namespace decide the user of the pods.
#include "cli/render/user.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/render/golden.h"

TEST_SUITE_BEGIN("render/user");

namespace mlk {
namespace {

using nlohmann::json;

Experiment program(const std::string& more = "") {
  return test::load("name: x\nmode: single\nimage: team/x:1\nrun: a\n" + more);
}

Experiment training(const std::string& more = "") {
  return test::load("name: x\nmode: single\nimage: i\ntrain: {data: {path: /d}, steps: 1}\n" + more);
}

UserFacts of_image(const std::string& user, const std::string& home = "") {
  return {.image = ImageUser{user, home}};
}

// "number group files_group root? home name source guess?", with "-" for each null or empty value.
std::string chosen_for(const Experiment& experiment, const UserFacts& facts) {
  const PodUser user = choose_user(experiment, facts);
  const auto number = [](const json& value) { return value.is_null() ? "-" : value.dump(); };
  const auto text = [](const std::string& value) { return value.empty() ? "-" : value; };
  return number(user.number) + " " + number(user.group) + " " + number(user.files_group) +
         (user.must_not_be_root ? " " : " root ") + text(user.home) + " " + text(user.name) + " " +
         text(user.source) + (user.is_guess ? " guess" : "");
}

TEST_CASE("the user of a program comes from the file, or else from the namespace, or else from the image") {
  const UserFacts unknown, assigned{.is_assigned = true},
      both{.is_assigned = true, .image = ImageUser{"1234", ""}}, here{.on_machine = true};
  const std::string guess = "1000 - 65532 /mlk/home mlk default guess";
  struct Row {
    std::string said;
    UserFacts facts;
    std::string right;
  };
  const std::vector<Row> rows{
      {"", unknown, guess},
      {"user: auto\n", unknown, guess},
      {"", of_image(""), guess},
      {"", of_image("app"), guess},
      {"", of_image("root"), guess},
      {"", of_image("0"), guess},
      {"", of_image("0:0"), guess},
      {"", of_image("-1"), guess},
      {"", of_image("12x"), guess},
      {"", of_image("2147483648"), guess},
      {"", of_image("2147483647"), "2147483647 - 65532 /mlk/home mlk image"},
      {"", of_image("1"), "1 - 65532 /mlk/home mlk image"},
      {"", of_image("1234:app"), "1234 - 65532 /mlk/home mlk image"},
      {"", of_image("1234", "/home/app"), "1234 - 65532 - mlk image"},
      {"", of_image("1234", "/"), "1234 - 65532 /mlk/home mlk image"},
      {"", of_image("1234", "/root"), "1234 - 65532 /mlk/home mlk image"},
      {"", of_image("1234", "/root/x"), "1234 - 65532 /mlk/home mlk image"},
      {"", of_image("1234", "/rooted"), "1234 - 65532 - mlk image"},
      {"", of_image("app", "/home/app"), guess},  // the home of another user
      {"", assigned, "- - - /mlk/home mlk namespace"},
      {"", both, "- - - /mlk/home mlk namespace"},
      {"user: 1001\n", assigned, "1001 - - /mlk/home mlk file"},
      {"user: 1001\n", unknown, "1001 - 65532 /mlk/home mlk file"},
      {"user: 1001\n", of_image("1001", "/home/app"), "1001 - 65532 - mlk file"},
      {"user: 1001\n", of_image("1002", "/home/app"), "1001 - 65532 /mlk/home mlk file"},
      {"user: 0\n", unknown, "0 - 65532 root - - file"},
      {"user: image\n", unknown, "- - 65532 root - - file"},
      {"user: image\n", assigned, "- - - root - - file"},
      {"", here, "- - - - - -"},
      {"user: 1001\n", here, "- - - - - -"},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    CHECK(chosen_for(program(rows[i].said), rows[i].facts) == rows[i].right);
  }
}

TEST_CASE("the bundled runtime runs as user 65532 if the file and the namespace set no user") {
  const UserFacts unknown, assigned{.is_assigned = true}, here{.on_machine = true};
  CHECK(chosen_for(training(), unknown) == "65532 65532 65532 - - -");
  CHECK(chosen_for(training(), here) == "65532 65532 65532 - - -");
  CHECK(chosen_for(training(), assigned) == "- - - - - namespace");
  CHECK(chosen_for(training("user: 1001\n"), unknown) == "1001 - 65532 - - file");
}

TEST_CASE("note_on_user() returns a sentence if the user is a guess") {
  const auto note = [](const UserFacts& facts, const std::string& why = "", const std::string& more = "") {
    return note_on_user(program(more), facts, why);
  };
  const std::string end = ": the program runs as 1000; `user:` names another number";
  CHECK(note({}) == "mlk does not know the user of image team/x:1" + end);
  CHECK(note({}, "no answer") == "mlk does not know the user of image team/x:1 (no answer)" + end);
  CHECK(note(of_image("")) == "image team/x:1 names no user" + end);
  for (const char* root : {"root", "0", "00", "root:app", "0:1"})
    CHECK(note(of_image(root)) == "image team/x:1 runs its programs as root" + end);
  CHECK(note(of_image("app:app")) == "image team/x:1 names its user app without a number" + end);
  CHECK(note(of_image("a\x1b[2J")).find('\x1b') == std::string::npos);
  CHECK(note(of_image("1234")).empty());
  CHECK(note({.on_machine = true}).empty());
  CHECK(note({.is_assigned = true}).empty());
  CHECK(note({}, "", "user: 7\n").empty());
  CHECK(note({}, "", "user: image\n").empty());
  CHECK(note_on_user(training(), {}, "").empty());
}

TEST_CASE("the key `user` accepts `auto`, `image` or a number") {
  const auto said = [](const std::string& value) {
    try {
      (void)program("user: " + value + "\n");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (const char* good : {"auto", "image", "0", "1000", "2147483647"}) CHECK(said(good) == "accepted");
  for (const char* bad : {"root", "1.5", "[1]", "{a: 1}", "true", "\"\""})
    CHECK_MESSAGE(said(bad).find("user must be auto, image or the number of a user") != std::string::npos,
                  said(bad));
  CHECK(said("-1").find("from 0 to 2147483647") != std::string::npos);
  CHECK(said("2147483648").find("from 0 to 2147483647") != std::string::npos);
}

TEST_CASE("the name of a run does not depend on the user that mlk chooses") {
  const auto name = [](const std::string& more, const UserFacts& facts) {
    FileContents files;
    files.user = facts;
    return render(program(more), files, Templates(), {}).run;
  };
  const std::string plain = name("", {});
  CHECK(name("", of_image("1234")) == plain);
  CHECK(name("", {.is_assigned = true}) == plain);
  CHECK(name("user: auto\n", {}) == plain);
  CHECK(name("user: 1001\n", {}) != plain);
  CHECK(name("user: image\n", {}) != plain);
}

json pod_of(const Rendered& run) {
  for (const json& object : run.objects) {
    if (object["kind"] == "Job") return object["spec"]["template"]["spec"];
  }
  return {};
}

std::string variable_in(const json& pod, const std::string& name) {
  for (const json& entry : pod["containers"][0]["env"]) {
    if (entry["name"] == name) return entry.value("value", "");
  }
  return "<unset>";
}

TEST_CASE("a program gets a home, a user name, and as many threads as CPUs") {
  const json pod = pod_of(render(program("workers: {cpu: 3500m}\n"), {}, Templates(), {}));
  CHECK(variable_in(pod, "HOME") == "/mlk/home");
  CHECK(variable_in(pod, "USER") == "mlk");
  CHECK(variable_in(pod, "LOGNAME") == "mlk");
  CHECK(variable_in(pod, "OMP_NUM_THREADS") == "3");
  CHECK(pod["volumes"] == json::array({{{"name", "mlk-home"}, {"emptyDir", json::object()}}}));
  CHECK(pod["containers"][0]["volumeMounts"] ==
        json::array({{{"name", "mlk-home"}, {"mountPath", "/mlk/home"}}}));
  CHECK(pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch");

  const json replaced = pod_of(
      render(program("env: {HOME: /h, USER: u, LOGNAME: l, OMP_NUM_THREADS: 7, PYTHONUNBUFFERED: \"\"}\n"),
             {}, Templates(), {}));
  CHECK(variable_in(replaced, "HOME") == "/h");
  CHECK(variable_in(replaced, "USER") == "u");
  CHECK(variable_in(replaced, "LOGNAME") == "l");
  CHECK(variable_in(replaced, "OMP_NUM_THREADS") == "7");
  CHECK(variable_in(replaced, "PYTHONUNBUFFERED").empty());
  CHECK_FALSE(replaced.contains("volumes"));
}

TEST_CASE("the threads of a pod are divided among its processes") {
  const auto threads = [](const std::string& workers) {
    return variable_in(
        pod_of(render(program("framework: torch\nworkers: " + workers + "\n"), {}, Templates(), {})),
        "OMP_NUM_THREADS");
  };
  CHECK(threads("{cpu: 8, processes: 2}") == "4");
  CHECK(threads("{cpu: 7, processes: 4}") == "1");
  CHECK(threads("{cpu: 1, processes: 4}") == "1");
  CHECK(threads("{cpu: 250m}") == "1");
}

TEST_CASE("a program on this machine runs as the user who runs mlk") {
  FileContents files;
  files.user.on_machine = true;
  RenderOptions options;
  options.local = true;
  const json pod = pod_of(render(program(), files, Templates(), options));
  for (const char* name : {"HOME", "USER", "LOGNAME"}) CHECK(variable_in(pod, name) == "<unset>");
  CHECK_FALSE(pod["securityContext"].contains("runAsUser"));
  CHECK_FALSE(pod.contains("volumes"));
}

TEST_CASE("`user: 0` and `user: image` render a pod without runAsNonRoot") {
  const json root = pod_of(render(program("user: 0\n"), {}, Templates(), {}))["securityContext"];
  CHECK(root["runAsUser"] == 0);
  CHECK_FALSE(root.contains("runAsNonRoot"));
  const json image = pod_of(render(program("user: image\n"), {}, Templates(), {}))["securityContext"];
  CHECK_FALSE(image.contains("runAsUser"));
  CHECK_FALSE(image.contains("runAsNonRoot"));
}

TEST_CASE("parse_user_facts() reads back what to_json() has written") {
  for (const UserFacts& facts : {UserFacts{}, UserFacts{.on_machine = true}, UserFacts{.is_assigned = true},
                                 of_image("app", "/h"), of_image("", "")}) {
    const UserFacts again = parse_user_facts(to_json(facts));
    CHECK(to_json(again) == to_json(facts));
  }
  for (const json& other : {json(), json("x"), json{{"image", 3}}, json{{"on_machine", "true"}}})
    CHECK(to_json(parse_user_facts(other)) == to_json(UserFacts{}));
  CHECK(to_json(of_image("app", "/h")) == json::parse(R"({"on_machine": false, "is_assigned": false,
        "image": {"user": "app", "home": "/h"}})"));
  CHECK(to_json(parse_user_facts(json::parse(R"({"image": {"user": 3, "home": "/h"}})"))) ==
        to_json(of_image("", "/h")));
}

TEST_CASE("the record of a run says which number its user has, and where this number comes from") {
  const Rendered run = render(program(), {}, Templates(), {});
  CHECK(json::parse(run.owner["data"]["user"].get<std::string>()) ==
        json{{"number", 1000}, {"from", "default"}});
  CHECK_FALSE(render(training(), {}, Templates(), {}).owner["data"].contains("user"));
}

TEST_CASE("number_of_user() returns a number that Kubernetes accepts, and never 0") {
  const struct {
    const char* user;
    long long number;  // 0: none
  } rows[] = {{"1", 1},          {"1234:0", 1234}, {"2147483647", 2147483647},
              {"2147483648", 0}, {"0", 0},         {"0:1", 0},
              {"-1", 0},         {"", 0},          {":5", 0},
              {"app", 0},        {"5app", 0},      {"99999999999999999999", 0}};
  for (const auto& row : rows) CHECK_MESSAGE(number_of_user(row.user).value_or(0) == row.number, row.user);
  CHECK_FALSE(number_of_user("0").has_value());
}

}  // namespace
}  // namespace mlk
