#include "cli/run/facts/run_objects.h"

namespace mlk {

std::string last_words_key(const std::string& pod_uid, const std::string& container) {
  return pod_uid + "/" + container;
}

}  // namespace mlk
