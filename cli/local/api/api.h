// The REST API of the embedded cluster, without sockets: takes a request, gives an answer.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "cli/local/api/view.h"
#include "cli/local/node/pod_log.h"
#include "cli/local/state/kinds.h"
#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

struct Request {
  std::string method = "GET";
  std::string path;
  std::map<std::string, std::string> query;
  std::string body;
  std::string content_type = "application/json";
  std::string accept = "application/json";

  std::string parameter(const std::string& name) const {
    const auto found = query.find(name);
    return found == query.end() ? "" : found->second;
  }
  bool flag(const std::string& name) const { return parameter(name) == "true" || parameter(name) == "1"; }
};

// The client that receives a stream. Both functions return false when the client has gone.
struct Sink {
  std::function<bool(std::string_view)> write;
  std::function<bool()> alive;
};

struct Answer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  std::string warning{};                      // for the header Warning: 299
  std::function<void(const Sink&)> stream{};  // instead of the body, if set
};

Answer json_answer(const nlohmann::json& value, int status = 200);

// Thread-safe.
class Api {
 public:
  Api(Store& store, PodLogs& logs, std::function<Time()> now)
      : store_(store), logs_(logs), now_(std::move(now)) {}

  Answer handle(const Request& request);
  void stop();  // ends all streams

 private:
  // The object or collection that a path names.
  struct Target {
    const Kind* kind;
    std::string name_space;
    std::string name;
    std::string sub;
  };
  static Target parse_target(const std::string& path);

  Answer dispatch(const Request& request);
  Answer review(const Request& request);
  Answer list(const Request& request, const Target& target);
  Answer watch(const Request& request, const Target& target);
  Answer log(const Request& request, const Target& target);
  Answer create(const Request& request, const Target& target);
  Answer replace(const Request& request, const Target& target);
  Answer patch(const Request& request, const Target& target);
  Answer remove(const Request& request, const Target& target);
  Answer remove_all(const Request& request, const Target& target);

  Answer change(const Request& request, const Target& target, const std::function<json(const json&)>& edit);
  json remove_object(const Target& target, const json& options, bool dry_run);
  void orphan_dependents(const std::string& uid);
  // Removes unknown fields. They are an error with fieldValidation=Strict, are ignored with Ignore, and
  // otherwise give a warning.
  json strict(const Request& request, const Kind& kind, json object, std::string& warning) const;
  Answer answer(const Request& request, const Kind& kind, const json& object, int status = 200) const;

  Store& store_;
  PodLogs& logs_;
  const std::function<Time()> now_;
  std::atomic<bool> stopping_{false};
};

// A watch as a stream, in api_watch.cpp. `revision`: the last version that the client has seen. With "" or
// "0", or with `initial_events`, the stream begins with all existing objects.
struct WatchOptions {
  std::string label_selector, field_selector, revision;
  bool bookmarks = false;
  bool initial_events = false;
  std::chrono::seconds timeout{3600};
  View view = View::object;
};
void stream_watch(const Store& store, const Kind& kind, const std::string& name_space,
                  const WatchOptions& options, const std::function<Time()>& now, const Sink& sink);

}  // namespace mlk::local
