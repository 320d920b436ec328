// A rank that agrees with others, which the test plays, on the next generation.
#pragma once

#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/membership/assembly.h"
#include "tests/unit/runtime/scripted_peers.h"

namespace mlk::test {

inline constexpr std::uint64_t no_state = ~std::uint64_t{0}, lineage = 7;

inline rt::PeerId rank_at(std::uint32_t rank) { return {rt::Role::worker, rank}; }

// A rank among `count` workers; the test plays the others.
struct AmongRanks {
  ScriptedPeers others;
  std::optional<rt::StateVersion> state = rt::StateVersion{10, 1};
  int states_made = 0;
  std::uint64_t known_restarts = 0;  // by the checkpoint that the state is made of
  std::vector<rt::MessageType> passed_on;
  std::uint32_t self;
  rt::Assembly assembly;

  AmongRanks(std::uint32_t rank, std::uint32_t count)
      : others(rank_at(rank), count),
        self(rank),
        assembly(
            others.job(), others.peers(),
            {[this] { return state; },
             [this] {
               ++states_made;
               state = rt::StateVersion{};
               if (known_restarts > 0) assembly.go_on_counting(known_restarts);
             },
             [] { return false; }, [this](rt::Event&& event) { passed_on.push_back(event.header.type); }}) {
    others.on_event([this](rt::Event&& event) { assembly.handle(std::move(event)); });
    for (std::uint32_t other = 0; other < count; ++other) {
      if (other != rank) others.arrive(rank_at(other));
    }
  }

  void say(std::uint32_t from, rt::MessageType type, std::uint64_t generation, std::uint64_t clock = 0,
           std::uint32_t key = 0, const rt::Bytes& payload = {}, std::uint64_t offset = 0) {
    rt::Header header;
    header.type = type;
    header.generation = generation;
    header.clock = clock;
    header.key = key;
    header.offset = offset;
    others.say(rank_at(from), header, payload);
  }
  // `follows`: the generation that the proposer is in.
  void propose(std::uint32_t from, std::uint64_t number, std::vector<std::uint32_t> members,
               std::uint64_t follows, std::uint64_t of_lineage = lineage) {
    rt::PayloadWriter payload;
    payload.put(of_lineage).put(static_cast<std::uint32_t>(members.size()));
    for (const std::uint32_t rank : members)
      payload.put(rank).put(others.incarnation_of(rank_at(rank))).text("");
    say(from, rt::MessageType::propose, number, follows, 0, payload.bytes());
  }
  void begin(std::uint32_t from, std::uint64_t number, std::uint64_t restarts = 0) {
    say(from, rt::MessageType::begin, number, 10, from,
        rt::PayloadWriter().put(restarts).put(std::uint32_t{0}).bytes());
  }
  void tell_status(std::uint32_t from, std::uint64_t generation, std::uint64_t step,
                   std::uint64_t of_lineage = lineage) {
    say(from, rt::MessageType::status, generation, step, 0, rt::PayloadWriter().put(of_lineage).bytes());
  }
  rt::Event answer(std::uint32_t to) {
    return others.hear(rank_at(to), {rt::MessageType::accept, rt::MessageType::refuse});
  }
  rt::MessageType answer_type(std::uint32_t to) { return answer(to).header.type; }

  // All that these peers have said has been heard.
  void settle(const std::vector<std::uint32_t>& peers) {
    const std::size_t before = passed_on.size();
    for (const std::uint32_t peer : peers) say(peer, rt::MessageType::feed, 0);
    others.until("has heard it all", [&] { return passed_on.size() == before + peers.size(); });
  }
  // They tell their status, and it is heard.
  void tell_statuses(const std::vector<std::uint32_t>& peers, std::uint64_t generation, std::uint64_t step) {
    for (const std::uint32_t peer : peers) tell_status(peer, generation, step, generation == 0 ? 0 : lineage);
    settle(peers);
  }

  void say_trained(std::uint32_t from = 0) {
    say(from == self ? 1 : from, rt::MessageType::done, 0, 0, 0,
        rt::PayloadWriter().text("its result").bytes());
  }
  void accept(std::uint32_t from, std::uint64_t number, std::optional<rt::StateVersion> of = {}) {
    say(from, rt::MessageType::accept, number, of ? of->step : no_state, 0, {}, of ? of->summed_in : 0);
  }
  // The members of the next proposal to that peer, and its number.
  std::pair<std::uint64_t, std::set<std::uint32_t>> hear_proposal(std::uint32_t to) {
    const rt::Event event = others.hear(rank_at(to), {rt::MessageType::propose});
    rt::PayloadReader reader(event.payload);
    reader.get<std::uint64_t>();
    std::set<std::uint32_t> members;
    for (auto left = reader.get<std::uint32_t>(); left > 0; --left) {
      members.insert(reader.get<std::uint32_t>());
      reader.get<std::uint64_t>();
      reader.text();
    }
    CHECK(reader.complete());
    return {event.header.generation, members};
  }

  // All are members of the generation from here on.
  void start_generation(std::uint64_t number, std::vector<std::uint32_t> members, std::uint64_t follows = 0) {
    const std::uint32_t proposer = members.front() == self ? members[1] : members.front();
    propose(proposer, number, members, follows);
    REQUIRE(answer_type(proposer) == rt::MessageType::accept);
    begin(proposer, number);
    others.until("the generation begins", [&] { return assembly.generation().number == number; });
  }
};

// Runs assemble() while the test plays the others.
class Assembling {
 public:
  explicit Assembling(AmongRanks& stage) {
    stage.others.stand_back();
    thread_ = std::thread([this, &stage] { beginning_ = stage.assembly.assemble(); });
  }
  ~Assembling() {
    if (thread_.joinable()) thread_.join();
  }
  std::optional<rt::Beginning> result() {
    thread_.join();
    return beginning_;
  }

 private:
  std::optional<rt::Beginning> beginning_;
  std::thread thread_;
};

}  // namespace mlk::test
