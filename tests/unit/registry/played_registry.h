// A registry that a test plays, over HTTP or TLS on this machine. The repositories are in memory. A test can
// set a handler that answers before the registry does.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <vector>

#include "cli/image/manifest.h"
#include "cli/registry/registry.h"
#include "cli/util/hash.h"
#include "tests/unit/kube/fake_server.h"
#include "tests/unit/util/temporary_folder.h"

class PlayedRegistry {
 public:
  using Request = httplib::Request;
  using Response = httplib::Response;
  // Returns true if it has answered the request. Called with the mutex locked, so for one request at a time.
  using Before = std::function<bool(const Request&, Response&)>;

  PlayedRegistry() : PlayedRegistry(std::make_unique<FakeServer>()) {}
  explicit PlayedRegistry(const Certificate& certificate)
      : PlayedRegistry(std::make_unique<FakeServer>(certificate)) {}
  explicit PlayedRegistry(std::unique_ptr<FakeServer> server) : server_(std::move(server)) {
    const auto serve = [this](const Request& request, Response& response) {
      const std::lock_guard lock(mutex);
      asked.push_back(request.method + " " + request.target);
      heads.push_back(request.headers);
      if (before && before(request, response)) return;
      answer_it(request, response);
    };
    server_->http->Get(".*", serve);
    server_->http->Post(".*", serve);
    server_->http->Put(".*", serve);
    server_->http->Patch(".*", serve);
    server_->http->Delete(".*", serve);
    server_->http->set_keep_alive_max_count(1000);
    url = server_->listen();
    name = url.substr(url.find("://") + 3);
  }

  mlk::image::Reference reference(const std::string& repository = "team/x",
                                  const std::string& tag = "1") const {
    return {.registry = name, .repository = repository, .tag = tag};
  }
  std::string add_blob(const std::string& repository, const std::string& bytes) {
    const std::lock_guard lock(mutex);
    const std::string digest = "sha256:" + mlk::sha256_hex(bytes);
    blobs[repository][digest] = bytes;
    return digest;
  }
  // The number of requests that begin with this text.
  int count(const std::string& start) {
    const std::lock_guard lock(mutex);
    int out = 0;
    for (const std::string& each : asked) out += each.starts_with(start) ? 1 : 0;
    return out;
  }

  // The first byte that the request wants. Clears `ranges`, because otherwise the library would cut the
  // answer a second time.
  std::size_t take_range(const Request& request) const {
    const_cast<Request&>(request).ranges.clear();
    const std::string range = request.get_header_value("Range");
    return knows_ranges && range.starts_with("bytes=") ? std::stoul(range.substr(6)) : 0;
  }

  std::mutex mutex;
  std::string url, name;
  Before before{};
  std::vector<std::string> asked;
  std::vector<httplib::Headers> heads;
  std::map<std::string, std::map<std::string, std::string>> blobs,
      manifests;  // both: by repository, and then by digest or tag
  std::map<std::string, std::string> sessions;
  bool knows_ranges = true;

 private:
  void answer_it(const Request& request, Response& response) {
    // "/v2/", the repository, the kind of content, and the name of the content
    static const std::regex shape("/v2/([a-z0-9/]+)/(blobs/uploads|blobs|manifests|tags)/(.*)");
    std::smatch parts;
    if (request.path == "/v2/") {
      response.status = 200;
    } else if (!std::regex_match(request.path, parts, shape)) {
      response.status = 404;
    } else if (parts[2] == "blobs") {
      give(blobs[parts[1]], parts[3], request, response);
    } else if (parts[2] == "manifests") {
      manifest(parts[1], parts[3], request, response);
    } else if (parts[2] == "blobs/uploads") {
      upload(parts[1], parts[3], request, response);
    } else {
      response.status = 404;
    }
  }

  void give(const std::map<std::string, std::string>& from, const std::string& which, const Request& request,
            Response& response) {
    const auto found = from.find(which);
    response.status = found == from.end() ? 404 : 200;
    if (found == from.end()) return;
    response.set_header("Docker-Content-Digest", "sha256:" + mlk::sha256_hex(found->second));
    const std::size_t from_byte = take_range(request);
    if (from_byte > 0) response.status = from_byte < found->second.size() ? 206 : 416;
    response.set_content(response.status == 416 ? "" : found->second.substr(from_byte),
                         mlk::image::oci_types.manifest);
  }

  void manifest(const std::string& repository, const std::string& which, const Request& request,
                Response& response) {
    std::map<std::string, std::string>& here = manifests[repository];
    if (request.method == "PUT") {
      here[which] = here["sha256:" + mlk::sha256_hex(request.body)] = request.body;
      response.status = 201;
    } else if (request.method == "DELETE") {
      response.status = here.erase(which) > 0 ? 202 : 404;
    } else {
      give(here, which, request, response);
    }
  }

  void begin(const std::string& repository, const Request& request, Response& response) {
    const std::string from = request.get_param_value("from"), digest = request.get_param_value("mount");
    if (blobs[from].contains(digest)) {
      blobs[repository][digest] = blobs[from][digest];
      response.status = 201;
      return;
    }
    const std::string session = std::to_string(++begun_);
    sessions[session] = "";
    response.status = 202;
    response.set_header("Location", "/v2/" + repository + "/blobs/uploads/" + session + "?state=a");
  }

  void upload(const std::string& repository, const std::string& session, const Request& request,
              Response& response) {
    if (request.method == "POST") return begin(repository, request, response);
    const auto found = sessions.find(session);
    response.status = 404;
    if (found == sessions.end()) return;
    std::string& bytes = found->second;
    response.set_header("Location", "/v2/" + repository + "/blobs/uploads/" + session + "?state=b");
    if (request.method == "GET") {
      response.status = 204;
    } else if (request.method == "PATCH") {
      const std::string range = request.get_header_value("Content-Range");
      const bool fits = range.starts_with(std::to_string(bytes.size()) + "-");
      if (fits) bytes += request.body;
      response.status = fits ? 202 : 416;
    } else {
      bytes += request.body;
      const bool same = "sha256:" + mlk::sha256_hex(bytes) == request.get_param_value("digest");
      if (same) blobs[repository][request.get_param_value("digest")] = bytes;
      response.status = same ? 201 : 400;
      sessions.erase(found);
      return;
    }
    response.set_header("Range", "0-" + std::to_string(bytes.empty() ? 0 : bytes.size() - 1));
  }

  int begun_ = 0;
  std::unique_ptr<FakeServer> server_;
};

// Access with a login for this registry: user "me", password "secret".
struct LoggedIn {
  TemporaryFolder folder;
  mlk::registry::Access access;

  explicit LoggedIn(const PlayedRegistry& played) {
    access.login_files = {folder.write("config.json", R"({"auths":{")" + played.name + R"(":{"auth":")" +
                                                          mlk::base64_encode("me:secret") + R"("}}})")};
  }
};
