// Watches: the existing objects if the client asks for them, then each change, as one JSON object per line.
#include <algorithm>
#include <charconv>

#include "cli/local/api/api.h"
#include "cli/local/api/selector.h"

namespace mlk::local {
namespace {

using std::chrono::steady_clock;

// How often a watch without changes checks whether its client is still connected.
constexpr std::chrono::seconds look_interval{2};
constexpr std::chrono::seconds bookmark_interval{60};

class Watch {
 public:
  Watch(const Kind& kind, const std::string& name_space, const WatchOptions& options,
        const std::function<Time()>& now, const Sink& sink)
      : kind_(kind),
        name_space_(name_space),
        options_(options),
        now_(now),
        sink_(sink),
        labels_(options.label_selector),
        fields_(options.field_selector, kind) {}

  bool send_line(const char* type, json object) {
    return sink_.write(json{{"type", type}, {"object", std::move(object)}}.dump() + "\n");
  }
  bool send(const char* type, const json& object) {
    return send_line(type, show(kind_, object, options_.view, now_()));
  }
  bool send_bookmark(std::uint64_t revision, bool after_initial_events) {
    json metadata = {{"resourceVersion", std::to_string(revision)}, {"creationTimestamp", nullptr}};
    if (after_initial_events) metadata["annotations"]["k8s.io/initial-events-end"] = "true";
    return send_line("BOOKMARK",
                     {{"kind", kind_.kind}, {"apiVersion", kind_.api_version()}, {"metadata", metadata}});
  }

  bool wants(const json& object) const {
    return (name_space_.empty() || object.at("metadata").value("namespace", "") == name_space_) &&
           labels_.matches(object) && fields_.matches(object);
  }

  // To the client, an object is added when it begins to match the selectors, and is deleted when it no longer
  // matches.
  bool send_change(const Change& change) {
    const bool before = change.before && wants(*change.before);
    const bool after = change.type != Change::Type::deleted && wants(*change.object);
    if (after) return send(before ? "MODIFIED" : "ADDED", *change.object);
    return !before || send("DELETED", *change.object);
  }

 private:
  const Kind& kind_;
  const std::string& name_space_;
  const WatchOptions& options_;
  const std::function<Time()>& now_;
  const Sink& sink_;
  const LabelSelector labels_;
  const FieldSelector fields_;
};

}  // namespace

void stream_watch(const Store& store, const Kind& kind, const std::string& name_space,
                  const WatchOptions& options, const std::function<Time()>& now, const Sink& sink) {
  Watch watch(kind, name_space, options, now, sink);
  const auto end = steady_clock::now() + options.timeout;
  std::uint64_t revision = 0;
  const bool from_start = options.revision.empty() || options.revision == "0" || options.initial_events;
  if (from_start) {
    const Store::Snapshot snapshot = store.snapshot(kind.plural, name_space);
    for (const Object& object : snapshot.objects) {
      if (watch.wants(*object) && !watch.send("ADDED", *object)) return;
    }
    revision = snapshot.revision;
    if (options.initial_events && !watch.send_bookmark(revision, true)) return;
  } else {
    std::from_chars(options.revision.data(), options.revision.data() + options.revision.size(), revision);
  }
  auto next_bookmark = steady_clock::now() + bookmark_interval;
  try {
    while (sink.alive() && steady_clock::now() < end) {
      for (const Change& change :
           store.changes_after(revision, kind.plural, std::min(end, steady_clock::now() + look_interval))) {
        if (!watch.send_change(change)) return;
      }
      if (options.bookmarks && steady_clock::now() >= next_bookmark) {
        if (!watch.send_bookmark(revision, false)) return;
        next_bookmark = steady_clock::now() + bookmark_interval;
      }
    }
    if (options.bookmarks) watch.send_bookmark(revision, false);
  } catch (const StatusError& error) {
    watch.send_line("ERROR", error.status());
  }
}

}  // namespace mlk::local
