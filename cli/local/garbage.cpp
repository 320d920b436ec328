#include "cli/local/garbage.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cli/local/state/kinds.h"
#include "cli/local/state/metadata.h"
#include "cli/util/json_path.h"

namespace mlk::local {
namespace {

constexpr char foreground[] = "foregroundDeletion";

class Collector {
 public:
  Collector(Store& store, Time now) : store_(store), now_(now) {
    for (const Kind& kind : kinds()) {
      if (!kind.writable) continue;
      for (const Object& object : store.list(kind.plural)) {
        objects_.emplace_back(kind.plural, object);
        if (has_finalizer(*object, foreground)) going_.insert(uid_of(*object));
      }
    }
    // Reads the uids after all objects, since other threads continue to create objects. An owner exists
    // before its dependents, so the uids include the owner of every object that was read.
    for (const Kind& kind : kinds()) {
      if (!kind.writable) continue;
      for (const Object& object : store.list(kind.plural)) uids_.insert(uid_of(*object));
    }
  }

  void run() {
    std::set<std::string> waited_for;
    for (const auto& [plural, object] : objects_) {
      bool owned = false, has_owner = false;
      for (const json& owner : object->at("metadata").value("ownerReferences", json::array())) {
        const std::string uid = owner.value("uid", "");
        owned = true;
        has_owner = has_owner || (uids_.contains(uid) && !going_.contains(uid));
        if (going_.contains(uid) && owner.value("blockOwnerDeletion", false)) waited_for.insert(uid);
      }
      if (owned && !has_owner) remove_orphan(plural, *object);
    }
    for (const auto& [plural, object] : objects_) {
      if (!going_.contains(uid_of(*object)) || waited_for.contains(uid_of(*object))) continue;
      modify(plural, *object, [](json& current) { drop_finalizer(current, foreground); });
    }
    for (const auto& [plural, object] : objects_) {
      if (plural == "namespaces" && has_finalizer(*object, "kubernetes") &&
          object->at("metadata").contains("deletionTimestamp"))
        empty(*object);
    }
  }

 private:
  void empty(const json& name_space) {
    const std::string& name = name_of(name_space);
    bool left = false;
    for (const auto& [plural, object] : objects_) {
      if (namespace_of(*object) != name) continue;
      left = true;
      remove(plural, *object);
    }
    if (left) return;
    store_.remove("serviceaccounts", name, "default");
    modify("namespaces", name_space, [](json& current) { drop_finalizer(current, "kubernetes"); });
  }

  // Keeps the object if its owner references have changed since they were read: an object that was orphaned
  // meanwhile must outlive its owner.
  void remove_orphan(const std::string& plural, const json& object) {
    const auto owners = [](const json& of) { return of.at("metadata").value("ownerReferences", json()); };
    remove(plural, object, [&](const json& current) { return owners(current) == owners(object); });
  }

  void remove(
      const std::string& plural, const json& object,
      const std::function<bool(const json&)>& still = [](const json&) { return true; }) {
    if (object.at("metadata").contains("deletionTimestamp")) return;
    modify(plural, object, [&](json& current) {
      if (!still(current)) return;
      json& metadata = current["metadata"];
      const bool runs = plural == "pods" && current.at("spec").contains("nodeName") && !has_ended(current);
      const long grace = runs ? current.at("spec").value("terminationGracePeriodSeconds", 30L) : 0;
      metadata["deletionTimestamp"] = format_time(later(now_, grace));
      metadata["deletionGracePeriodSeconds"] = grace;
    });
  }

  template <class Edit>
  void modify(const std::string& plural, const json& object, const Edit& edit) {
    try {
      store_.modify(plural, object, edit);
    } catch (const StatusError&) {
      return;  // the object was deleted already
    }
  }

  Store& store_;
  const Time now_;
  std::vector<std::pair<std::string, Object>> objects_;
  std::set<std::string> uids_;
  std::set<std::string> going_;  // uids of objects in foreground deletion: their dependents are deleted first
};

}  // namespace

void collect_garbage(Store& store, Time now) { Collector(store, now).run(); }

void limit_finished_pods(Store& store, std::size_t most) {
  std::vector<Object> ended;
  for (const Object& pod : store.list("pods")) {
    if (has_ended(*pod) && at_path(*pod, {"metadata", "finalizers"}).empty()) ended.push_back(pod);
  }
  if (ended.size() <= most) return;
  const auto age_of = [](const Object& pod) {
    return std::tie(text_of(*pod, {"metadata", "creationTimestamp"}), name_of(*pod));
  };
  const auto first_to_stay = ended.end() - static_cast<std::ptrdiff_t>(most);
  std::nth_element(ended.begin(), first_to_stay, ended.end(),
                   [&](const Object& a, const Object& b) { return age_of(a) < age_of(b); });
  for (auto at = ended.begin(); at != first_to_stay; ++at)
    store.remove("pods", namespace_of(**at), name_of(**at));
}

}  // namespace mlk::local
