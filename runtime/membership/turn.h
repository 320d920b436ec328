// One call of a state machine: the time of the call, and the decisions of the machine.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/exit_code.h"
#include "runtime/membership/effects.h"
#include "runtime/transport/event.h"

namespace mlk::rt {

// Decisions that more than one machine makes.

// Count a message that arrived too late to have an effect.
struct CountLate {};
// From now on this process ends as trained, however its peers end.
struct RunIsTrained {};
// How a worker ends: with the result from the reporter, with the last checkpoint that it has found, or after
// SIGTERM.
struct EndTrained {
  std::string result;
};
struct EndWithFound {};
struct EndTerminated {};

// The caller applies the decisions in order, after the call has returned. At a Failure the process ends, and
// the caller ignores the remaining decisions.
template <typename... Decisions>
struct TurnOf {
  using Decision = std::variant<Effects::Effect, Decisions..., Failure>;

  SteadyTime now;
  std::vector<Decision> in_order = {};

  void send(PeerId to, const Header& header, Bytes payload = {}) {
    in_order.emplace_back(Effects::Effect(Effects::Message{to, header, std::move(payload)}));
  }
  void log(std::string line) { in_order.emplace_back(Effects::Effect(Effects::Line{std::move(line)})); }
  void append(Effects&& effects) {
    for (Effects::Effect& effect : effects.in_order) in_order.emplace_back(std::move(effect));
  }
  void decide(Decision decision) { in_order.push_back(std::move(decision)); }
  bool failed() const { return !in_order.empty() && std::holds_alternative<Failure>(in_order.back()); }
};

}  // namespace mlk::rt
