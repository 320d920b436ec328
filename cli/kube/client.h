// A client of the Kubernetes REST API: one loop thread, HTTP/2, every request bounded in time and size.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/http/request.h"
#include "cli/kube/login/exec_call.h"
#include "cli/kube/login/kubeconfig.h"
#include "cli/kube/resource.h"
#include "cli/util/error.h"

namespace mlk::kube {

// What the server answered with `kind: Status`, or what kept us from an answer.
// code(): not_found for 404 of an object; otherwise cluster.
class ApiError : public Error {
 public:
  ApiError(int status, std::string reason, const std::string& what, std::string hint = "");

  int status() const { return status_; }  // HTTP status; 0 when there was no answer at all
  const std::string& reason() const {
    return reason_;
  }  // "NotFound", "AlreadyExists", "Forbidden", "Invalid" ...; "Unreachable" at status 0

 private:
  int status_;
  std::string reason_;
};

using http::Request;   // its path: as path_of() makes it
using http::Response;  // its warnings: of the API server, for people

// An answer, or why there is none: for those who wait in another thread, as no exception crosses threads.
struct Answer {
  Response response;
  std::string unreachable{}, hint{};  // the texts of the ApiError; empty when there was an answer
  int status = 0;                     // its status

  [[nodiscard]] Response value() &&;  // throws that ApiError
};

struct ListOptions {
  std::string label_selector{};
  std::string field_selector{};
  bool metadata_only = false;  // PartialObjectMetadata: without spec, data and status
  int first_page = 500;    // objects; fewer where each may be large. Later pages follow the size of theirs
  std::size_t enough = 0;  // no further page once there are so many; 0: all
  // What the API server has in memory will do, which may be a moment old. Else it reads all objects of the
  // kind, whatever is selected.
  bool from_cache = false;
  // Takes out of each object, as it arrives, what the caller never looks at: of many objects only the rest is
  // held. Called in the thread that lists or watches; must be quick.
  std::function<void(nlohmann::json&)> transform{};
};

struct ListResult;  // {std::vector<json> items; std::string resource_version;}, in cli/kube/objects.h

struct WriteOptions {
  bool dry_run = false;  // dryRun=All: checked by the server, not stored
};

struct DeleteOptions {
  std::string uid{};                       // delete only this incarnation; empty: any
  std::string propagation = "Background";  // Background | Foreground | Orphan
  std::optional<int> grace_seconds{};
};

enum class PatchType { merge, json_patch, strategic, apply };

// A watch or a log being followed. Destroying it stops it; no callback runs after that.
class Stream {
 public:
  virtual ~Stream() = default;
};

struct StreamEnd {
  int status = 0;       // HTTP status; 0 when the connection broke, 401 with `error` when there is no login
  std::string error;    // empty when the server closed in good order
  std::string body;     // of an answer that was not 200, bounded
  bool silent = false;  // its connection was left, since nothing came: nothing is wrong with the next one
};

class Client {
 public:
  explicit Client(Config config, PluginHost host = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Config& config() const;
  // Until when the credential is good that a plugin gave last; nullopt: none yet, or it did not say.
  std::optional<Time> credential_end() const;

  // All of these are safe from any thread, but never from within a stream's callback. They throw ApiError.
  // Which requests are repeated: cli/http/repeat.h.
  // The resource of a kind, by the cluster's discovery; nullopt: the cluster does not serve it, or nobody can
  // create its objects. Asked for once.
  [[nodiscard]] std::optional<Resource> served(const std::string& api_version, const std::string& kind);
  nlohmann::json get(const Resource& resource, const std::string& name_space, const std::string& name);
  [[nodiscard]] std::optional<nlohmann::json> find(const Resource& resource, const std::string& name_space,
                                                   const std::string& name);
  ListResult list(const Resource& resource, const std::string& name_space, const ListOptions& options = {});
  // fieldValidation=Strict, fieldManager=mlk. Warnings of the server go to on_warning once each.
  nlohmann::json create(const Resource& resource, const std::string& name_space, const nlohmann::json& object,
                        const WriteOptions& options = {});
  nlohmann::json patch(const Resource& resource, const std::string& name_space, const std::string& name,
                       const nlohmann::json& patch, PatchType type = PatchType::merge);
  // A merge patch beside other requests; see ask().
  [[nodiscard]] std::future<Answer> ask_to_patch(const Resource& resource, const std::string& name_space,
                                                 const std::string& name, const nlohmann::json& patch);
  void remove(const Resource& resource, const std::string& name_space, const std::string& name,
              const DeleteOptions& options = {});

  // Any request, as it is. Statuses over 399 are no errors here. send() waits; ask() is for several at once,
  // and has failures as values.
  Response send(const Request& request);
  [[nodiscard]] std::future<Answer> ask(const Request& request);

  // Lines of the body as they come, on the loop thread; then `ended` once. A line is at most 16 MiB. `opened`
  // gets the HTTP status when the head of the answer has come. The callbacks must be quick. A stream may be
  // destroyed in any thread, also in its own callback; one that outlives the client is silent from then on.
  [[nodiscard]] std::unique_ptr<Stream> stream(const Request& request,
                                               std::function<void(std::string_view)> line,
                                               std::function<void(StreamEnd)> ended,
                                               std::function<void(int)> opened = {});

  std::function<void(const std::string&)> on_warning;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws the ApiError that a Status body means; returns the parsed body of a good answer.
nlohmann::json parse_response(const Response& response, const std::string& what);

}  // namespace mlk::kube
