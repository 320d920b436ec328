#include "sweeps/trials/driver_status.h"

#include <chrono>

#include "cli/run/facts/facts.h"
#include "cli/run/facts/read_facts.h"
#include "cli/run/state/diagnosis.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::sweeps {
namespace {

constexpr std::string_view before_error = "mlk: error: ";

// A holder that has not renewed its Lease for so long is gone. A driver renews its Lease every few seconds,
// and the clocks of two machines differ by less than this time.
constexpr std::chrono::seconds certainly_gone{60};

// The last error message of mlk in the pod, without its hint. If mlk has left no message, the usual
// description of the pod's end.
std::string words_of_end(const PodFacts& pod, Failure failure, Time now) {
  for (const std::string& line : split(pod.end_message, '\n')) {
    if (!line.starts_with(before_error)) continue;
    failure.reason = printable(line.substr(before_error.size()));
    failure.message.clear();
  }
  failure.attempts = 1;  // the number of tries does not matter here
  return one_line(failure, now);
}

std::string words_of_job(const JobFacts& job, const Facts& facts, Time now) {
  const PodFacts* newest = nullptr;
  for (const PodFacts& pod : facts.pods) {  // oldest first
    if (pod.job == job.name) newest = &pod;
  }
  if (newest != nullptr && newest->program_runs()) return "runs in the cluster";
  if (newest == nullptr || !newest->ended()) {
    const Cause cause = newest == nullptr ? why_no_pod(job, facts) : why_pod_waits(*newest, job, facts);
    return cause.weight == 0 ? "is being started" : "is not started: " + cause.text;
  }
  if (newest->phase == "Succeeded") return "has ended";
  return "failed: " + words_of_end(*newest, describe_end(*newest, job, true), now);
}

// Says that nobody drives the sweep, if the Lease or its absence shows this; otherwise empty. When a driver
// ends, it releases its Lease. A killed driver cannot do this, so the function also checks whether the last
// renewal was long ago.
std::string words_of_lease(const SweepObjects& objects, Time now) {
  if (!objects.lease) return "";
  const std::string holder = text_of(*objects.lease, {"spec", "holderIdentity"});
  const std::optional<Time> last = objects.lease->is_null()
                                       ? time_of(objects.owner, {"metadata", "creationTimestamp"})
                                       : time_of(*objects.lease, {"spec", "renewTime"});
  const bool long_ago = last && now - *last > certainly_gone;
  if (objects.lease->is_null()) return long_ago ? "nobody drives it" : "";
  if (holder.empty()) return "nobody drives it";
  if (!long_ago) return "";
  const auto silence = std::chrono::duration_cast<std::chrono::seconds>(now - *last);
  return "nobody drives it: its driver " + printable(holder) + " was last heard of " +
         format_duration(silence) + " ago";
}

}  // namespace

DriverStatus observe_driver(const SweepObjects& objects, Time now) {
  const Facts facts = read_facts(objects.drivers, objects.driver_pods, objects.events, now);
  DriverStatus out;
  for (const JobFacts& job : facts.jobs) {
    if (out.goes_on && job.finished) continue;
    out.goes_on = out.goes_on || !job.finished;
    out.what = words_of_job(job, facts, now);
    if (job.finished && out.what.starts_with("is ")) out.what = "has ended";  // the pods are gone
    out.runs = out.what == "runs in the cluster";
    if (out.runs) break;
  }
  if (!out.goes_on) out.gone = words_of_lease(objects, now);
  return out;
}

}  // namespace mlk::sweeps
