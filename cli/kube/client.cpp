#include "cli/kube/client.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/http/loop.h"
#include "cli/kube/discovery.h"
#include "cli/kube/failure.h"
#include "cli/kube/list.h"
#include "cli/kube/login/cluster_login.h"
#include "cli/kube/objects.h"
#include "cli/util/json_path.h"

namespace mlk::kube {
namespace {

ExitCode exit_code_for(int status, const std::string& reason) {
  return status == 404 && reason == "NotFound" ? ExitCode::not_found : ExitCode::cluster;
}

class LoopStream : public Stream {
 public:
  LoopStream(std::shared_ptr<http::Loop> loop, std::shared_ptr<http::Transfer> transfer)
      : loop_(std::move(loop)), transfer_(std::move(transfer)) {}
  ~LoopStream() override { loop_->cancel(transfer_); }

 private:
  std::shared_ptr<http::Loop> loop_;
  std::shared_ptr<http::Transfer> transfer_;
};

json object_of(const Response& response, const std::string& what, const Config& config) {
  json object = parse_answer(response, what, &config);
  repair(object);
  return object;
}

// The path of one object. Refuses an empty name, because a path without a name means all objects of the kind,
// and a DELETE would delete them all.
std::string path_of_one(const Resource& resource, const std::string& name_space, const std::string& name) {
  if (name.empty()) throw Error(ExitCode::usage, "no name is given for one of the " + resource.plural);
  return path_of(resource, name_space, name);
}

// A merge patch is idempotent, so it may be sent twice. But if it has a resourceVersion, the server refuses
// the second copy.
Request patch_request(const Resource& resource, const std::string& name_space, const std::string& name,
                      const json& patch) {
  return {.method = "PATCH",
          .path = path_of_one(resource, name_space, name),
          .query = {{"fieldManager", "mlk"}, {"fieldValidation", "Strict"}},
          .body = patch.dump(),
          .content_type = "application/merge-patch+json",
          .twice = text_of(patch, {"metadata", "resourceVersion"}).empty()};
}

}  // namespace

ApiError::ApiError(int status, std::string reason, const std::string& what, std::string hint)
    : Error(exit_code_for(status, reason), what, std::move(hint)),
      status_(status),
      reason_(std::move(reason)) {}

struct Client::State {
  std::shared_ptr<http::Loop> loop;  // a stream may own the stopped loop longer than the client does
  ClusterLogin* login = nullptr;     // the loop owns it
  std::mutex mutex;
  std::set<std::string> warned;                         // guarded by the mutex
  std::map<std::string, std::vector<Resource>> served;  // the key is the apiVersion; guarded by the mutex

  // Returns the warnings of this response that no earlier response had.
  std::vector<std::string> new_warnings(const Response& response) {
    const std::lock_guard lock(mutex);
    std::vector<std::string> fresh;
    for (const std::string& warning : response.warnings) {
      if (warned.insert(warning).second) fresh.push_back(warning);
    }
    return fresh;
  }
};

Client::Client(Config config, PluginHost host) : state_(std::make_unique<State>()) {
  auto login = std::make_unique<ClusterLogin>(std::move(config), std::move(host));
  state_->login = login.get();
  state_->loop = std::make_shared<http::Loop>(server_of(login->config()), std::move(login));
}

Client::~Client() { state_->loop->stop(); }

const Config& Client::config() const { return state_->login->config(); }

std::optional<Time> Client::credential_end() const { return state_->login->credential_end(); }

Response Answer::value() && {
  if (!unreachable.empty()) throw ApiError(status, "Unreachable", unreachable, std::move(hint));
  return std::move(response);
}

std::future<Answer> Client::ask(const Request& request) {
  auto promise = std::make_shared<std::promise<Answer>>();
  auto transfer = std::make_shared<http::Transfer>(request);
  // The loop owns the configuration and outlives its transfers, so the callback may use the configuration.
  transfer->done = [promise, config = &config()](Response& response, const Failure& failure) {
    Answer answer{std::move(response)};
    if (failure.kind != Failure::Kind::none) {
      const ApiError error = unreachable_error(failure, *config);
      answer.unreachable = error.what();
      answer.hint = error.hint();
      answer.status = error.status();
    }
    promise->set_value(std::move(answer));
  };
  std::future<Answer> answer = promise->get_future();
  state_->loop->add(transfer);
  return answer;
}

Response Client::send(const Request& request) { return ask(request).get().value(); }

Grant Client::grant() {
  struct Accepted {
    Failure failure;
    int status;
    http::CredentialPtr credential;
  };
  http::ServerAccess server = server_of(config());
  auto promise = std::make_shared<std::promise<Accepted>>();
  auto transfer = std::make_shared<http::Transfer>(Request{.path = server.check_path});
  // The loop holds the transfer while `done` runs.
  transfer->done = [promise, used = &transfer->credential](Response& response, const Failure& failure) {
    promise->set_value({failure, response.status, *used});
  };
  std::future<Accepted> answer = promise->get_future();
  state_->loop->add(transfer);
  Accepted accepted = answer.get();
  if (accepted.failure.kind != Failure::Kind::none) throw unreachable_error(accepted.failure, config());
  if (accepted.status == 401) throw status_error(accepted.status, "", "", &config());
  return {std::move(server), std::move(accepted.credential)};
}

std::unique_ptr<Stream> Client::stream(const Request& request, std::function<void(std::string_view)> line,
                                       std::function<void(StreamEnd)> ended,
                                       std::function<void(int)> opened) {
  auto transfer = std::make_shared<http::Transfer>(request);
  transfer->line = std::move(line);
  transfer->opened = std::move(opened);
  transfer->done = [ended = std::move(ended), config = &config()](Response& response,
                                                                  const Failure& failure) {
    if (!ended) return;
    if (failure.kind == Failure::Kind::none) return ended({response.status, "", response.body});
    const ApiError error = unreachable_error(failure, *config);
    ended({error.status(), error.what(), "", failure.kind == Failure::Kind::silent});
  };
  state_->loop->add(transfer);
  return std::make_unique<LoopStream>(state_->loop, std::move(transfer));
}

std::optional<Resource> Client::served(const std::string& api_version, const std::string& kind) {
  const auto find_in = [&](const std::vector<Resource>& resources) -> std::optional<Resource> {
    const auto found = std::find_if(resources.begin(), resources.end(),
                                    [&](const Resource& resource) { return resource.kind == kind; });
    return found == resources.end() ? std::nullopt : std::optional(*found);
  };
  {
    const std::lock_guard lock(state_->mutex);
    if (const auto known = state_->served.find(api_version); known != state_->served.end())
      return find_in(known->second);
  }
  const Response response = send({.path = discovery_path(api_version)});
  std::vector<Resource> resources;
  if (response.status != 404)  // 404: the cluster does not serve this apiVersion
    resources = resources_in(parse_answer(response, "the kinds of " + api_version, &config()), api_version);
  const std::lock_guard lock(state_->mutex);
  return find_in(state_->served[api_version] = std::move(resources));
}

json Client::get(const Resource& resource, const std::string& name_space, const std::string& name) {
  const Response response = send({.path = path_of_one(resource, name_space, name)});
  return object_of(response, describe(resource, name_space, name), config());
}

std::optional<json> Client::find(const Resource& resource, const std::string& name_space,
                                 const std::string& name) {
  try {
    return get(resource, name_space, name);
  } catch (const ApiError& error) {
    if (error.code() == ExitCode::not_found) return std::nullopt;
    throw;
  }
}

ListResult Client::list(const Resource& resource, const std::string& name_space, const ListOptions& options) {
  return list_pages([this](const Request& request) { return send(request); }, resource, name_space, options,
                    &config());
}

// Sends a request that writes an object. Returns the object from the answer.
json Client::write(const Request& request, const std::string& what) {
  const Response response = send(request);
  if (on_warning) {
    for (const std::string& warning : state_->new_warnings(response)) on_warning(warning);
  }
  return object_of(response, what, config());
}

json Client::create(const Resource& resource, const std::string& name_space, const json& object,
                    const WriteOptions& options) {
  Request request{.method = "POST",
                  .path = path_of(resource, name_space),
                  .query = {{"fieldManager", "mlk"}, {"fieldValidation", "Strict"}},
                  .body = object.dump()};
  if (options.dry_run) request.query.emplace_back("dryRun", "All");
  return write(request, describe(resource, name_space, name_of(object)));
}

std::future<Answer> Client::ask_to_patch(const Resource& resource, const std::string& name_space,
                                         const std::string& name, const json& patch) {
  return ask(patch_request(resource, name_space, name, patch));
}

json Client::patch(const Resource& resource, const std::string& name_space, const std::string& name,
                   const json& patch) {
  return write(patch_request(resource, name_space, name, patch), describe(resource, name_space, name));
}

void Client::remove(const Resource& resource, const std::string& name_space, const std::string& name,
                    const std::string& uid) {
  json body = {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"propagationPolicy", "Background"}};
  if (!uid.empty()) body["preconditions"] = {{"uid", uid}};
  const Response response =
      send({.method = "DELETE", .path = path_of_one(resource, name_space, name), .body = body.dump()});
  parse_answer(response, describe(resource, name_space, name), &config());
}

json parse_response(const Response& response, const std::string& what) {
  return parse_answer(response, what, nullptr);
}

}  // namespace mlk::kube
