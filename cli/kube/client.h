// A client of the Kubernetes REST API. One thread serves all requests of a client, over HTTP/2 if the server
// supports it.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/http/credential.h"
#include "cli/http/request.h"
#include "cli/http/server.h"
#include "cli/kube/login/exec_call.h"
#include "cli/kube/login/kubeconfig.h"
#include "cli/kube/resource.h"
#include "cli/util/error.h"

namespace mlk::kube {

// A failed request: an error of the server, an answer that mlk cannot use, or no answer. code(): not_found if
// the server's error has the status 404 and the reason NotFound; otherwise cluster.
class ApiError : public Error {
 public:
  ApiError(int status, std::string reason, const std::string& what, std::string hint = "");

  // The HTTP status. Without an answer: 401 if credentials are missing and a retry cannot help, otherwise 0.
  int status() const { return status_; }
  // "NotFound", "AlreadyExists", "Forbidden" ...; "Unreadable" or "TooLarge" for an answer that mlk cannot
  // use; "Unreachable" or "NoCredentials" if there was no answer.
  const std::string& reason() const { return reason_; }

 private:
  int status_;
  std::string reason_;
};

using http::Request;   // `path`: for example the result of path_of()
using http::Response;  // `warnings`: the warnings of the API server, for people

// A response, or the reason why there is no response. Callers that wait in another thread get failures as
// values, so that no exception crosses threads.
struct Answer {
  Response response;
  std::string unreachable{}, hint{};  // texts of the ApiError; empty when there was an answer
  int status = 0;                     // status of the ApiError

  [[nodiscard]] Response value() &&;  // throws that ApiError
};

struct ListOptions {
  std::string label_selector{};
  std::string field_selector{};
  bool metadata_only = false;  // PartialObjectMetadata: without spec, data and status
  // The maximum number of objects on the first page; callers set less if each object may be large. The size
  // of a page in bytes decides how many objects the next page may have.
  int first_page = 500;
  std::size_t enough = 0;  // request no further page after so many objects; 0: request all pages
  // True: the API server may answer from its cache, which may be a moment old. False: the server reads all
  // objects of the kind from its storage, even if the selectors match only a few.
  bool from_cache = false;
  // The client calls this function for each object that arrives. The function removes the fields that the
  // caller never reads, so that they take no memory. The function runs in the thread that lists or watches,
  // and must be quick.
  std::function<void(nlohmann::json&)> transform{};
};

struct ListResult;  // {std::vector<json> items; std::string resource_version;}, in cli/kube/objects.h

struct WriteOptions {
  bool dry_run = false;  // dryRun=All: checked by the server, not stored
};

// The stream of a watch, or of a log that mlk follows. The destructor ends the stream, and after this no
// callback runs.
class Stream {
 public:
  virtual ~Stream() = default;
};

struct StreamEnd {
  // The HTTP status; 0 if no whole answer came. 401 with an `error`: the client itself lacks credentials.
  int status = 0;
  std::string error;    // why there is no whole answer; empty if the answer came to its end
  std::string body;     // of an answer whose status is not 200; at most 64 KiB
  bool silent = false;  // the client abandoned the silent connection; a new one may work
};

// How a connection of its own reaches the server, with the credential that the server accepts. Secret.
struct Grant {
  http::ServerAccess server;
  http::CredentialPtr credential;
};

class Client {
 public:
  explicit Client(Config config, PluginHost host = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Config& config() const;
  // The expiry of the plugin's last credential; nullopt: there is no credential yet, or its expiry is
  // unknown.
  std::optional<Time> credential_end() const;

  // The functions below may be called from any thread, but never from a stream's callback. They throw
  // ApiError. cli/http/repeat.h decides which requests the client retries.

  // The resource of a kind, by the cluster's discovery; nullopt: the cluster does not serve the kind, or
  // objects of the kind cannot be created. The client asks once for each apiVersion.
  [[nodiscard]] std::optional<Resource> served(const std::string& api_version, const std::string& kind);
  nlohmann::json get(const Resource& resource, const std::string& name_space, const std::string& name);
  [[nodiscard]] std::optional<nlohmann::json> find(const Resource& resource, const std::string& name_space,
                                                   const std::string& name);
  ListResult list(const Resource& resource, const std::string& name_space, const ListOptions& options = {});
  // Sends fieldValidation=Strict and fieldManager=mlk. on_warning gets each warning of the server once.
  nlohmann::json create(const Resource& resource, const std::string& name_space, const nlohmann::json& object,
                        const WriteOptions& options = {});
  nlohmann::json patch(const Resource& resource, const std::string& name_space, const std::string& name,
                       const nlohmann::json& merge_patch);
  // Sends the patch and does not wait for the response; see ask().
  [[nodiscard]] std::future<Answer> ask_to_patch(const Resource& resource, const std::string& name_space,
                                                 const std::string& name, const nlohmann::json& merge_patch);
  // Deletes the object with background propagation. `uid`: delete only this incarnation; empty: any.
  void remove(const Resource& resource, const std::string& name_space, const std::string& name,
              const std::string& uid = "");

  // Both functions send any request unchanged, and return an answer with an error status like any other
  // answer. send() waits for the response. ask() does not wait, so that several requests can run at once. It
  // returns failures as values.
  Response send(const Request& request);
  [[nodiscard]] std::future<Answer> ask(const Request& request);

  // For requests that cannot go through the loop. The client first sends a small request, which renews a
  // refused credential as every request does.
  [[nodiscard]] Grant grant();

  // Calls `line` on the loop thread for each line of an answer with the status 200, as the line arrives; then
  // calls `ended` once. A line of more than 16 MiB ends the stream. If Request::longest_line is set, a longer
  // line loses its middle instead. When the head of the answer has come, `opened` gets the HTTP status,
  // unless it is 401. The callbacks must be quick. A stream may be destroyed in any thread, also in its own
  // callback; a stream that outlives the client makes no more calls.
  [[nodiscard]] std::unique_ptr<Stream> stream(const Request& request,
                                               std::function<void(std::string_view)> line,
                                               std::function<void(StreamEnd)> ended,
                                               std::function<void(int)> opened = {});

  std::function<void(const std::string&)> on_warning;

 private:
  nlohmann::json write(const Request& request, const std::string& what);

  struct State;
  std::unique_ptr<State> state_;
};

// Returns the parsed body of a good answer; throws the ApiError for any other answer.
nlohmann::json parse_response(const Response& response, const std::string& what);

}  // namespace mlk::kube
