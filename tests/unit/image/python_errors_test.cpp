// Checks what mlk reports if pip fails, or if there is no Python.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/image/python.h"
#include "cli/util/error.h"
#include "tests/unit/image/played_pip.h"

TEST_SUITE_BEGIN("image/python_errors");

namespace {

using mlk::image::Libc;
using mlk::image::PythonPackages;
using Lines = std::vector<std::string>;

mlk::Error python_error(const std::string& script) {
  const Machine machine(script);
  try {
    (void)mlk::image::python_layer(machine.packages(), "mlk/python");
  } catch (const mlk::Error& error) {
    return error;
  }
  return {mlk::ExitCode::ok, "accepted"};
}

}  // namespace

TEST_CASE("the error of python_layer() explains why pip failed") {
  mlk::Error error = python_error("echo '/usr/bin/python3: No module named pip' >&2; exit 1");
  CHECK(error.code() == mlk::ExitCode::failure);
  CHECK(std::string(error.what()) == "code.python: the python3 of this machine has no pip");
  error = python_error("echo 'no such option: --report' >&2; exit 2");
  CHECK(std::string(error.what()) == "code.python: the pip of this machine is older than 22.2");
  error = python_error(
      "printf 'WARNING: x\\nERROR: Could not find a version\\nERROR: No matching distribution found for "
      "\\033[1mx\\n' >&2; exit 1");
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what())
            .find(": Could not find a version; No matching distribution found for ?[1mx") !=
        std::string::npos);
  error = python_error("exit 3");
  CHECK(error.code() == mlk::ExitCode::failure);
  CHECK(std::string(error.what()).ends_with("exit code 3"));
  error = python_error("echo garbage");
  CHECK(std::string(error.what()) == "code.python: pip gave no report of what it would install");
  error = python_error("echo ConfigurationFileCouldNotBeLoaded >&2; exit 1");
  CHECK(std::string(error.what()) == "code.python: pip's settings cannot be read");
  const std::string refuses =
      "case \"$*\" in *pip._internal.configuration*) exit;; esac; echo 'Collecting own (from a==1->-r x)'; "
      "echo '%' > "
      "refusal.json; exit 97";
  const auto refused = [&](const std::string& what) {
    std::string script = refuses;
    return python_error(script.replace(script.find('%'), 1, what));
  };
  error = refused(R"({"build": true})");
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what()).find("would build a package") != std::string::npos);
  CHECK(std::string(error.what()).ends_with("; it was looking at own (from a==1)"));
  error = refused(R"({"marker": "python_full_version < \"3.11.4\""})");
  CHECK(error.code() == mlk::ExitCode::usage);
  CHECK(std::string(error.what()).find("python_full_version < \"3.11.4\"; it was looking at own") !=
        std::string::npos);
}

TEST_CASE("python_layer() stops pip and throws if the user interrupts mlk") {
  const Machine machine("sleep 600");
  PythonPackages packages = machine.packages();
  packages.go_on = [] { return false; };
  try {
    (void)mlk::image::python_layer(packages, "mlk/python");
    FAIL("it went on");
  } catch (const mlk::Error& error) {
    CHECK(error.code() == mlk::ExitCode::interrupted);
  }
}

TEST_CASE("python_layer() and own_python() name python3 in their error if the machine has no Python") {
  const TemporaryFolder empty;
  const EnvironmentVariable path("PATH", empty.path().string());
  empty.write("requirements.txt", "");
  const PythonPackages packages{.requirements = empty.path() / "requirements.txt",
                                .target = {{"linux", "amd64", ""}, "3.11"},
                                .cache = empty.path() / "cache"};
  const auto fails_with = [](const auto& action, const std::string& part) {
    try {
      (void)action();
    } catch (const mlk::Error& error) {
      CHECK(error.code() == mlk::ExitCode::failure);
      CHECK(std::string(error.what()).find(part) != std::string::npos);
      return;
    }
    FAIL("there is one");
  };
  fails_with([&] { return mlk::image::python_layer(packages, "mlk/python"); }, "there is no python3 here");
  fails_with([] { return mlk::image::own_python(); }, "python3");
}

TEST_CASE("own_python() fails if python3 does not print its version") {
  const std::string said = R"(echo '{"python_full_version": "3.12.4", "os_name": "posix", "x": 5}')";
  for (const std::string& script :
       Lines{"echo three", "exit 1", said + "; exit 1", "echo '{}'", "echo 3.12"}) {
    const Machine machine(script);
    CHECK_THROWS_WITH_AS((void)mlk::image::own_python(),
                         "code.python: the python3 of this machine does not say its version", mlk::Error);
  }
  const Machine machine(said);
  CHECK(mlk::image::own_python().version == "3.12");
  CHECK(mlk::image::own_python().full_version == "3.12.4");
  CHECK(mlk::image::own_python().markers.at("os_name") == "posix");
}

TEST_CASE("the cause of pip's failure decides the exit code and the hint of python_layer()") {
  struct Row {
    const char* said;
    mlk::ExitCode code;
    const char *part, *hint;
  };
  using mlk::ExitCode;
  for (const Row& row :
       {Row{"No module named 'pip'", ExitCode::failure, "has no pip", "install it (python3-pip)"},
        Row{"no such option: --report", ExitCode::failure, "older than 22.2", "let it renew itself"},
        Row{"x NewConnectionError x", ExitCode::failure, "cannot reach its index", "see all of what it says"},
        Row{"ConnectTimeoutError", ExitCode::failure, "cannot reach its index", "see all of what it says"},
        Row{"NameResolutionError", ExitCode::failure, "cannot reach its index", "see all of what it says"},
        Row{"ProxyError", ExitCode::failure, "cannot reach its index", "see all of what it says"},
        Row{"ERROR: No matching distribution", ExitCode::usage,
            "finds no wheels for Python 3.11 on linux/amd64 of what ", "name a version that has a wheel"},
        Row{"ERROR: Could not find a version", ExitCode::usage, "asks for: Could not find a version",
            "name a version that has a wheel"},
        Row{"ERROR: other", ExitCode::failure, "asks for: other", "see all of what pip says"},
        Row{"xERROR: other", ExitCode::failure, "asks for: exit code 4", "see all of what pip says"}}) {
    const mlk::Error error = python_error(std::string("echo \"") + row.said + "\" >&2; exit 4");
    CHECK_MESSAGE(error.code() == row.code, std::string(row.said));
    CHECK_MESSAGE(std::string(error.what()).find(row.part) != std::string::npos, std::string(error.what()));
    CHECK_MESSAGE(error.hint().starts_with(row.hint), error.hint());
  }
  const mlk::Error error = python_error("printf 'ERROR: %01000d' 0 >&2; exit 4");
  CHECK(std::string(error.what()).find(std::string(550, '0')) != std::string::npos);
  CHECK(std::string(error.what()).find(std::string(601, '0')) == std::string::npos);
}

TEST_CASE("the error of python_layer() shows only the last five versions if pip lists more") {
  const auto shown = [](const std::string& versions) {
    return std::string(
        python_error("echo 'ERROR: Could not find a version that satisfies x==9 (from versions: " + versions +
                     ")' >&2; echo 'ERROR: No matching distribution found for x==9' >&2; exit 1")
            .what());
  };
  const std::string next = "); No matching distribution found for x==9";
  using Row = std::pair<const char*, const char*>;
  for (const auto& [versions, part] :
       {Row{"none", "(from versions: none"}, Row{"1, 2, 3, 4, 5", "(from versions: 1, 2, 3, 4, 5"},
        Row{"1, 2, 3, 4, 5, 6", "(from versions: ..., 2, 3, 4, 5, 6"},
        Row{"0.9, 1, 2, 3, 4, 5, 6rc1", "(from versions: ..., 2, 3, 4, 5, 6rc1"}})
    CHECK_MESSAGE(shown(versions).ends_with(part + next), shown(versions));
  const mlk::Error cut_off = python_error("echo 'ERROR: a, b, c, d, e, f (from versions: 1, 2' >&2; exit 1");
  CHECK(std::string(cut_off.what()).ends_with("a, b, c, d, e, f (from versions: 1, 2"));
}

TEST_CASE("the error for a missing wheel mentions musl if the image has musl") {
  const Machine machine("echo 'ERROR: No matching distribution' >&2; exit 1");
  PythonPackages packages = machine.packages();
  packages.target.libc = Libc::musl;
  try {
    (void)mlk::image::python_layer(packages, "mlk/python");
    FAIL("there is one");
  } catch (const mlk::Error& error) {
    CHECK(std::string(error.what()).find("on linux/amd64 with musl of what") != std::string::npos);
    CHECK(error.hint().starts_with("many packages have wheels for glibc alone"));
  }
}

TEST_CASE(
    "if pip fails and refusal.json holds a valid refusal, the error of python_layer() names this refusal") {
  const auto refused = [](const std::string& what) {
    return python_error("case \"$*\" in *pip._internal.configuration*) exit;; esac; echo '" + what +
                        "' > refusal.json; exit 97");
  };
  for (const char* odd : {"", "5", "[\"build\"]", "{}", R"({"marker": 5})", "{"})
    CHECK_MESSAGE(std::string(refused(odd).what()).ends_with("exit code 97"), std::string(odd));
  const mlk::Error marker = refused(R"({"marker": "a < b"})");
  CHECK(std::string(marker.what()).ends_with("meets the condition of a package: a < b"));
  CHECK(marker.hint().ends_with("code: {python_version: \"3.11.4\"}"));
  CHECK(refused(R"({"build": true})").hint().starts_with("name a wheel of it instead"));
  // A refusal is ignored if pip succeeds.
  const mlk::Error none = python_error("echo '{\"build\": true}' > refusal.json; exit 0");
  CHECK(std::string(none.what()) == "code.python: pip gave no report of what it would install");
}
