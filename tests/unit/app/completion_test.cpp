// The completions that a shell gets while a command line is typed.

#include <fstream>

#include <doctest/doctest.h>

#include "tests/unit/app/tree.h"
#include "tests/unit/fake_cluster.h"

TEST_SUITE_BEGIN("app/completion");

namespace {

using mlk::test::FakeCluster;
using mlk::test::Tree;
using nlohmann::json;

std::string complete(std::vector<std::string> words, const std::map<std::string, std::string>& env = {}) {
  Tree tree;
  tree.env = env;
  words.insert(words.begin(), "__complete");
  CHECK(tree.run(words) == 0);
  CHECK(tree.err.str().empty());
  return tree.out.str();
}

}  // namespace

TEST_CASE("completion offers the commands, flags and values that begin with the typed text") {
  CHECK(complete({"sub"}) == "submit\n");
  CHECK(complete({"completion", "z"}) == "zsh\n");
  CHECK(complete({"submit", "--dry"}) == "--dry-run\n");
  CHECK(complete({"render", "-o", "j"}) == "json\n");
  CHECK(complete({"render", "--output=j"}) == "--output=json\n");
  CHECK(complete({"render", "--output", "=", "j"}) == "json\n");
  CHECK(complete({"logs", "--local", "--fo"}) == "--follow\n");
  CHECK(complete({"submit", ""}) == ":files\n");
}

TEST_CASE("completion offers files only for arguments that are files") {
  const std::string files = ":files\n";
  CHECK(complete({"--kubeconfig", ""}) == files);
  CHECK(complete({"report", "-o", ""}) == files);
  CHECK(complete({"submit", "--allow-files", ""}) == files);
  CHECK(complete({"submit", "--local", "--volume", "data="}) == files);
  CHECK(complete({"sweep", "--trials", "3", ""}) == files);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--context", ""},
                                             {"-n", ""},
                                             {"ls", ""},
                                             {"ls", "--tag", ""},
                                             {"ls", "--where="},
                                             {"wait", "--timeout", ""},
                                             {"sweep", "--trials", ""},
                                             {"sweep", "x.yaml", ""},
                                             {"submit", "x.yaml", ""},
                                             {"submit", "-e", ""},
                                             {"version", ""}})
    CHECK_MESSAGE(complete(words).empty(), words.front(), words.back());
  CHECK(complete({"submit", "--dry-run=s"}) == "--dry-run=server\n");
  CHECK(complete({"templates", "p"}) == "ps\n");
}

TEST_CASE("completion offers the runs of the cluster and the namespace that the typed flags select") {
  FakeCluster cluster;
  cluster.ask("POST", mlk::test::config_maps_path, mlk::test::owner_of("digits-abcde"));
  cluster.ask("POST", mlk::test::config_maps_path, mlk::test::owner_of("mnist-fghij"));
  cluster.ask("POST", "/api/v1/namespaces",
              {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", "team"}}}});
  cluster.ask("POST", "/api/v1/namespaces/team/configmaps", mlk::test::owner_of("theirs-klmno"));
  const std::string file = cluster.kubeconfig();
  CHECK(complete({"--kubeconfig", file, "status", ""}) == "digits-abcde\nmnist-fghij\n");
  CHECK(complete({"--kubeconfig", file, "ls", "--sweep", "d"}) == "digits-abcde\n");
  CHECK(complete({"--kubeconfig", file, "logs", "digits-abcde", ""}).empty());
  CHECK(complete({"--kubeconfig", file, "stop", "digits-abcde", "m"}) == "mnist-fghij\n");
  CHECK(complete({"status", "--kubeconfig", file, "mn"}) == "mnist-fghij\n");
  CHECK(complete({"delete", "digits-abcde", "--kubeconfig=" + file, "d"}) == "digits-abcde\n");
  CHECK(complete({"--kubeconfig", file, "logs", "-n", "team", ""}) == "theirs-klmno\n");
  CHECK(complete({"--kubeconfig", file, "logs", "--namespace", "=", "team", ""}) == "theirs-klmno\n");
  CHECK(complete({"--kubeconfig", file, "--context", "test", "wait", "d"}) == "digits-abcde\n");
  CHECK(complete({"--kubeconfig", file, "--context", "other", "wait", "d"}).empty());
  CHECK(complete({"--kubeconfig", file, "wait", "d"}, {{"MLK_LOCAL", "1"}}) == "digits-abcde\n");
}

TEST_CASE("completion prints nothing if the cluster does not answer or refuses the request") {
  FakeCluster cluster;
  cluster.before([](const auto&) { return mlk::test::refusal(403, "Forbidden", "no"); });
  CHECK(complete({"--kubeconfig", cluster.kubeconfig(), "status", ""}).empty());
  CHECK(complete({"--kubeconfig", "/nowhere", "status", ""}).empty());
}

TEST_CASE("completion does not wait for a slow credential plugin") {
  const Certificate authority = make_authority("authority");
  FakeServer server(
      make_certificate({"server", "IP:127.0.0.1", &authority}));  // mlk sends no credential over plain http
  server.http->Get(".*", [](const httplib::Request&, httplib::Response& response) {
    answer(response, 200, json{{"items", {mlk::test::owner_of("digits-abcde")}}}.dump());
  });
  const mlk::local::samples::Folder folder;
  const std::string file = folder.path() / "config";
  const std::string address = server.start().server;
  const auto with_plugin = [&](const std::string& script) {
    const json answered = {{"apiVersion", "client.authentication.k8s.io/v1"},
                           {"kind", "ExecCredential"},
                           {"status", {{"token", "t"}}}};
    const json plugin = {{"apiVersion", "client.authentication.k8s.io/v1"},
                         {"interactiveMode", "Never"},
                         {"command", "sh"},
                         {"args", {"-c", script + "; echo \"$ANSWER\""}},
                         {"env", {{{"name", "ANSWER"}, {"value", answered.dump()}}}}};
    const json named = {{"name", "test"}};
    json context = named, user = named, cluster = named;
    context["context"] = {{"cluster", "test"}, {"user", "test"}};
    user["user"]["exec"] = plugin;
    cluster["cluster"] = {{"server", address}, {"insecure-skip-tls-verify", true}};
    std::ofstream(file) << json{{"apiVersion", "v1"},    {"kind", "Config"}, {"current-context", "test"},
                                {"contexts", {context}}, {"users", {user}},  {"clusters", {cluster}}};
    return complete({"--kubeconfig", file, "status", ""});
  };
  CHECK(with_plugin("true") == "digits-abcde\n");
  CHECK(with_plugin("sleep 5").empty());
}

TEST_CASE("the keys of --set are completed part by part") {
  CHECK(complete({"submit", "--set", "train.opt"}) == "train.optimizer.\n");
  CHECK(complete({"submit", "--set", "train.optimizer.mom"}) == "train.optimizer.momentum=\n");
  CHECK(complete({"submit", "--set=train.pre"}) == "--set=train.precision=\n");
  CHECK(complete({"render", "--set", "wor"}) == "workdir=\nworkers.\n");
  CHECK(complete({"render", "--set", "data.0.mo"}) == "data.0.mount=\n");
  CHECK(complete({"render", "--set", "sw"}) == "sweep.\n");
  CHECK(complete({"render", "--set", "scheduling.q"}).empty());
}
