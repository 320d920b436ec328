// A local copy of the objects that match a selector. The reflector lists the objects, then watches them; it
// resumes a broken watch, and lists again after 410 Gone. It works like client-go's Reflector (back-off from
// 0.8 s, doubling up to 30 s, with jitter; watches of 5 to 10 minutes; bookmarks).
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"

namespace mlk::kube {

// The time limits of a reflector. Only tests set other values than these.
struct ReflectorTimes {
  std::chrono::milliseconds first_wait{800},
      longest_wait{30'000};  // the wait after a failure; doubles each time; the jitter is a factor of 1 to 2
  std::chrono::milliseconds calm{120'000};     // after this time without failures: first_wait again
  std::chrono::milliseconds silence{180'000};  // a watch that sends no event in this time is reopened
  std::chrono::milliseconds answer{30'000};    // for a whole page of a list
  std::chrono::milliseconds head{10'000};      // for the head of a watch's answer
  // During this time, a 403 is not final: after its start, an API server refuses everything until it has
  // read the roles.
  std::chrono::milliseconds refusal{30'000};
};

class Reflector {
 public:
  // `changed` runs on the reflector's thread after every list, after one or more events of a watch, and after
  // every failure. It does not run if a failure ends because a new watch begins. `removed` gets the last
  // state of each object that a watch reports as deleted, even if objects() never returned that state. Both
  // functions must be quick. The client must outlive the reflector.
  Reflector(Client& client, Resource resource, std::string name_space, ListOptions options,
            std::function<void()> changed, ReflectorTimes times = {},
            std::function<void(const json&)> removed = {});
  ~Reflector();  // no callback runs after it
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  bool synced() const;                // the first list has arrived
  std::vector<json> objects() const;  // a copy, sorted by namespace and name
  // The reason why the copy is not current (unreachable, forbidden ...); null while there is no failure, also
  // before the first list has come. The reflector retries after every failure except 401, 403 and 404, which
  // are final. A 403 after a successful watch becomes final only after ReflectorTimes::refusal; until then
  // the status of the error is 0.
  std::exception_ptr failure() const;
  std::chrono::milliseconds failing_for() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk::kube
