// A cluster inside the test: the embedded API over HTTP, with an empty store and no controllers. The test
// plays them, and may step between a request and its answer.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/local/api/api.h"
#include "cli/local/state/seed.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/local/samples.h"

namespace mlk::test {

class FakeCluster {
 public:
  using json = nlohmann::json;
  using Step = std::function<std::optional<local::Answer>(const local::Request&)>;

  FakeCluster() {
    local::seed(store, now());
    const auto take = [this](const httplib::Request& from, httplib::Response& to) { serve(from, to); };
    server_.http->Get(".*", take);
    server_.http->Post(".*", take);
    server_.http->Put(".*", take);
    server_.http->Patch(".*", take);
    server_.http->Delete(".*", take);
    config_ = server_.start();
    std::ofstream(kubeconfig()) << "{apiVersion: v1, kind: Config, current-context: test,\n"
                                   " contexts: [{name: test, context: {cluster: test, user: test}}],\n"
                                   " users: [{name: test, user: {}}],\n"
                                   " clusters: [{name: test, cluster: {server: '"
                                << config_.server << "'}}]}\n";
  }
  ~FakeCluster() { api_.stop(); }

  // Called before each request; what it returns is the answer instead of the API's.
  void before(Step step) {
    const std::lock_guard lock(mutex_);
    before_ = std::move(step);
  }
  const kube::Config& config() const { return config_; }
  std::string kubeconfig() const { return (folder_.path() / "kube config").string(); }

  // A request of the test itself; `before` does not see it.
  json ask(const std::string& method, const std::string& path, const json& body = nullptr,
           const std::string& type = "application/json") {
    local::Request request;
    request.method = method;
    request.path = path;
    if (!body.is_null()) request.body = body.dump();
    request.content_type = type;
    return json::parse(api_.handle(request).body);
  }
  bool has(const std::string& plural, const std::string& name) const {
    return store.find(plural, "default", name) != nullptr;
  }
  // All objects of these kinds by name, as one text that can be compared.
  std::string names(const std::string& plural) const {
    std::string all;
    for (const local::Object& object : store.list(plural, "default"))
      all += object->at("metadata").at("name").get<std::string>() + " ";
    return all;
  }

 private:
  static Time now() { return std::chrono::system_clock::now(); }

  void serve(const httplib::Request& from, httplib::Response& to) {
    local::Request request;
    request.method = from.method;
    request.path = from.path;
    for (const auto& [name, value] : from.params) request.query.emplace(name, value);
    request.content_type = from.get_header_value("Content-Type");
    request.accept = from.get_header_value("Accept");
    request.body = from.body;
    Step step;
    {
      const std::lock_guard lock(mutex_);
      step = before_;
    }
    std::optional<local::Answer> answer = step ? step(request) : std::nullopt;
    if (!answer) answer = api_.handle(request);
    to.status = answer->status;
    if (!answer->stream) return to.set_content(answer->body, answer->content_type);
    to.set_chunked_content_provider(
        answer->content_type, [this, stream = answer->stream](std::size_t, httplib::DataSink& sink) {
          stream({[&](std::string_view text) { return sink.write(text.data(), text.size()); },
                  [&] { return sink.is_writable() && !server_.stopping; }});
          sink.done();
          return true;
        });
  }

  local::samples::Folder folder_{local::samples::parent_of_small_files()};

 public:
  local::Store store{folder_.path() / "objects"};

 private:
  local::PodLogs logs_{folder_.path() / "pods"};
  local::Api api_{store, logs_, [] { return now(); }};
  std::mutex mutex_;
  Step before_;
  kube::Config config_;
  FakeServer server_;
};

// A Status of the API server, as an answer.
inline local::Answer refusal(int code, const std::string& reason, const std::string& message) {
  local::Answer answer;
  answer.status = code;
  answer.body = status_body(code, reason, message);
  return answer;
}

// The ConfigMap that owns a run, as submit makes it.
inline nlohmann::json owner_of(const std::string& run, const std::string& name = "x") {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata",
           {{"name", run},
            {"labels",
             {{"app.kubernetes.io/managed-by", "mlk"},
              {"mlk.dev/run", run},
              {"mlk.dev/name", name},
              {"mlk.dev/mode", "single"}}}}},
          {"data", {{"experiment", "{}"}}}};
}

// A Job of that run, as the cluster holds it while its pods run.
inline nlohmann::json job_of(const std::string& run, const std::string& role = "worker", int count = 1) {
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata",
           {{"name", run + "-" + role},
            {"labels", {{"mlk.dev/run", run}, {"mlk.dev/role", role}}},
            {"annotations", {{"mlk.dev/decides", "true"}}}}},
          {"spec",
           {{"completions", count},
            {"parallelism", count},
            {"completionMode", "Indexed"},
            {"backoffLimitPerIndex", 3},
            {"template",
             {{"metadata", {{"labels", {{"mlk.dev/run", run}, {"mlk.dev/role", role}}}}},
              {"spec",
               {{"restartPolicy", "Never"},
                {"containers", {{{"name", "main"}, {"image", "i"}, {"command", {"true"}}}}}}}}}}}};
}

// A pod of that Job, for Store::create().
inline nlohmann::json pod_of(const std::string& run, const std::string& phase,
                             const std::string& role = "worker", int rank = 0) {
  const std::string job = run + "-" + role;
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", job + "-" + std::to_string(rank) + "-abcde"},
            {"namespace", "default"},
            {"uid", "uid-of-" + job + std::to_string(rank)},
            {"creationTimestamp", format_time(std::chrono::system_clock::now())},
            {"labels", {{"mlk.dev/run", run}, {"mlk.dev/role", role}, {"batch.kubernetes.io/job-name", job}}},
            {"annotations", {{"batch.kubernetes.io/job-completion-index", std::to_string(rank)}}}}},
          {"spec", {{"nodeName", "n1"}, {"containers", {{{"name", "main"}, {"image", "i"}}}}}},
          {"status", {{"phase", phase}}}};
}

inline const std::string config_maps_path = "/api/v1/namespaces/default/configmaps";
inline const std::string jobs_path = "/apis/batch/v1/namespaces/default/jobs";
inline const std::string pods_path = "/api/v1/namespaces/default/pods";

}  // namespace mlk::test
