#include "cli/run/facts/order.h"

#include <charconv>
#include <chrono>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json_path.h"

namespace mlk {

RunAge age_of(const nlohmann::json& owner) {
  RunAge age;
  age.created = time_of(owner, {"metadata", "creationTimestamp"}).value_or(Time{});
  const std::string text = kube::annotation_of(owner, annotations::submitted);
  const char* end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, age.submitted);
      read.ec != std::errc() || read.ptr != end)
    age.submitted = 0;
  age.name = kube::name_of(owner);
  return age;
}

std::string submitted_at(Time now) {
  return std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count());
}

}  // namespace mlk
