#include "cli/local/state/events.h"

#include <algorithm>

#include "cli/local/state/metadata.h"
#include "cli/util/hash.h"
#include "cli/util/json_path.h"

namespace mlk::local {

void record_event(Store& store, const json& object, const std::string& component, const std::string& type,
                  const std::string& reason, const std::string& message, Time now) {
  try {
    const json& metadata = object.at("metadata");
    const std::string name_space = metadata.value("namespace", "default");
    const std::string time = format_time(now);
    // Equal events have the same name, so the name finds an existing equal event.
    const std::string name =
        metadata.at("name").get<std::string>().substr(0, 200) + "." +
        sha256_hex(metadata.value("uid", "") + "/" + reason + "/" + message).substr(0, 16);
    if (store.find("events", name_space, name)) {
      store.modify("events", name_space, name, [&](json& event) {
        event["count"] = event.value("count", 1) + 1;
        event["lastTimestamp"] = time;
      });
      return;
    }
    store.create(
        "events",
        {{"apiVersion", "v1"},
         {"kind", "Event"},
         {"metadata",
          {{"name", name}, {"namespace", name_space}, {"uid", new_uid()}, {"creationTimestamp", time}}},
         {"involvedObject",
          {{"kind", object.value("kind", "")},
           {"namespace", name_space},
           {"name", metadata.at("name")},
           {"uid", metadata.value("uid", "")},
           {"apiVersion", object.value("apiVersion", "")}}},
         {"reason", reason},
         {"message", message},
         {"type", type},
         {"count", 1},
         {"firstTimestamp", time},
         {"lastTimestamp", time},
         {"eventTime", nullptr},
         {"source", {{"component", component}}},
         {"reportingComponent", component},
         {"reportingInstance", "local"}});
  } catch (const std::exception&) {
    return;  // a full disk; the event may be lost, since the object's status has the important facts
  }
}

void expire_events(Store& store, Time now) {
  constexpr std::size_t most = 2000;
  std::vector<Object> events = store.list("events");
  const auto last_of = [](const Object& event) -> const std::string& {
    return text_of(*event, {"lastTimestamp"});
  };
  std::sort(events.begin(), events.end(),
            [&](const Object& a, const Object& b) { return last_of(a) < last_of(b); });
  const std::string oldest = format_time(now - std::chrono::hours(1));
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (last_of(events[i]) >= oldest && events.size() - i <= most) break;
    store.remove("events", namespace_of(*events[i]), name_of(*events[i]));
  }
}

}  // namespace mlk::local
