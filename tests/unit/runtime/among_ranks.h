// A rank that agrees on the next generation with other ranks, which the test plays. There are no sockets and
// no threads, and the test sets the time.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/membership/assembly.h"

namespace mlk::test {

inline constexpr std::uint64_t no_state = ~std::uint64_t{0}, lineage = 7;
inline constexpr std::chrono::seconds among_patience{900};

inline rt::PeerId rank_at(std::uint32_t rank) { return {rt::Role::worker, rank}; }

// A rank among `count` workers; the test plays the other workers. Each message arrives at once. Time passes
// only while the test waits for something: it jumps from one timer to the next.
struct AmongRanks {
  using Change = std::function<void(rt::AssemblySettings&)>;

  std::optional<rt::StateVersion> state = rt::StateVersion{10, 1};
  int states_made = 0;
  std::chrono::seconds making{0};    // the time that it takes to make a state
  std::uint64_t known_restarts = 0;  // the number in the checkpoint of the state
  std::uint32_t self;
  rt::SteadyTime now{std::chrono::hours(1)};
  std::vector<std::pair<rt::PeerId, std::string>> dialled;
  std::vector<std::string> log;
  rt::Assembly assembly;

  AmongRanks(std::uint32_t rank, std::uint32_t count, const Change& change = {})
      : self(rank), assembly(settings(rank, count, change)) {
    for (std::uint32_t other = 0; other < count; ++other) {
      if (other != rank) arrive(rank_at(other));
    }
  }

  std::uint64_t incarnation_of(rt::PeerId peer) const {
    if (peer.rank == self) return own_incarnation;
    const auto found = incarnations_.find(peer);
    return 1000 * (found == incarnations_.end() ? 1 : found->second) + peer.rank;
  }

  // Returns whether the generation continues after the event.
  bool handle(const rt::Event& event) {
    assembly.set_state(state);
    rt::Effects effects;
    assembly.handle(event, now, effects);
    take(std::move(effects));
    return assembly.phase() == rt::Assembly::Phase::begun;
  }
  bool hears_of(std::uint32_t rank, rt::Event::Kind kind, bool proven = false) {
    rt::Event event;
    event.kind = kind;
    event.peer = rank_at(rank);
    event.incarnation = incarnation_of(event.peer);
    event.address = "127.0.0.1:" + std::to_string(1000 + rank);
    event.proven = proven;
    return handle(event);
  }
  // The peer connects. On a second call it connects as another incarnation.
  void arrive(rt::PeerId peer) {
    if (incarnations_.contains(peer)) hears_of(peer.rank, rt::Event::Kind::down, true);
    ++incarnations_[peer];
    outbox_.erase(peer);
    hears_of(peer.rank, rt::Event::Kind::up);
  }
  void depart(rt::PeerId peer) { hears_of(peer.rank, rt::Event::Kind::down, true); }
  // The peer sends a goodbye with its exit code, and its process ends.
  void end(rt::PeerId peer, rt::ExitCode code) {
    rt::Event event;
    event.kind = rt::Event::Kind::goodbye;
    event.peer = peer;
    event.incarnation = incarnation_of(peer);
    event.header.clock = static_cast<std::uint64_t>(code);
    handle(event);
    depart(peer);
  }

  bool say(std::uint32_t from, const rt::EncodedMessage& message) {
    rt::Event event;
    event.peer = rank_at(from);
    event.incarnation = incarnation_of(event.peer);
    event.header = message.header;
    event.payload = message.payload;
    return handle(event);
  }
  bool say(std::uint32_t from, rt::MessageType type, std::uint64_t generation, std::uint64_t clock = 0,
           std::uint32_t key = 0, const rt::Bytes& payload = {}, std::uint64_t offset = 0) {
    rt::EncodedMessage message{{}, payload};
    message.header.type = type;
    message.header.generation = generation;
    message.header.clock = clock;
    message.header.key = key;
    message.header.offset = offset;
    return say(from, message);
  }
  // `follows`: the generation that the proposer is in.
  void propose(std::uint32_t from, std::uint64_t number, const std::vector<std::uint32_t>& members,
               std::uint64_t follows, std::uint64_t of_lineage = lineage) {
    rt::ProposeMessage message{number, follows, of_lineage, {}};
    for (const std::uint32_t rank : members)
      message.members.push_back({{rank, incarnation_of(rank_at(rank))}, ""});
    say(from, encode(message));
  }
  void begin(std::uint32_t from, std::uint64_t number, std::uint64_t restarts = 0) {
    say(from, encode(rt::BeginMessage{number, 10, restarts, from, {}}));
  }
  void tell_status(std::uint32_t from, std::uint64_t generation, std::uint64_t step,
                   std::uint64_t of_lineage = lineage) {
    say(from, rt::MessageType::status, generation, step, 0,
        rt::PayloadWriter().put(of_lineage).put(std::uint8_t{0}).bytes());
  }
  void tell_statuses(const std::vector<std::uint32_t>& peers, std::uint64_t generation, std::uint64_t step) {
    for (const std::uint32_t peer : peers) tell_status(peer, generation, step, generation == 0 ? 0 : lineage);
  }
  void say_trained(std::uint32_t from = 0) {
    say(from == self ? 1 : from, encode(rt::DoneMessage{0, "its result"}));
  }
  // If `of` names no lineage, the sender's state has the lineage of the rank under test.
  void accept(std::uint32_t from, std::uint64_t number, std::optional<rt::StateVersion> of = {}) {
    if (of && of->lineage == 0) of->lineage = assembly.lineage();
    say(from, encode(rt::AcceptMessage{number, of}));
  }

  // Returns the next message to this peer of one of these types, and drops messages of other types. Time
  // passes until the rank sends such a message.
  rt::EncodedMessage hear(rt::PeerId peer, const std::vector<rt::MessageType>& types) {
    std::optional<rt::EncodedMessage> heard;
    until("says something", [&] {
      auto& queue = outbox_[peer];
      while (!queue.empty() && !heard) {
        if (std::ranges::find(types, queue.front().header.type) != types.end()) heard = queue.front();
        queue.pop_front();
      }
      return heard.has_value();
    });
    return *heard;
  }
  // Whether the rank has sent the peer a message of this type since the last message that the peer has read.
  bool was_told(rt::PeerId peer, rt::MessageType type) {
    const auto queue = std::exchange(outbox_[peer], {});
    return std::ranges::any_of(queue, [&](const auto& message) { return message.header.type == type; });
  }
  rt::EncodedMessage answer(std::uint32_t to) {
    return hear(rank_at(to), {rt::MessageType::accept, rt::MessageType::refuse});
  }
  rt::MessageType answer_type(std::uint32_t to) { return answer(to).header.type; }
  // Returns the number and the members of the next proposal to that peer.
  std::pair<std::uint64_t, std::set<std::uint32_t>> hear_proposal(std::uint32_t to) {
    const auto [header, payload] = hear(rank_at(to), {rt::MessageType::propose});
    const auto proposal = rt::decode_propose(header, payload);
    REQUIRE(proposal);
    std::set<std::uint32_t> members;
    for (const auto& invited : proposal->members) members.insert(invited.member.rank);
    return {proposal->number, members};
  }

  // Lets time pass, timer by timer, until the condition holds.
  void until(const char* what, const std::function<bool()>& holds) {
    const rt::SteadyTime deadline = now + std::chrono::seconds(20);
    while (!holds()) {
      INFO(what);
      REQUIRE(assembly.phase() == rt::Assembly::Phase::assembling);
      REQUIRE(now < deadline);
      pass();
    }
  }
  void pass() {
    now = std::max(now, assembly.next_tick());
    rt::Effects effects;
    assembly.set_state(state);
    assembly.tick(now, effects);
    take(std::move(effects));
  }
  void report_trained(const std::string& result) {
    rt::Effects effects;
    assembly.report_trained(result, effects);
    take(std::move(effects));
  }
  void start_assembling() {
    rt::Effects effects;
    assembly.set_state(state);
    assembly.assemble(now, effects);
    take(std::move(effects));
  }

  // Makes all of these ranks members of the generation.
  void start_generation(std::uint64_t number, const std::vector<std::uint32_t>& members,
                        std::uint64_t follows = 0) {
    const std::uint32_t proposer = members.front() == self ? members[1] : members.front();
    propose(proposer, number, members, follows);
    REQUIRE(answer_type(proposer) == rt::MessageType::accept);
    begin(proposer, number);
    REQUIRE(assembly.generation().number == number);
  }

  // The rank waits for a generation until its patience is over. Returns the message of its failure, or "a
  // generation". Afterwards the rank has the state and the time from before the wait.
  std::string gives_up() {
    const rt::Assembly before = assembly;
    const rt::SteadyTime then = now;
    start_assembling();
    while (assembly.phase() == rt::Assembly::Phase::assembling) pass();
    std::string words = "a generation";
    if (assembly.phase() == rt::Assembly::Phase::failed) {
      CHECK(assembly.failure().code == rt::ExitCode::peers_lost);
      words = assembly.failure().what();
    }
    assembly = before;
    now = then;
    return words;
  }

 private:
  static constexpr std::uint64_t own_incarnation = 999;

  static rt::AssemblySettings settings(std::uint32_t rank, std::uint32_t count, const Change& change) {
    rt::AssemblySettings settings;
    settings.self = {rank, own_incarnation};
    settings.address = "127.0.0.1:" + std::to_string(1000 + rank);
    settings.workers = count;
    settings.patience = among_patience;
    settings.new_lineage = [] { return lineage; };
    if (change) change(settings);
    return settings;
  }

  void take(rt::Effects&& effects) {
    for (auto& effect : effects.in_order) {
      if (auto* message = std::get_if<rt::Effects::Message>(&effect)) {
        outbox_[message->to].push_back({message->header, std::move(message->payload)});
      } else if (auto* dial = std::get_if<rt::Effects::Dial>(&effect)) {
        dialled.emplace_back(dial->peer, dial->address);
      } else {
        log.push_back(std::get<rt::Effects::Line>(effect).text);
      }
    }
    if (!assembly.wants_state()) return;
    ++states_made;
    now += making;
    state = rt::StateVersion{};
    rt::Effects more;
    assembly.state_made(*state, known_restarts, now, more);
    take(std::move(more));
  }

  std::map<rt::PeerId, std::uint64_t> incarnations_;
  std::map<rt::PeerId, std::deque<rt::EncodedMessage>> outbox_;
};

// Waits for a generation while the test plays the other ranks.
class Assembling {
 public:
  explicit Assembling(AmongRanks& stage) : stage_(stage) { stage.start_assembling(); }
  std::optional<rt::Beginning> result() {
    const auto& assembly = stage_.assembly;
    while (assembly.phase() == rt::Assembly::Phase::assembling) stage_.pass();
    if (assembly.phase() != rt::Assembly::Phase::begun) return {};
    return assembly.beginning();
  }

 private:
  AmongRanks& stage_;
};

}  // namespace mlk::test
