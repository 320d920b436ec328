#include "cli/run/change/shared_content.h"

#include <map>
#include <mutex>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/code/code.h"
#include "cli/image/gzip.h"
#include "cli/kube/objects.h"
#include "cli/run/change/stored_run.h"
#include "cli/run/facts/labels.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "cli/util/json_path.h"

namespace mlk {
namespace {

using nlohmann::json;

// The uids of objects whose content is known. All trials of a sweep have the same code, so mlk reads the code
// once.
class KnownContents {
 public:
  void add(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    if (!uid.empty()) uids_.insert(uid);
  }
  bool has(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    return uids_.contains(uid);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> uids_;
};

KnownContents& known_contents() {
  static KnownContents known;
  return known;
}

bool is_unpacked_digest(const std::string& bytes, const std::string& digest) {
  try {
    return sha256_hex(image::gunzip(bytes, image::longest_tar)) == digest;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool holds_digest(const json& map, const std::string& digest) {
  if (at_path(map, {"kind"}) != "ConfigMap" || at_path(map, {"immutable"}) != true) return false;
  if (const json& texts = at_path(map, {"data"}); !texts.is_null() && !texts.empty()) return false;
  const std::map<std::string, std::string> files = files_in(map);
  if (files.size() != 1) return false;
  const auto& [name, bytes] = *files.begin();
  return sha256_hex(bytes) == digest || (name.ends_with(".gz") && is_unpacked_digest(bytes, digest));
}

SharedContent check_shared(kube::Client& client, const kube::Resource& resource,
                           const std::string& name_space, const json& metadata) {
  if (is_known_content(metadata)) return SharedContent::good;
  const std::string name = kube::name_of(metadata);
  std::optional<json> whole = client.find(resource, name_space, name);
  if (!whole || kube::uid_of(*whole) != kube::uid_of(metadata)) return SharedContent::changed_meanwhile;
  (*whole)["kind"] = resource.kind;
  if (!holds_digest(*whole, kube::annotation_of(metadata, annotations::digest)))
    throw Error(
        ExitCode::failure,
        fmt::format("the content of configmap/{} does not match its name: somebody else has made it", name),
        "find out who has made the ConfigMap; then: kubectl delete configmap " + name +
            ", and the next submit makes it anew");
  note_own_content(*whole);
  return SharedContent::good;
}

void note_own_content(const json& created) { known_contents().add(kube::uid_of(created)); }
bool is_known_content(const json& metadata) { return known_contents().has(kube::uid_of(metadata)); }

}  // namespace mlk
