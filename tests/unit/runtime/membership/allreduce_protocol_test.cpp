#include "runtime/membership/allreduce_protocol.h"

#include <algorithm>
#include <span>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/membership/allreduce_protocol");

using namespace mlk::rt;

namespace {

// The payload without its last byte, and the payload with one byte more.
Bytes shorter(Bytes payload) {
  payload.resize(payload.size() - 1);
  return payload;
}
Bytes longer(Bytes payload) {
  payload.push_back(std::byte{0});
  return payload;
}

}  // namespace

TEST_CASE(
    "a status message says the generation, the lineage, the step if any, and whether the sender waits for "
    "a sum") {
  const auto [header, payload] = encode(StatusMessage{4, 77, 40, true});
  CHECK(header.type == MessageType::status);
  const auto status = decode_status(header, payload);
  REQUIRE(status);
  CHECK(status->generation == 4);
  CHECK(status->lineage == 77);
  CHECK(status->step == 40);
  CHECK(status->waits_for_sum);
  CHECK_FALSE(decode_status(header, shorter(payload)));
  CHECK_FALSE(decode_status(header, longer(payload)));
  Bytes neither = payload;
  neither.back() = std::byte{2};
  CHECK_FALSE(decode_status(header, neither));
  const auto without = encode(StatusMessage{4, 77, {}, false});
  CHECK_FALSE(decode_status(without.header, without.payload)->step);
  CHECK_FALSE(decode_status(without.header, without.payload)->waits_for_sum);
}

TEST_CASE(
    "a propose message carries its number, the generation that it follows, its lineage and the members' "
    "addresses") {
  const auto [header, payload] = encode(ProposeMessage{6, 5, 77, {{{0, 11}, ""}, {{3, 12}, "host:1"}}});
  CHECK(header.type == MessageType::propose);
  const auto proposal = decode_propose(header, payload);
  REQUIRE(proposal);
  CHECK(proposal->number == 6);
  CHECK(proposal->follows == 5);
  CHECK(proposal->lineage == 77);
  REQUIRE(proposal->members.size() == 2);
  CHECK(proposal->members[1].member == Member{3, 12});
  CHECK(proposal->members[1].address == "host:1");
  CHECK_FALSE(decode_propose(header, shorter(payload)));
  CHECK_FALSE(decode_propose(header, longer(payload)));
  // A longer list of members than is possible is not read at all.
  CHECK_FALSE(decode_propose(header, PayloadWriter().put(std::uint64_t{77}).put(~std::uint32_t{0}).bytes()));
}

TEST_CASE("an accept message carries the version of the sender's state, if it has one") {
  const auto [header, payload] = encode(AcceptMessage{6, StateVersion{40, 5, 7}});
  const auto with = decode_accept(header, payload);
  REQUIRE(with);
  CHECK(with->number == 6);
  CHECK(with->state == StateVersion{40, 5, 7});
  CHECK_FALSE(decode_accept(header, shorter(payload)));
  CHECK_FALSE(decode_accept(header, longer(payload)));
  const auto [bare, without] = encode(AcceptMessage{6, {}});
  REQUIRE(decode_accept(bare, without));
  CHECK_FALSE(decode_accept(bare, without)->state);
}

TEST_CASE("a refuse message carries the promised number, the refused number and the unreachable rank") {
  const RefuseMessage refusal = decode_refuse(encode(RefuseMessage{9, 6, 0}).header);
  CHECK(refusal.promised == 9);
  CHECK(refusal.refused == 6);
  CHECK(refusal.unreachable == 0);
  CHECK_FALSE(decode_refuse(encode(RefuseMessage{9, 6, {}}).header).unreachable);
}

TEST_CASE("a begin message carries the step, the restarts, the source and the lagging ranks") {
  const auto [header, payload] = encode(BeginMessage{6, 40, 2, 1, {0, 3}});
  CHECK(header.type == MessageType::begin);
  const auto begin = decode_begin(header, payload);
  REQUIRE(begin);
  CHECK(begin->number == 6);
  CHECK(begin->step == 40);
  CHECK(begin->restarts == 2);
  CHECK(begin->source == 1);
  CHECK(begin->lagging == std::set<std::uint32_t>{0, 3});
  CHECK_FALSE(decode_begin(header, shorter(payload)));
  CHECK_FALSE(decode_begin(header, longer(payload)));
  CHECK_FALSE(decode_begin(header, PayloadWriter().put(std::uint64_t{2}).put(~std::uint32_t{0}).bytes()));
}

TEST_CASE("a trouble message carries its generation, and a done message carries the result of the run") {
  CHECK(decode_trouble(encode(TroubleMessage{6}).header).generation == 6);
  const auto [header, payload] = encode(DoneMessage{6, "its result"});
  REQUIRE(decode_done(header, payload));
  CHECK(decode_done(header, payload)->result == "its result");
  CHECK_FALSE(decode_done(header, shorter(payload)));
}

TEST_CASE("a part of a state carries the version of the state, its offset and its floats") {
  const std::vector<float> values{1.5f, -2};
  const auto [header, payload] =
      encode(StateMessage{7, 40, 5120, 12, 6, 3, std::as_bytes(std::span(values))});
  CHECK(header.type == MessageType::feed);
  const auto state = decode_state(header, payload);
  REQUIRE(state);
  CHECK(state->generation == 7);
  CHECK(state->step == 40);
  CHECK(state->position == 5120);
  CHECK(state->state_since == 12);
  CHECK(state->summed_in == 6);
  CHECK(state->offset == 3);
  CHECK(std::ranges::equal(state->floats, std::as_bytes(std::span(values))));
  CHECK_FALSE(decode_state(header, shorter(payload)));
  CHECK_FALSE(decode_state(header, Bytes(payload.begin(), payload.begin() + 20)));
}
