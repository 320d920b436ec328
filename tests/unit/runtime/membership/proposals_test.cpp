// Which proposals a rank makes, which proposals it accepts, and which messages it ignores.
#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/membership/assembly.h"
#include "tests/unit/runtime/among_ranks.h"

TEST_SUITE_BEGIN("runtime/membership/proposals");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

using Ranks = std::set<std::uint32_t>;

}  // namespace

TEST_CASE("if a rank gives up, its error names the lost ranks, or the next generation if no rank is lost") {
  AmongRanks stage(1, 4, [](AssemblySettings& settings) { settings.minimum = 4; });
  CHECK(stage.gives_up() == "gave up waiting for the next generation (900 s)");
  stage.depart(rank_at(2));
  CHECK(stage.gives_up() == "gave up waiting for worker 2 (900 s)");
  stage.depart(rank_at(0));
  CHECK(stage.gives_up() == "gave up waiting for worker 0, worker 2 (900 s)");
}

TEST_CASE("a rank learns the step, the source and the lagging ranks from the begin message") {
  AmongRanks stage(1, 3);
  Assembling assembling(stage);
  stage.propose(0, 4, {0, 1, 2}, 0);
  REQUIRE(stage.answer_type(0) == MessageType::accept);
  const auto begin = [&](const Bytes& payload) { stage.say(0, MessageType::begin, 4, 33, 2, payload); };
  // A message that is cut off has no effect.
  begin(PayloadWriter().put(std::uint64_t{9}).put(std::uint32_t{2}).put(std::uint32_t{0}).bytes());
  begin(PayloadWriter()
            .put(std::uint64_t{6})
            .put(std::uint32_t{2})
            .put(std::uint32_t{0})
            .put(std::uint32_t{1})
            .bytes());
  const auto beginning = assembling.result();
  REQUIRE(beginning);
  CHECK(beginning->step == 33);
  CHECK(beginning->source == 2);
  CHECK(beginning->lagging == Ranks{0, 1});
  CHECK(stage.assembly.restarts() == 6);
  CHECK(stage.assembly.generation().number == 4);
  REQUIRE(stage.assembly.generation().members.size() == 3);
  CHECK(stage.assembly.generation().members[2].incarnation == stage.incarnation_of(rank_at(2)));
}

TEST_CASE("the proposer's begin message contains the restarts, the step, the source and the lagging ranks") {
  AmongRanks stage(0, 4);
  stage.start_generation(1, {0, 1, 2, 3});
  stage.tell_statuses({1, 2, 3}, 1, 10);
  stage.depart(rank_at(3));
  Assembling assembling(stage);
  const auto [number, members] = stage.hear_proposal(2);
  CHECK(members == Ranks{0, 1, 2});
  CHECK(number == 2);
  stage.accept(1, number, StateVersion{10, 1});
  stage.accept(2, number, StateVersion{9, 1});
  REQUIRE(assembling.result());
  const EncodedMessage begin = stage.hear(rank_at(1), {MessageType::begin});
  CHECK(begin.header.generation == 2);
  CHECK(begin.header.clock == 10);
  CHECK(begin.header.key == 0);
  CHECK(begin.payload ==
        PayloadWriter().put(std::uint64_t{1}).put(std::uint32_t{1}).put(std::uint32_t{2}).bytes());
  CHECK(stage.assembly.generation() == Generation{2,
                                                  {{0, stage.incarnation_of(rank_at(0))},
                                                   {1, stage.incarnation_of(rank_at(1))},
                                                   {2, stage.incarnation_of(rank_at(2))}}});
}

TEST_CASE(
    "a proposal contains the generation that it follows, its lineage and the addresses of ranks beyond the "
    "seeds") {
  AmongRanks stage(0, 3, [](AssemblySettings& settings) { settings.seeds = 2; });
  stage.start_generation(5, {0, 1, 2});
  stage.tell_statuses({1, 2}, 5, 10);
  stage.say(1, MessageType::trouble, 5);
  Assembling assembling(stage);
  const EncodedMessage event = stage.hear(rank_at(1), {MessageType::propose});
  CHECK(event.header.generation == 6);
  CHECK(event.header.clock == 5);
  PayloadReader reader(event.payload);
  CHECK(reader.get<std::uint64_t>() == lineage);
  CHECK(reader.get<std::uint32_t>() == 3);
  for (const std::uint32_t rank : {0u, 1u, 2u}) {
    CHECK(reader.get<std::uint32_t>() == rank);
    CHECK(reader.get<std::uint64_t>() == stage.incarnation_of(rank_at(rank)));
    CHECK(reader.text().starts_with("127.0.0.1:") == (rank == 2));
  }
  CHECK(reader.complete());
  stage.say_trained();
  CHECK_FALSE(assembling.result());
}

TEST_CASE("a rank does not propose the first generation if a lower rank has sent its status") {
  AmongRanks stage(1, 2);
  stage.tell_statuses({0}, 0, 10);
  CHECK(stage.gives_up() == "gave up waiting for the next generation (900 s)");
  CHECK_FALSE(stage.was_told(rank_at(0), MessageType::propose));
}

TEST_CASE("a rank does not propose if other ranks train without it, even if these ranks are silent") {
  AmongRanks stage(0, 2, [](AssemblySettings& settings) { settings.workers = 1; });
  stage.tell_statuses({1}, 5, 40);
  CHECK(stage.gives_up().starts_with("gave up"));
  CHECK_FALSE(stage.was_told(rank_at(1), MessageType::propose));
  stage.hears_of(1, Event::Kind::silent);
  CHECK(stage.gives_up().starts_with("gave up"));
}

TEST_CASE("a member proposes if the only lower member has reported that it is in no generation") {
  AmongRanks stage(1, 3);
  stage.start_generation(1, {0, 1, 2});
  stage.tell_statuses({0, 2}, 1, 10);
  CHECK(stage.gives_up() == "gave up waiting for the next generation (900 s)");
  CHECK_FALSE(stage.was_told(rank_at(2), MessageType::propose));
  stage.tell_statuses({0}, 0, no_state);
  Assembling assembling(stage);
  CHECK(stage.hear_proposal(2).second == Ranks{0, 1, 2});
  stage.say_trained();
  CHECK_FALSE(assembling.result());
}

TEST_CASE("the number of a proposal is higher than all generation numbers that the rank has received") {
  AmongRanks stage(0, 3);
  stage.start_generation(1, {0, 1});
  stage.tell_statuses({1}, 1, 10);
  stage.tell_status(2, 20, no_state, lineage + 1);
  stage.depart(rank_at(2));
  stage.say(1, MessageType::trouble, 1);
  Assembling assembling(stage);
  CHECK(stage.hear_proposal(1).first == 21);
  stage.say_trained();
  CHECK_FALSE(assembling.result());
}

TEST_CASE("a rank abandons its own proposal when it accepts another rank's proposal") {
  AmongRanks stage(0, 3);
  stage.tell_statuses({1, 2}, 0, 10);
  Assembling assembling(stage);
  const std::uint64_t own = stage.hear_proposal(2).first;
  stage.accept(1, own, stage.state);
  stage.propose(2, own + 1, {0, 1, 2}, 0);
  REQUIRE(stage.answer_type(2) == MessageType::accept);
  stage.accept(2, own, stage.state);
  stage.begin(2, own + 1);
  REQUIRE(assembling.result());
  CHECK(stage.assembly.generation().number == own + 1);
}

TEST_CASE(
    "a refusal of an earlier proposal has no effect; if one rank sends two accept messages, the later one "
    "counts") {
  AmongRanks stage(0, 3);
  stage.tell_statuses({1, 2}, 0, 10);
  Assembling assembling(stage);
  const std::uint64_t number = stage.hear_proposal(1).first;
  stage.say(2, MessageType::refuse, 50, number - 1);
  stage.accept(1, number, StateVersion{11, 1});
  stage.accept(1, number);
  stage.propose(1, number, {0, 1, 2}, 0);
  REQUIRE(stage.answer_type(1) == MessageType::refuse);  // so the rank has handled all earlier messages, too
  stage.accept(2, number, StateVersion{10, 1});
  const auto beginning = assembling.result();
  REQUIRE(beginning);
  CHECK(stage.assembly.generation().number == number);
  CHECK(beginning->step == 10);
  CHECK(beginning->source == 0);
  CHECK(beginning->lagging == Ranks{1});
}

TEST_CASE("an accept message is ignored if its sender is not in the proposal") {
  AmongRanks stage(0, 4);
  stage.tell_statuses({1, 2}, 0, 10);
  Assembling assembling(stage);
  const auto [number, members] = stage.hear_proposal(2);
  REQUIRE(members == Ranks{0, 1, 2});
  stage.accept(3, number, StateVersion{50, 1});
  stage.propose(3, number, {0, 1, 2, 3}, 0);
  REQUIRE(stage.answer_type(3) == MessageType::refuse);  // so the rank has handled all earlier messages, too
  stage.accept(1, number, StateVersion{10, 1});
  stage.propose(1, number, {0, 1, 2}, 0);
  REQUIRE(stage.answer_type(1) == MessageType::refuse);
  stage.accept(2, number, StateVersion{9, 1});
  const auto beginning = assembling.result();
  REQUIRE(beginning);
  CHECK(stage.assembly.generation().number == number);
  CHECK(beginning->step == 10);
  CHECK(beginning->source == 0);
  CHECK(beginning->lagging == Ranks{2});
}

TEST_CASE("a proposal whose bytes are cut off gets no answer") {
  AmongRanks stage(1, 3);
  PayloadWriter payload;
  payload.put(lineage).put(std::uint32_t{3});
  for (const std::uint32_t rank : {0u, 1u})
    payload.put(rank).put(stage.incarnation_of(rank_at(rank))).text("");
  stage.say(0, MessageType::propose, 1, 0, 0, payload.bytes());
  CHECK_FALSE(stage.was_told(rank_at(0), MessageType::accept));
  stage.propose(0, 1, {0, 1, 2}, 0);
  CHECK(stage.answer_type(0) == MessageType::accept);
}

TEST_CASE("a rank dials the lower ranks of a proposal, and accepts when it is connected with all of them") {
  AmongRanks stage(2, 3);
  stage.depart(rank_at(0));
  ProposeMessage proposal{1, 0, lineage, {{{0, 2000}, "first:1"}, {{1, 1001}, ""}}};
  proposal.members.push_back({{2, stage.incarnation_of(rank_at(2))}, "own:1"});
  stage.say(1, encode(proposal));
  CHECK(stage.dialled == std::vector<std::pair<PeerId, std::string>>{{rank_at(0), "first:1"}});
  stage.start_assembling();
  CHECK_FALSE(stage.was_told(rank_at(1), MessageType::accept));
  stage.arrive(rank_at(0));
  CHECK(stage.answer_type(1) == MessageType::accept);
}

TEST_CASE("if no promise binds a rank, its patience starts again when all training ranks have ended") {
  AmongRanks stage(1, 3, [](AssemblySettings& settings) {
    settings.patience = std::chrono::seconds(30);
    settings.minimum = 3;
  });
  bool bound = false;
  SUBCASE("no promise binds the rank") {}
  SUBCASE("a promise binds the rank, so only its next process can help to start the run") {
    bound = true;
    stage.propose(0, 1, {0, 1, 2}, 0);
    stage.propose(2, 2, {1, 2}, 1);
  }
  stage.tell_status(0, bound ? 1 : 4, 20);
  stage.start_assembling();
  const SteadyTime begin = stage.now;
  while (stage.now < begin + std::chrono::seconds(20)) stage.pass();
  stage.depart(rank_at(0));
  while (stage.assembly.phase() == Assembly::Phase::assembling) stage.pass();
  CHECK((stage.now >= begin + std::chrono::seconds(50)) == !bound);
}

TEST_CASE("if a rank needs all ranks for the start, it waits longer when another rank comes back") {
  AmongRanks stage(1, 3, [](AssemblySettings& settings) {
    settings.patience = std::chrono::seconds(30);
    settings.minimum = 3;
  });
  stage.depart(rank_at(0));
  stage.depart(rank_at(2));
  stage.start_assembling();
  const SteadyTime begin = stage.now;
  while (stage.now < begin + std::chrono::seconds(20)) stage.pass();
  stage.arrive(rank_at(0));
  while (stage.assembly.phase() == Assembly::Phase::assembling) stage.pass();
  CHECK(stage.now >= begin + std::chrono::seconds(50));
  CHECK(stage.now < begin + std::chrono::seconds(61));
}

TEST_CASE(
    "a rank refuses a proposal that leaves out a member of a later generation, even if that member is lost") {
  AmongRanks stage(1, 4);
  stage.start_generation(1, {0, 1, 2, 3});
  stage.tell_status(3, 3, 50);
  REQUIRE(stage.assembly.generation().number == 0);
  stage.depart(rank_at(3));  // so recently that rank 3 may come back
  stage.propose(0, 9, {0, 1, 2}, 2);
  CHECK(stage.answer_type(0) == MessageType::refuse);
  stage.arrive(rank_at(3));
  stage.propose(0, 10, {0, 1, 2, 3}, 2);
  CHECK(stage.answer_type(0) == MessageType::accept);
}

TEST_CASE("a proposal leaves out one rank of each broken link that a refusal has named") {
  AmongRanks stage(0, 5);
  std::vector<std::uint32_t> members{0, 1, 2, 3, 4};
  Ranks expected{0, 2, 3, 4};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> cuts{{3, 1}, {2, 1}};
  SUBCASE("the rank with the most broken links") {}
  SUBCASE("the higher one of two ranks with one broken link each") {
    cuts = {{2, 3}};
    expected = {0, 1, 2, 4};
  }
  SUBCASE("one rank of each pair, if two pairs cannot reach each other") {
    cuts = {{1, 2}, {4, 3}};
    expected = {0, 1, 3};
  }
  SUBCASE("the rank that is not a member") {
    members = {0, 2, 3, 4};
    cuts = {{2, 1}};
  }
  SUBCASE("nobody, if the rank that was named is unknown") {
    cuts = {{1, 9}};
    expected = {0, 1, 2, 3, 4};
  }
  SUBCASE("nobody, if the refusal names no rank") {
    cuts = {};
    expected = {0, 1, 2, 3, 4};
  }
  stage.start_generation(1, members);
  for (const std::uint32_t rank : {1u, 2u, 3u, 4u}) {
    const bool member = std::ranges::find(members, rank) != members.end();
    stage.tell_statuses({rank}, member ? 1 : 0, 10);
  }
  stage.say(2, MessageType::trouble, 1);
  Assembling assembling(stage);
  const std::uint64_t first = stage.hear_proposal(2).first;
  for (const auto& [one, other] : cuts) stage.say(one, MessageType::refuse, first, first, other + 1);
  if (cuts.empty()) stage.say(2, MessageType::refuse, first, first);
  std::pair<std::uint64_t, Ranks> next;
  do {
    next = stage.hear_proposal(expected.contains(2) ? 2 : 3);
  } while (next.second != expected && next.first < first + 3);
  CHECK(next.second == expected);
  stage.say_trained();
  CHECK_FALSE(assembling.result());
}

TEST_CASE(
    "a rank that was left out for a broken link may be let in again if one end of the link has a new "
    "incarnation") {
  AmongRanks stage(0, 4);
  stage.start_generation(1, {0, 1, 2});
  stage.tell_statuses({1, 2}, 1, 10);
  stage.say(1, MessageType::trouble, 1);
  {
    Assembling assembling(stage);
    const std::uint64_t first = stage.hear_proposal(1).first;
    stage.say(1, MessageType::refuse, first, first, 2 + 1);
    const auto [second, members] = stage.hear_proposal(1);
    CHECK(members == Ranks{0, 1});
    stage.accept(1, second, stage.state);
    REQUIRE(assembling.result());
  }
  stage.tell_statuses({2}, 0, 10);
  CHECK_FALSE(stage.assembly.wants_newcomers(stage.now));
  stage.arrive(rank_at(1));
  stage.tell_statuses({1}, 0, 10);
  CHECK(stage.assembly.wants_newcomers(stage.now));
}

TEST_CASE(
    "a generation ends if a member reports trouble, or is lost, silent or replaced, if the rank accepts a "
    "proposal, or if the run ends") {
  AmongRanks stage(1, 4);
  stage.depart(rank_at(3));
  stage.start_generation(4, {0, 1, 2});
  const auto says = [&](MessageType type, std::uint64_t generation) {
    const bool done = type == MessageType::done;
    return stage.say(0, type, generation, 0, 0, done ? PayloadWriter().text("its result").bytes() : Bytes());
  };
  CHECK(says(MessageType::feed, 4));
  CHECK(says(MessageType::trouble, 3));
  CHECK(says(MessageType::trouble, 5));
  CHECK(stage.hears_of(3, Event::Kind::up));
  CHECK(stage.hears_of(3, Event::Kind::down, true));
  CHECK(stage.hears_of(0, Event::Kind::up));
  Event server;
  server.kind = Event::Kind::down;
  server.peer = {Role::server, 0};
  server.incarnation = stage.incarnation_of(rank_at(0));
  CHECK(stage.handle(server));
  Event older;
  older.kind = Event::Kind::down;
  older.peer = rank_at(0);
  older.incarnation = 5;
  CHECK(stage.handle(older));
  SUBCASE("a member reports trouble in the generation") { CHECK_FALSE(says(MessageType::trouble, 4)); }
  SUBCASE("the run is trained") { CHECK_FALSE(says(MessageType::done, 0)); }
  SUBCASE("a member is lost") { CHECK_FALSE(stage.hears_of(2, Event::Kind::down)); }
  SUBCASE("a member is silent") { CHECK_FALSE(stage.hears_of(2, Event::Kind::silent)); }
  SUBCASE("a member connects as another incarnation") {
    Event event;
    event.kind = Event::Kind::up;
    event.peer = rank_at(2);
    event.incarnation = 5;
    CHECK_FALSE(stage.handle(event));
  }
  SUBCASE("the rank accepts a proposal") {
    stage.propose(0, 5, {0, 1, 2}, 4);
    REQUIRE(stage.answer_type(0) == MessageType::accept);
    CHECK_FALSE(says(MessageType::feed, 4));
  }
  CHECK_FALSE(says(MessageType::feed, 4));
}

TEST_CASE("a silent rank counts as gone until it is audible again, and then it gets a status") {
  AmongRanks stage(1, 3);
  stage.start_generation(1, {0, 1});
  CHECK_FALSE(stage.assembly.is_lowest_live());
  CHECK(stage.assembly.is_lowest_live({0}));
  stage.hears_of(0, Event::Kind::silent);
  CHECK(stage.assembly.is_lowest_live());
  stage.tell_statuses({2}, 0, 10);
  CHECK(stage.assembly.wants_newcomers(stage.now));
  stage.hears_of(2, Event::Kind::silent);
  CHECK_FALSE(stage.assembly.wants_newcomers(stage.now));
  stage.hears_of(2, Event::Kind::audible);
  CHECK(stage.assembly.wants_newcomers(stage.now));
  EncodedMessage status;
  do {
    status = stage.hear(rank_at(2), {MessageType::status});
  } while (status.header.generation != 1);
  stage.hears_of(0, Event::Kind::audible);
  CHECK_FALSE(stage.assembly.is_lowest_live());
}

TEST_CASE("if a rank connects again, it is let in only after it has sent a complete status") {
  AmongRanks stage(0, 3);
  stage.start_generation(1, {0, 1});
  stage.tell_statuses({2}, 0, 10);
  CHECK(stage.assembly.wants_newcomers(stage.now));
  stage.hears_of(2, Event::Kind::down);
  stage.hears_of(2, Event::Kind::up);
  CHECK_FALSE(stage.assembly.wants_newcomers(stage.now));
  stage.say(2, MessageType::status, 0, 10, 0, PayloadWriter().put(std::uint32_t{0}).bytes());
  CHECK_FALSE(stage.assembly.wants_newcomers(stage.now));
  stage.tell_statuses({2}, 0, 10);
  CHECK(stage.assembly.wants_newcomers(stage.now));
}

TEST_CASE(
    "last_loss() is the time at which the last rank was lost, and ignores ranks that ended with exit code "
    "0") {
  AmongRanks stage(0, 4);
  stage.start_generation(1, {0, 1, 2, 3});
  stage.depart(rank_at(1));
  const auto first = stage.assembly.last_loss();
  REQUIRE(first);
  stage.now += std::chrono::seconds(1);
  stage.depart(rank_at(2));
  const auto second = stage.assembly.last_loss();
  REQUIRE(second);
  CHECK(*second > *first);
  stage.end(rank_at(3), ExitCode::trained);
  CHECK(stage.assembly.last_loss() == second);
  CHECK_FALSE(stage.assembly.somebody_is_there());
}
