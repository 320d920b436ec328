#include "cli/run/read/confirm_absences.h"

#include <chrono>
#include <deque>
#include <future>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/run/facts/absence.h"
#include "cli/run/facts/labels.h"
#include "cli/run/read/mark.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using json = nlohmann::json;

constexpr std::chrono::seconds between_lists{2};
constexpr std::size_t most_notes = 64;  // marks that one command writes; later commands write the other marks

std::set<std::string> names_of_all(const std::vector<json>& jobs) {
  std::set<std::string> names;
  for (const json& job : jobs) names.insert(kube::name_of(job));
  return names;
}

}  // namespace

std::vector<std::string> confirm_absences(kube::Client& client, const std::string& name_space,
                                          const std::vector<json*>& owners, std::vector<json>& jobs) {
  const std::set<std::string> there = names_of_all(jobs);
  std::vector<json*> lacking;
  std::set<std::string> wanted;
  for (json* owner : owners) {
    const std::vector<std::string> missing = absences_to_confirm(*owner, there);
    if (missing.empty()) continue;
    lacking.push_back(owner);
    wanted.insert(missing.begin(), missing.end());
  }
  if (lacking.empty()) return {};
  std::this_thread::sleep_for(between_lists);
  kube::ListOptions options;
  options.label_selector = labels::run;
  if (lacking.size() == 1) options.label_selector += "=" + kube::name_of(*lacking.front());
  std::vector<std::string> found;
  for (json& job : client.list(kube::resources::jobs, name_space, options).items) {
    if (wanted.count(kube::name_of(job)) == 0) continue;
    found.push_back(kube::name_of(job));
    jobs.push_back(std::move(job));
  }
  const std::set<std::string> now_there = names_of_all(jobs);
  std::deque<std::future<kube::Answer>> notes;
  for (json* owner : lacking) {
    std::vector<std::string> gone = absences_to_confirm(*owner, now_there);
    if (gone.empty()) continue;
    const std::vector<std::string> before = jobs_found_gone(*owner);
    gone.insert(gone.begin(), before.begin(), before.end());
    const std::string text = join(gone, ",");
    if (notes.size() < most_notes)
      notes.push_back(mark_owner(client, name_space, *owner, annotations::gone, text));
    (*owner)["metadata"]["annotations"][annotations::gone] = text;
  }
  for (std::future<kube::Answer>& note : notes) note.wait();
  return found;
}

}  // namespace mlk
