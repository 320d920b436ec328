#include "tests/sim/ps_invariants.h"

#include <algorithm>

#include "runtime/ps/machines/joint_checkpoint.h"

namespace mlk::sim {
namespace {

[[noreturn]] void ps_broken(const std::string& what) { throw Violation(what); }

}  // namespace

std::vector<rt::TensorInfo> model_tensors() {
  return {{"a", {2}, 0, 2}, {"b", {1}, 2, 1}, {"c", {1}, 3, 1}, {"d", {2}, 4, 2}};
}

float gradient_at(std::uint64_t position, std::size_t parameter) {
  return static_cast<float>(mix(position, parameter) % 61) - 30;
}

const std::vector<float>& PsInvariants::exact_weights(std::uint64_t step) {
  const auto batch = static_cast<std::uint64_t>(scenario_.batch);
  const std::uint64_t slices = scenario_.workers;
  const auto rate = static_cast<float>(scenario_.config().optimizer.lr);
  while (exact_.size() <= step) {
    std::vector<float> next = exact_.back();
    const std::uint64_t begin = (exact_.size() - 1) * slices * batch;
    for (std::size_t i = 0; i < model_floats; ++i) {
      float sum = 0;
      for (std::uint64_t slice = 0; slice < slices; ++slice)
        sum += static_cast<float>(batch) * gradient_at(begin + slice * batch, i);
      next[i] -= rate * (sum * (1.0f / static_cast<float>(slices * batch)));
    }
    exact_.push_back(std::move(next));
  }
  return exact_[step];
}

void PsInvariants::weights(std::span<const float> weights, std::uint64_t step, std::size_t offset,
                           const std::string& what) {
  if (!scenario_.consistency.sync) return;
  if (step > scenario_.steps) ps_broken(what + " are of step " + std::to_string(step) + ", beyond the last");
  const auto& exact = exact_weights(step);
  if (!std::equal(weights.begin(), weights.end(), exact.begin() + static_cast<std::ptrdiff_t>(offset)))
    ps_broken(what + " are not those of step " + std::to_string(step));
}

void PsInvariants::granted(std::uint64_t coordinator, std::uint32_t worker, const rt::Header& header,
                           const rt::WorkMessage& work) {
  ++grants_;
  const auto batch = static_cast<std::uint64_t>(scenario_.batch);
  const std::string what = "the lease of worker/" + std::to_string(worker);
  if (work.samples != batch) ps_broken(what + " has another size");
  if (scenario_.consistency.sync) {
    if (header.key >= scenario_.workers ||
        work.position != (header.clock * scenario_.workers + header.key) * batch)
      ps_broken(what + " is not of the samples of its slice");
    return;
  }
  Leased& leased = leased_[coordinator];
  leased.lost = std::max(leased.lost, work.progress.run.lost_samples);
  if (work.position == work.run_position) leased.lost_before = leased.lost;  // no lease is open
  const std::uint64_t open = work.position + batch - work.run_position;
  if (open > scenario_.workers * batch + leased.lost - leased.lost_before)
    ps_broken(what + ": " + std::to_string(open) + " samples are neither done nor counted as lost");
  const auto bound = scenario_.consistency.staleness;
  if (bound && work.own_slices > work.others_slices + static_cast<std::uint64_t>(*bound))
    ps_broken(what + " is beyond the bound of staleness");
}

void PsInvariants::applied(std::uint64_t server, std::uint64_t worker, std::uint64_t clock,
                           std::uint32_t chunk) {
  if (!applied_.insert({server, worker, clock, chunk}).second) ps_broken("a gradient is applied twice");
}

void PsInvariants::seeded(std::uint64_t server, std::uint32_t chunk, const Source& source) {
  auto& sources = sources_[server];
  sources[chunk] = source;
  if (std::ranges::any_of(sources, [&](const auto& other) { return other.second != source; }))
    ps_broken("a server is seeded by two, or with weights of two steps");
}

void PsInvariants::heard(std::uint64_t process, rt::PeerId peer, std::uint64_t incarnation) {
  Heard& heard = heard_[{process, peer}];
  if (heard.last == incarnation) return;
  if (!heard.before.insert(incarnation).second)
    ps_broken("an incarnation of " + to_string(peer) + " is heard after its successor");
  heard.last = incarnation;
}

void PsInvariants::committing(const rt::Manifest& manifest, const std::set<std::string>& whole,
                              std::uint64_t step) {
  const std::string what = "the checkpoint of step " + std::to_string(step);
  std::set<std::string> named;
  for (const rt::WrittenFile& file : manifest.files) {
    if (!whole.contains(file.name)) ps_broken(what + " is made before " + file.name + " is written");
    named.insert(file.name);
  }
  for (std::uint32_t server = 0; server < scenario_.servers; ++server) {
    if (!named.contains(rt::part_name(server))) ps_broken(what + " is made without " + rt::part_name(server));
  }
  if (manifest.step != step) ps_broken(what + " is said to be of step " + std::to_string(manifest.step));
}

void PsInvariants::evaluated(std::uint64_t step) {
  if (step != scenario_.steps) ps_broken("step " + std::to_string(step) + " is reported as the last");
  evaluated_ = true;
}

void PsInvariants::worker_ends(bool was_saved, bool can_report) {
  if (!evaluated_ && can_report) ps_broken("a worker ends with 0 before the last report");
  if (scenario_.disk && !was_saved) ps_broken("a worker ends with 0, and the last checkpoint is not there");
}

void PsInvariants::gone(std::uint64_t process) {
  leased_.erase(process);
  sources_.erase(process);
  std::erase_if(heard_, [process](const auto& entry) { return entry.first.first == process; });
}

}  // namespace mlk::sim
