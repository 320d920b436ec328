// Credential plugins that run as processes, and requests that wait for them.
#include "cli/kube/login/exec_call.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/util/temporary_folder.h"

TEST_SUITE_BEGIN("kube/login/exec_call");

using namespace mlk::kube;
using mlk::Error;
using std::chrono::seconds;

namespace {

const std::string exec_version = "client.authentication.k8s.io/v1";

std::string answer_with(const std::string& status) {
  return R"({"kind": "ExecCredential", "apiVersion": ")" + exec_version + R"(", "status": )" + status + "}";
}

// A plugin that is a shell script; it records each call in the file `calls`.
class PluginScript {
 public:
  explicit PluginScript(const std::string& text) {
    const auto path = folder.write("plugin", "#!/bin/sh\necho call >> \"$(dirname \"$0\")/calls\"\n" + text);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    config.login = Login::exec;
    config.exec.emplace();
    config.exec->api_version = exec_version;
    config.exec->command = path.string();
    config.exec->mode = InteractiveMode::never;
  }
  // The n-th call prints the file "answer-N"; later calls print the last file.
  static std::string by_turns() {
    return "cd \"$(dirname \"$0\")\"\nn=$(wc -l < calls)\nwhile [ ! -e answer-$((n)) ]; do n=$((n - 1)); "
           "done\n"
           "cat answer-$((n))\n";
  }
  int calls() const {
    std::ifstream file(folder.path() / "calls");
    int count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }
  std::string problem(const PluginHost& host = {}) const {
    try {
      call_plugin(config, host, [] { return false; });
      return "ok";
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
  }

  TemporaryFolder folder;
  Config config;
};

bool has_part(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("a plugin gets its arguments unchanged, its variables, and KUBERNETES_EXEC_INFO") {
  PluginScript script(
      "printf '%s|%s|%s|%s' \"$1\" \"$2\" \"$REGION\" \"$KUBERNETES_EXEC_INFO\" > \"$(dirname "
      "\"$0\")/seen\"\n"
      "printf '%s' '" +
      answer_with(R"({"token": "t"})") + "'\n");
  script.config.exec->args = {"$(touch /tmp/no; echo a) *", ""};
  script.config.exec->env = {{"KUBERNETES_EXEC_INFO", "not this"}, {"REGION", "a b"}};
  CHECK(call_plugin(script.config, {}, [] { return false; }).token == "t");
  std::ifstream seen(script.folder.path() / "seen");
  std::string text;
  std::getline(seen, text);
  CHECK(text == "$(touch /tmp/no; echo a) *||a b|" + exec_info(*script.config.exec, script.config, false));
}

TEST_CASE("if a plugin is missing, fails or prints too much, the error names the cause") {
  PluginScript missing("");
  missing.config.exec->command = "no-such-plugin-of-mlk";
  missing.config.exec->install_hint = "install \x1b[1mit\x1b[0m from there\n";
  has_part(missing.problem(), "credential plugin \"no-such-plugin-of-mlk\" cannot be run: no program");
  has_part(missing.problem(), "| install ?[1mit?[0m from there");
  missing.config.exec->install_hint.clear();
  has_part(missing.problem(), "| install it, or put its folder into PATH");
  missing.config.exec->command = (missing.folder.path() / "gone").string();
  has_part(missing.problem(), "cannot be run");
  PluginScript fails("echo 'not logged in' >&2; exit 3\n");
  has_part(fails.problem(), "failed with exit code 3: not logged in | run \"");
  PluginScript killed("kill -9 $$\n");
  has_part(killed.problem(), "was ended by signal 9");
  PluginScript rubbish("echo s3cret\n");
  has_part(rubbish.problem(), "answers with something that is not JSON");
  CHECK(rubbish.problem().find("s3cret") == std::string::npos);
  PluginScript loud("yes s3cret\n");
  has_part(loud.problem(), "prints more than 1048576 bytes");
  CHECK(loud.problem().find("s3cret") == std::string::npos);
}

TEST_CASE("a plugin that hangs is killed with its children at the time-out or at an interrupt") {
  // The script renames the file "child" into place, so that no reader finds it empty.
  const std::string hangs =
      "cd \"$(dirname \"$0\")\"\nsleep 1000 & echo $! > new; mv new child; "
      "wait\n";
  const auto has_child = [](const PluginScript& script) {
    return std::filesystem::exists(script.folder.path() / "child");
  };
  const auto child_is_gone = [](const PluginScript& script) {
    pid_t child = 0;
    std::ifstream(script.folder.path() / "child") >> child;
    return child > 0 && eventually([&] {
             std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
             std::string pid, name, state;
             stat >> pid >> name >> state;
             return !stat || state == "Z";
           });
  };
  PluginScript slow(hangs);
  PluginHost host;
  host.patience = seconds(1);
  // On a busy machine the plugin may have no child yet at its time-out. In this case the test gives the
  // plugin more time.
  for (; !has_child(slow) && host.patience < seconds(100); host.patience *= 2) {
    has_part(slow.problem(host), "did not end within " + std::to_string(host.patience.count()) + " s");
  }
  CHECK(child_is_gone(slow));
  PluginScript interrupted(hangs);
  host.patience = seconds(100);
  host.interrupted = [&] { return has_child(interrupted); };
  has_part(interrupted.problem(host), "was interrupted");
  CHECK(child_is_gone(interrupted));
}

TEST_CASE("the stderr of a plugin is shown without secrets") {
  PluginScript script("echo 'open https://login in hunter2' >&2\nprintf '%s' '" +
                      answer_with(R"({"token": "t0ken"})") + "'\necho 'never print t0ken' >&2\n");
  script.config.exec->env = {{"PASSWORD", "hunter2"}};
  std::vector<std::string> said;
  PluginHost host;
  host.say = [&](const std::string& line) { said.push_back(line); };
  CHECK(script.problem(host) == "ok");
  CHECK(said == std::vector<std::string>{"open https://login in ***", "never print ***"});
}

TEST_CASE("many requests share one plugin call, and after a refusal they share one more call") {
  const Certificate authority = make_authority("cluster ca");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}));
  std::atomic<int> refusals = 0, requests = 0;
  server.http->Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
    const bool good = request.get_header_value("Authorization") == "Bearer two";
    (good ? requests : refusals) += 1;
    answer(response, good ? 200 : 401, "{}\n");
  });
  PluginScript script(PluginScript::by_turns());
  script.folder.write("answer-1", answer_with(R"({"token": "one"})"));
  script.folder.write("answer-2", answer_with(R"({"token": "two"})"));
  Config config = server.start();
  config.ca_pem = authority.pem();
  config.login = Login::exec;
  config.exec = script.config.exec;
  Client client(config);
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(client.ask({.path = "/x"}));
  std::atomic<int> lines = 0;
  std::vector<int> opened;
  std::promise<StreamEnd> end;
  const auto stream = client.stream(
      {.path = "/x"}, [&](std::string_view) { ++lines; }, [&](StreamEnd how) { end.set_value(how); },
      [&](int status) { opened.push_back(status); });
  for (auto& one : answers) CHECK(one.get().value().status == 200);
  CHECK(end.get_future().get().status == 200);
  CHECK(lines == 1);
  CHECK(opened == std::vector<int>{200});  // the caller does not see the refusal
  CHECK(requests == 21);
  CHECK(refusals >= 1);
  CHECK(refusals <= 21);
  CHECK(script.calls() == 2);
}

TEST_CASE(
    "if the server refuses a credential that it accepted for a stream, the credential is renewed at once") {
  const Certificate authority = make_authority("cluster ca");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}));
  std::atomic<char> good = '2';
  server.http->Get("/stream", [&](const auto&, auto& response) {
    response.set_chunked_content_provider("application/json", [&](std::size_t, httplib::DataSink& sink) {
      sink.write("line\n", 5);
      server.hang();
      return false;
    });
  });
  server.http->Get("/x", [&](const httplib::Request& request, httplib::Response& response) {
    answer(response, request.get_header_value("Authorization").back() == good ? 200 : 401, "{}");
  });
  PluginScript script(PluginScript::by_turns());
  for (const char* n : {"1", "2", "3"}) {
    script.folder.write(std::string("answer-") + n, answer_with(std::string(R"({"token": "t)") + n + "\"}"));
  }
  Config config = server.start();
  config.ca_pem = authority.pem();
  config.login = Login::exec;
  config.exec = script.config.exec;
  Client client(config);
  good = '9';
  CHECK(client.send({.path = "/x"}).status == 401);  // both t1 and t2 are refused
  std::atomic<bool> opened = false;
  const auto stream =
      client.stream({.path = "/stream"}, [&](std::string_view) { opened = true; }, [](StreamEnd) {});
  CHECK(eventually([&] { return opened.load(); }));
  good = '3';
  CHECK(client.send({.path = "/x"}).status == 200);
  CHECK(script.calls() == 3);
}

TEST_CASE("the caller gets the 401 if the server refuses the second credential too") {
  const Certificate authority = make_authority("cluster ca");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}));
  std::atomic<int> requests = 0;
  server.http->Get(".*", [&](const auto&, auto& response) {
    ++requests;
    answer(response, 401, "{}");
  });
  PluginScript script("printf '%s' '" + answer_with(R"({"token": "t"})") + "'\n");
  Config config = server.start();
  config.ca_pem = authority.pem();
  config.login = Login::exec;
  config.exec = script.config.exec;
  Client client(config);
  CHECK(client.send({.path = "/x"}).status == 401);
  CHECK(requests == 2);
  CHECK(client.send({.path = "/x"}).status == 401);
  CHECK(client.send({.path = "/x"}).status == 401);
  CHECK(script.calls() == 2);
}

TEST_CASE("a plugin's client certificate is sent, and a newer certificate is sent over a new connection") {
  const Certificate authority = make_authority("cluster ca");
  X509_STORE* store = X509_STORE_new();  // the server becomes the owner of the store
  X509_STORE_add_cert(store, authority.x509.get());
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}), store);
  std::mutex mutex;
  std::vector<std::string> names;
  server.http->Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
    const std::shared_ptr<X509> peer(SSL_get_peer_certificate(request.ssl), X509_free);
    char name[64] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(peer.get()), NID_commonName, name, sizeof name);
    const std::lock_guard lock(mutex);
    names.push_back(name);
    answer(response, names.size() == 2 ? 401 : 200, "{}");
  });
  PluginScript script(PluginScript::by_turns());
  const auto status = [&](const std::string& name) {
    const Certificate made = make_certificate({name, "DNS:x", &authority});
    return nlohmann::json{{"clientCertificateData", made.pem()}, {"clientKeyData", made.key_pem()}}.dump();
  };
  script.folder.write("answer-1", answer_with(status("one")));
  script.folder.write("answer-2", answer_with(status("two")));
  Config config = server.start();
  config.ca_pem = authority.pem();
  config.login = Login::exec;
  config.exec = script.config.exec;
  Client client(config);
  CHECK(client.send({.path = "/x"}).status == 200);
  CHECK(client.send({.path = "/x"}).status == 200);
  CHECK(names == std::vector<std::string>{"one", "one", "two"});
}

TEST_CASE("a request reports the failure of the plugin, and a closed client does not wait for the plugin") {
  FakeServer server;
  PluginScript fails("exit 3\n");
  Config config = server.start();
  config.login = Login::exec;
  config.exec = fails.config.exec;
  {
    Client client(config);
    try {
      client.send({.path = "/x"});
      FAIL("there was an answer");
    } catch (const ApiError& error) {
      has_part(error.what(), "/home/me/.kube/config: user \"researcher\": credential plugin");
      has_part(error.what(), "failed with exit code 3");
    }
  }
  PluginScript hangs("exec sleep 1000\n");
  config.exec = hangs.config.exec;
  std::future<Answer> answer;
  {
    Client client(config);
    answer = client.ask({.path = "/x", .timeout = std::chrono::milliseconds(200)});
    CHECK(eventually([&] { return hangs.calls() == 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    CHECK(answer.wait_for(seconds(0)) ==
          std::future_status::timeout);  // the time-out does not run during a login
  }
  CHECK(answer.get().unreachable.find("the client was closed") != std::string::npos);
}

TEST_CASE("a redirect is not followed, so the other server gets no credential") {
  const Certificate authority = make_authority("cluster ca");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}));
  FakeServer other(make_certificate({"other", "IP:127.0.0.1", &authority}));
  std::atomic<int> visits = 0;
  other.http->Get(".*", [&](const auto&, auto& response) {
    ++visits;
    answer(response, 200, "{}");
  });
  const std::string there = other.start().server;
  server.http->Get(".*", [&](const auto&, auto& response) { response.set_redirect(there + "/x"); });
  Config config = server.start();
  config.ca_pem = authority.pem();
  config.token = "t";
  Client client(config);
  CHECK(client.send({.path = "/x"}).status == 302);
  CHECK_THROWS_AS(client.get({"", "v1", "pods", "Pod"}, "default", "a"), ApiError);
  CHECK(visits == 0);
}

TEST_CASE("the stderr of a plugin is shown while the plugin runs, and is not repeated in the error") {
  PluginScript script(
      "here=$(dirname \"$0\")\necho 'open this page' >&2\n"
      "while [ ! -e \"$here/told\" ]; do sleep 0.05; done\necho 'access denied' >&2\nexit 3\n");
  std::vector<std::string> said;
  PluginHost host;
  host.say = [&](const std::string& line) {
    said.push_back(line);
    script.folder.write("told", "");
  };
  const std::string problem = script.problem(host);
  has_part(problem, "failed with exit code 3");
  CHECK(problem.find("open this page") == std::string::npos);
  REQUIRE_FALSE(said.empty());
  CHECK(said.front() == "open this page");
  // The last line was either shown or is in the error, but not both.
  const bool told = std::count(said.begin(), said.end(), "access denied") == 1;
  CHECK(told != (problem.find(": access denied") != std::string::npos));
  CHECK(said.size() == (told ? 2 : 1));
}

TEST_CASE("credential_end() returns a time only if the plugin gave an expiry") {
  FakeServer server;
  server.http->Get(".*", [](const auto&, auto& response) { answer(response, 200, "{}"); });
  Config config = server.start();
  config.login = Login::exec;
  for (const bool tells : {true, false}) {
    PluginScript script("printf '%s' '" +
                        answer_with(tells ? R"({"token": "t", "expirationTimestamp": "2099-01-01T00:00:00Z"})"
                                          : R"({"token": "t"})") +
                        "'\n");
    config.exec = script.config.exec;
    Client client(config);
    CHECK_FALSE(client.credential_end().has_value());
    CHECK(client.send({.path = "/x"}).status == 200);
    CHECK(client.credential_end().has_value() == tells);
    if (tells) CHECK(mlk::format_time(*client.credential_end()) == "2099-01-01T00:00:00Z");
  }
}

TEST_CASE(
    "a line that a plugin prints in two pieces is shown whole, and is whole in the error if the plugin "
    "fails") {
  for (const bool fails : {false, true}) {
    PluginScript script(
        "here=$(dirname \"$0\")\nprintf 'wait\\nopen this ' >&2\n"
        "while [ ! -e \"$here/told\" ]; do sleep 0.05; done\nprintf 'page' >&2\n" +
        (fails ? "exit 3\n" : "printf '%s' '" + answer_with(R"({"token": "t"})") + "'\n"));
    std::vector<std::string> said;
    PluginHost host;
    host.say = [&](const std::string& line) {
      said.push_back(line);
      script.folder.write("told", "");
    };
    const std::string problem = script.problem(host);
    if (fails) {
      CHECK(said == std::vector<std::string>{"wait"});
      has_part(problem, "failed with exit code 3: open this page");
    } else {
      CHECK(problem == "ok");
      CHECK(said == std::vector<std::string>{"wait", "open this page"});
    }
  }
}
