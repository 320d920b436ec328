#include "cli/local/node/gpus.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "cli/local/state/metadata.h"
#include "cli/util/json_path.h"
#include "cli/util/quantity.h"
#include "cli/util/text.h"

namespace mlk::local {
namespace {

constexpr char annotation[] = "mlk.dev/gpus";
constexpr std::size_t most_gpus = 1024;  // the highest number of device files that mlk checks

std::optional<std::string> from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

bool is_index_below(const std::string& word, std::size_t count) {
  return !word.empty() && word.size() <= 4 && word.find_first_not_of("0123456789") == word.npos &&
         static_cast<std::size_t>(std::stoul(word)) < count;
}

}  // namespace

std::vector<std::string> gpus_of_machine() {
  const std::filesystem::path folder = from_environment("MLK_LOCAL_DEVICES").value_or("/dev");
  std::size_t count = 0;
  std::error_code unreadable;
  for (std::size_t i = 0; i < most_gpus; ++i)
    count += std::filesystem::exists(folder / ("nvidia" + std::to_string(i)), unreadable);
  return visible_gpus(count, from_environment("CUDA_VISIBLE_DEVICES"));
}

std::vector<std::string> visible_gpus(std::size_t count, const std::optional<std::string>& visible) {
  std::vector<std::string> names;
  if (!visible) {
    for (std::size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
    return names;
  }
  for (const std::string& part : split(*visible, ',')) {
    const std::string word(trim(part));
    const bool is_uuid = word.starts_with("GPU-") || word.starts_with("MIG-");
    if (count == 0 || !(is_uuid || is_index_below(word, count))) break;
    if (std::ranges::find(names, word) != names.end()) return {};  // CUDA refuses a list with duplicates
    names.push_back(word);
  }
  return names;
}

std::size_t wanted_gpus(const json& pod) {
  double sum = 0;
  for (const json& container : pod.at("spec").at("containers")) {
    const json& requests = at_path(container, {"resources", "requests"});
    if (const auto amount = quantity_of(at_path(requests, {gpu_resource}))) sum += *amount;
  }
  return sum > 0 ? static_cast<std::size_t>(sum) : 0;
}

void give_gpus(json& pod, const std::vector<std::string>& free) {
  std::string names;
  for (std::size_t i = 0; i < std::min(wanted_gpus(pod), free.size()); ++i)
    names += (i > 0 ? "," : "") + free[i];
  if (!names.empty()) {
    pod["metadata"]["annotations"][annotation] = names;
  } else if (pod["metadata"].contains("annotations")) {  // a client may have written this annotation
    pod["metadata"]["annotations"].erase(annotation);
  }
}

std::string gpus_of(const json& pod) { return text_of(pod.at("metadata"), {"annotations", annotation}); }

std::vector<std::string> free_gpus(const std::vector<std::string>& all, const std::vector<Object>& pods) {
  std::set<std::string> taken;
  for (const Object& pod : pods) {
    if (has_ended(*pod) || !at_path(pod->at("spec"), {"nodeName"}).is_string()) continue;
    for (const std::string& name : split(gpus_of(*pod), ',')) taken.insert(name);
  }
  std::vector<std::string> free;
  std::ranges::copy_if(all, std::back_inserter(free),
                       [&](const std::string& name) { return !taken.contains(name); });
  return free;
}

}  // namespace mlk::local
