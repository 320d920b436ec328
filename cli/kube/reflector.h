// A local copy of the objects that match a selector: list, then watch, resume after breaks, list anew after
// 410 Gone. After client-go's Reflector (back-off 0.8 s doubling to 30 s with jitter; watches of 5 to 10
// minutes; bookmarks).
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"

namespace mlk::kube {

// The bounds of its patience; other values are for tests.
struct ReflectorTimes {
  std::chrono::milliseconds first_wait{800},
      longest_wait{30'000};                 // after a failure; doubled, and up to twice that
  std::chrono::milliseconds calm{120'000};  // without failure: the wait starts over
  std::chrono::milliseconds silence{
      180'000};  // a watch without even a bookmark is taken for dead and opened anew
  std::chrono::milliseconds answer{30'000};  // for the whole of a page of a list
  std::chrono::milliseconds head{10'000};    // for the beginning of a watch
  // An API server that has just started refuses everybody with 403 until it has read the roles.
  std::chrono::milliseconds refusal{30'000};
};

class Reflector {
 public:
  // `changed` runs on a thread of the reflector's after every change, after the first list and when failure()
  // has changed; it must be quick. So must `removed`, which gets what a watch says was deleted, as it was
  // last: also what changed and went at once, and was never seen so. The client must outlive the reflector.
  Reflector(Client& client, Resource resource, std::string name_space, ListOptions options,
            std::function<void()> changed, ReflectorTimes times = {},
            std::function<void(const json&)> removed = {});
  ~Reflector();  // no callback runs after it
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  bool synced() const;                // the first list has arrived
  std::vector<json> objects() const;  // a copy, by name
  // What keeps it from being current (unreachable, forbidden ...), and since when; empty when all is well.
  // It goes on trying by itself, except after 401, 403 and 404, which are final. A 403 to who could watch
  // before is not for a while, and has no status then.
  std::exception_ptr failure() const;
  std::chrono::milliseconds failing_for() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlk::kube
