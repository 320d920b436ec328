// Entries, answers and messages of credential plugins, and the class PluginCaller.
#include "cli/kube/login/exec_plugin.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/login/exec_call.h"
#include "cli/kube/login/kubeconfig_file.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("kube/login/exec_plugin");

using namespace mlk::kube;
using mlk::Error;
using mlk::ExitCode;
using nlohmann::json;
using std::chrono::seconds;

namespace {

const std::string beta_version = "client.authentication.k8s.io/v1beta1";

ExecPlugin read_plugin(json fields) {
  if (!fields.contains("command")) fields["command"] = "aws";
  if (!fields.contains("apiVersion")) fields["apiVersion"] = beta_version;
  KubeconfigEntry user;
  user.file = "/home/me/.kube/config";
  return read_exec_plugin(fields, user, "here");
}

std::string plugin_refusal(const json& fields) {
  try {
    read_plugin(fields);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

// The expiry in a plugin's answer; "none" without an expiry; "refused" for an invalid answer.
std::string answered_end(const std::string& expires) {
  const json answer = {{"kind", "ExecCredential"},
                       {"apiVersion", beta_version},
                       {"status", {{"token", "t"}, {"expirationTimestamp", expires}}}};
  try {
    const Credential credential = parse_exec_credential(answer.dump(), read_plugin(json::object()));
    return credential.expires ? mlk::format_time(*credential.expires) : "none";
  } catch (const Error&) {
    return "refused";
  }
}

}  // namespace

TEST_CASE("a plugin's entry gives the command, arguments, environment, mode and hint") {
  const ExecPlugin plugin = read_plugin(
      {{"command", "bin/login"},
       {"args", {"a", 7, true}},
       {"env", {{{"name", "B"}, {"value", "1"}}, {{"name", "A"}}, {{"name", "B"}, {"value", "2"}}}},
       {"interactiveMode", "Always"},
       {"installHint", "get it"},
       {"provideClusterInfo", true}});
  CHECK(plugin.command == "/home/me/.kube/bin/login");
  CHECK(plugin.api_version == beta_version);
  CHECK(plugin.args == std::vector<std::string>{"a", "7", "true"});
  CHECK(plugin.env == std::vector<std::pair<std::string, std::string>>{{"A", ""}, {"B", "2"}});
  CHECK(plugin.mode == InteractiveMode::always);
  CHECK(plugin.install_hint == "get it");
  CHECK(plugin.provide_cluster_info);
}

TEST_CASE("missing and null fields of a plugin's entry have defaults") {
  const ExecPlugin plugin = read_plugin({{"args", nullptr}, {"env", nullptr}, {"interactiveMode", nullptr}});
  CHECK(plugin.mode == InteractiveMode::if_available);
  CHECK(plugin.args.empty());
  CHECK(plugin.env.empty());
  CHECK(plugin.install_hint.empty());
  CHECK_FALSE(plugin.provide_cluster_info);
  CHECK_FALSE(read_plugin({{"provideClusterInfo", "false"}}).provide_cluster_info);
  CHECK(read_plugin({{"interactiveMode", "Never"}}).mode == InteractiveMode::never);
  CHECK(read_plugin({{"interactiveMode", "IfAvailable"}}).mode == InteractiveMode::if_available);
}

TEST_CASE("a plugin's entry is refused if a field is malformed, has an unknown value or holds a zero byte") {
  const std::string zero("a\0b", 3);
  CHECK(plugin_refusal({{"args", "a"}}) == "here: exec: args is not a list | ");
  CHECK(plugin_refusal({{"env", {{"name", "A"}}}}) == "here: exec: env is not a list | ");
  CHECK(plugin_refusal({{"args", {zero}}}) == "here: exec holds a zero byte | ");
  CHECK(plugin_refusal({{"command", zero}}) == "here: exec holds a zero byte | ");
  const std::string name = "here: exec: a variable in env has no proper name | ";
  for (const json& variable : {json("A"), json{{"name", ""}}, json{{"name", "A=B"}}, json{{"name", zero}}})
    CHECK(plugin_refusal({{"env", json::array({variable})}}) == name);
  CHECK(plugin_refusal({{"env", json::array({{{"name", "A"}, {"value", zero}}})}}) ==
        "here: exec: the variable A holds a zero byte | ");
  CHECK(plugin_refusal({{"command", ""}}) == "here: exec names no command | ");
  CHECK(
      plugin_refusal({{"interactiveMode", "never"}}) ==
      "here: exec: unknown interactiveMode \"never\" | set interactiveMode to Never, IfAvailable or Always");
  CHECK(plugin_refusal({{"apiVersion", ""}}).starts_with("here: exec has no apiVersion | set it to "));
}

TEST_CASE("the expiry of a credential must be a date with a time, and may be in any time zone") {
  CHECK(answered_end("2099-01-01T00:00:00Z") == "2099-01-01T00:00:00Z");
  CHECK(answered_end("2099-01-01T02:30:00+02:30") == "2099-01-01T00:00:00Z");
  CHECK(answered_end("2098-12-31T19:00:00-05:00") == "2099-01-01T00:00:00Z");
  CHECK(answered_end("2099-01-01T23:59:00+23:59") == "2099-01-01T00:00:00Z");
  CHECK(answered_end("2099-01-01T00:00:00.5+00:00") == "2099-01-01T00:00:00Z");
  CHECK(answered_end("") == "none");
  for (const char* bad :
       {"2099-01-01T00:00:00+24:00", "2099-01-01T00:00:00+00:60", "2099-01-01T00:00:00+2:000",
        "2099-01-01T00:00:00+a0:00", "2099-01-01T00:00:00+00:0a", "+02:00", "2099-01-01"})
    CHECK_MESSAGE(answered_end(bad) == "refused", bad);
}

TEST_CASE("KUBERNETES_EXEC_INFO has insecure-skip-tls-verify if TLS is not verified") {
  ExecPlugin plugin = read_plugin({{"provideClusterInfo", true}});
  Config config;
  config.server = "https://h";
  config.insecure = true;
  CHECK(json::parse(exec_info(plugin, config, false))["spec"]["cluster"] ==
        json{{"server", "https://h"}, {"insecure-skip-tls-verify", true}});
  config.insecure = false;
  CHECK(json::parse(exec_info(plugin, config, false))["spec"]["cluster"] == json{{"server", "https://h"}});
}

TEST_CASE("without_secrets() hides secrets of four or more characters, and each line of a secret") {
  ExecPlugin plugin = read_plugin(json::object());
  plugin.env = {{"A", "abc"}, {"B", "wxyz"}, {"C", "wxyz-more"}, {"D", "line one\n  line two \n"}};
  CHECK(without_secrets("abc wxyz wxyz-more wxyzwxyz", plugin, "") == "abc *** *** ******");
  CHECK(without_secrets("a line two b", plugin, "") == "a *** b");
  CHECK(without_secrets("say plain text", plugin, " plain text \n") == "say ***");
  CHECK(without_secrets("see deep-one, flat", plugin,
                        R"({"status": {"a": [{"b": "deep-one"}]}, "x": "flat"})") == "see ***, flat");
  CHECK(without_secrets("a\x1b[1m", plugin, "") == "a?[1m");
}

TEST_CASE("the error of a plugin says how the plugin ended, and has the end of its stderr in one line") {
  const ExecPlugin plugin = read_plugin(json::object());
  const auto told = [&](mlk::ProcessResult result, ExitCode code = ExitCode::cluster) {
    const Error error = exec_failure(plugin, result, seconds(9));
    CHECK(error.code() == code);
    return std::string(error.what());
  };
  const std::string name = "credential plugin \"aws\" ";
  mlk::ProcessResult result;
  result.exit_code = 3;
  CHECK(told(result) == name + "failed with exit code 3");
  result.error = "\n  one \n\n two\n";
  CHECK(told(result) == name + "failed with exit code 3: one; two");
  result.error = std::string(600, 'x');
  CHECK(told(result) == name + "failed with exit code 3: " + std::string(600, 'x'));
  result.error = "y" + std::string(600, 'x');
  CHECK(told(result) == name + "failed with exit code 3: ..." + std::string(600, 'x'));
  result.error = "words";
  result.signal = 15;
  CHECK(told(result) == name + "was ended by signal 15: words");
  result.timed_out = true;
  CHECK(told(result) == name + "did not end within 9 s: words");
  result.given_up = true;
  CHECK(told(result, ExitCode::interrupted) == name + "was interrupted");
  CHECK(exec_failure(plugin, {}, seconds(9)).hint() ==
        "run \"aws\" by hand, or log in again as its documentation says; `mlk context` names the entry");
}

TEST_CASE("the error for a missing plugin has the installHint of the entry, cut to a limit") {
  ExecPlugin plugin = read_plugin(json::object());
  const Error plain = exec_missing(plugin, "no program");
  CHECK(std::string(plain.what()) == "credential plugin \"aws\" cannot be run: no program");
  CHECK(plain.hint() == "install it, or put its folder into PATH");
  CHECK(plain.code() == ExitCode::cluster);
  plugin.install_hint = "  " + std::string(3000, 'h');
  CHECK(exec_missing(plugin, "").hint() == std::string(1998, 'h'));
}

TEST_CASE("a PluginCaller makes one call at a time, and the next call only after the answer was taken") {
  std::mutex mutex;
  std::condition_variable wake;
  bool go_on = false;
  std::atomic<int> calls = 0, ended = 0;
  PluginCaller caller(
      [&](const auto&) {
        const int n = ++calls;
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return go_on; });
        return Credential{"t" + std::to_string(n), "", ""};
      },
      [&] { ++ended; });
  CHECK_FALSE(caller.poll().has_value());
  caller.start();
  caller.start();
  {
    const std::lock_guard lock(mutex);
    go_on = true;
  }
  wake.notify_all();
  REQUIRE(eventually([&] { return ended == 1; }));
  caller.start();  // the answer has not been taken
  CHECK(calls == 1);
  const auto answer = caller.poll();
  REQUIRE(answer.has_value());
  CHECK(answer->credential.token == "t1");
  CHECK_FALSE(answer->error.has_value());
  CHECK_FALSE(caller.poll().has_value());
  caller.start();
  REQUIRE(eventually([&] { return ended == 2; }));
  CHECK(caller.poll()->credential.token == "t2");
}

TEST_CASE("poll() returns the exception of a plugin call as an error") {
  std::atomic<int> calls = 0, ended = 0;
  PluginCaller caller(
      [&](const auto&) -> Credential {
        if (++calls == 1) throw Error(ExitCode::cluster, "no login", "log in");
        throw std::runtime_error("no memory");
      },
      [&] { ++ended; });
  caller.start();
  REQUIRE(eventually([&] { return ended == 1; }));
  const auto first = caller.poll();
  REQUIRE(first->error.has_value());
  CHECK(std::string(first->error->what()) == "no login");
  CHECK(first->error->hint() == "log in");
  CHECK(first->error->code() == ExitCode::cluster);
  caller.start();
  REQUIRE(eventually([&] { return ended == 2; }));
  const auto second = caller.poll();
  REQUIRE(second->error.has_value());
  CHECK(std::string(second->error->what()) == "no memory");
  CHECK(second->error->code() == ExitCode::failure);
}

TEST_CASE("a PluginCaller abandons its running call when it is stopped") {
  std::atomic<bool> begun = false, gave_up = false;
  {
    PluginCaller caller(
        [&](const std::function<bool()>& give_up) {
          begun = true;
          gave_up = eventually(give_up);
          return Credential{};
        },
        [] {});
    caller.start();
    REQUIRE(eventually([&] { return begun.load(); }));
    CHECK_FALSE(gave_up);
  }
  CHECK(gave_up);
}
