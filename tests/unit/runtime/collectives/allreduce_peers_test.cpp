// One rank of an allreduce run whose only peer is played by the test: what the rank sends, and how it handles
// the messages of the peer.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/device_sum.h"
#include "runtime/membership/allreduce_protocol.h"
#include "runtime/membership/peers.h"
#include "runtime/train/trainer.h"
#include "tests/unit/runtime/ranks_on_loopback.h"

TEST_SUITE_BEGIN("runtime/collectives/allreduce_peers");

using namespace mlk::rt;
using namespace mlk::test;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t no_step = ~std::uint64_t{0}, its_lineage = 7, played_incarnation = 900;
// The floats before the gradients in a sum of two ranks.
constexpr std::size_t front_floats = 4 + DeviceSum::talk_floats;

struct PlayedState {
  std::vector<float> parameters, optimizer_state;
  std::uint64_t step = 0, position = 0, since = 0, summed_in = 0;
};

// The rank under test, and the other of two ranks, which the test plays.
struct TwoRanks {
  LoopbackRun run{2};
  const std::uint32_t self, other;
  std::unique_ptr<LoopbackRank> rank;
  std::unique_ptr<Transport> transport;  // is destroyed first, so that the rank waits for nothing
  std::uint64_t incarnation = 0;         // of the rank under test
  // These members compute the expected values of both ranks.
  LaunchEnv own_env;
  Log quiet{"test", -1};
  StopSignal stop;
  std::ostringstream lines;
  Reporter reporter{lines, "", 0};
  std::unique_ptr<Job> job;
  std::unique_ptr<Trainer> trainer;

  explicit TwoRanks(std::uint32_t rank_under_test) : self(rank_under_test), other(1 - rank_under_test) {
    run.config.optimizer = {.type = OptimizerType::adam, .lr = 0.01};
    run.config.report_every = 1;
    run.config.steps = 100;
    transport = std::make_unique<Transport>(
        Identity{"run", {Role::worker, other}, played_incarnation, run.addresses[other]},
        parse_key(key_of_ranks()), TransportOptions(), [](std::string_view) {});
  }

  void start(const std::function<void(LaunchEnv&)>& change = {}) {
    LaunchEnv env = run.env(static_cast<int>(self));
    if (change) change(env);
    incarnation = hash_incarnation(env.incarnation);
    own_env = env;
    job = std::make_unique<Job>(Job{own_env, run.config, stop, reporter, quiet});
    trainer = std::make_unique<Trainer>(*job);
    rank = std::make_unique<LoopbackRank>(env, run.config, run.folder / "log");
    if (self < other) transport->dial({Role::worker, self}, run.addresses[self]);
    Event event;
    do {
      event = any();
    } while (event.kind != Event::Kind::up);
    CHECK(event.incarnation == incarnation);
  }

  Event any() {
    auto event = transport->receive(std::chrono::steady_clock::now() + rank_patience);
    REQUIRE(event);
    return std::move(*event);
  }
  // Returns the next message of this type, and drops messages of other types.
  Event hear(MessageType type) {
    while (true) {
      Event event = any();
      REQUIRE(event.kind != Event::Kind::down);
      if (event.kind == Event::Kind::message && event.header.type == type) return event;
    }
  }
  void accept(std::uint64_t number, std::optional<StateVersion> of = {}) {
    const auto [header, payload] = encode(AcceptMessage{number, of});
    say(header.type, header.generation, header.clock, header.key, payload, header.offset);
  }
  void say(MessageType type, std::uint64_t generation, std::uint64_t clock = 0, std::uint32_t key = 0,
           const Bytes& payload = {}, std::uint64_t offset = 0) {
    Header header;
    header.type = type;
    header.generation = generation;
    header.clock = clock;
    header.key = key;
    header.offset = offset;
    if (type == MessageType::reduce) header.data_type = DataType::float32;
    REQUIRE(transport->send({Role::worker, self}, header, payload));
  }
  void propose(std::uint64_t number, std::uint64_t follows) {
    PayloadWriter payload;
    payload.put(its_lineage).put(std::uint32_t{2});
    for (const std::uint32_t member : {0u, 1u})
      payload.put(member).put(member == self ? incarnation : played_incarnation).text("");
    say(MessageType::propose, number, follows, 0, payload.bytes());
  }
  void begin(std::uint64_t number, std::uint64_t step, std::uint32_t feeder,
             const std::set<std::uint32_t>& hungry, std::uint64_t restarts = 0) {
    PayloadWriter payload;
    payload.put(restarts).put(static_cast<std::uint32_t>(hungry.size()));
    for (const std::uint32_t one : hungry) payload.put(one);
    say(MessageType::begin, number, step, feeder, payload.bytes());
  }
  static Bytes feed_payload(const PlayedState& state, std::span<const float> part) {
    return PayloadWriter()
        .put(state.position)
        .put(state.since)
        .put(state.summed_in)
        .raw(std::as_bytes(part))
        .bytes();
  }
  void feed(std::uint64_t generation, const PlayedState& state, std::span<const float> part,
            std::size_t offset) {
    say(MessageType::feed, generation, state.step, 0, feed_payload(state, part), offset);
  }
  void feed_all(std::uint64_t generation, const PlayedState& state) {
    feed(generation, state, state.parameters, 0);
    feed(generation, state, state.optimizer_state, state.parameters.size());
  }

  PlayedState start_state() {
    PlayedState state;
    const auto parameters = trainer->model().parameters();
    state.parameters.assign(parameters.begin(), parameters.end());
    state.optimizer_state.assign(trainer->state_size(), 0);
    return state;
  }
  // The summand of a rank in the sum of a step, computed from half of the 32 samples of the step.
  std::vector<float> summand(const PlayedState& state, std::uint32_t of, float seconds) {
    std::ranges::copy(state.parameters, trainer->model().parameters().begin());
    const double loss = trainer->compute(state.position + 16 * of, 16);
    std::vector<float> values = {static_cast<float>(loss) * 16, 16, 0, 0};
    values[2 + of] = seconds;
    values.resize(front_floats);  // the rank has no device that could sum
    for (const float gradient : trainer->model().gradients()) values.push_back(16 * gradient);
    return values;
  }
  void advance(PlayedState& state, const std::vector<float>& one, const std::vector<float>& two,
               std::uint64_t generation) {
    std::ranges::copy(state.parameters, trainer->model().parameters().begin());
    const auto gradients = trainer->model().gradients();
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i] = (one[front_floats + i] + two[front_floats + i]) / 32;
    trainer->apply(state.optimizer_state, {state.step, state.step - state.since});
    const auto parameters = trainer->model().parameters();
    state.parameters.assign(parameters.begin(), parameters.end());
    ++state.step;
    state.position += 32;
    state.summed_in = generation;
  }
  static std::vector<float> floats_of(std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
  // Receives the rank's frame in the sum of the step and compares the frame with the expected one. Returns
  // the seconds in the frame.
  float hear_summand(const PlayedState& state, std::uint64_t generation) {
    const Event frame = hear(MessageType::reduce);
    CHECK(frame.header.generation == generation);
    CHECK(frame.header.clock == state.step);
    CHECK(frame.header.key == 0);
    const std::vector<float> heard = floats_of(frame.payload);
    const float seconds = heard.size() > 2 + self ? heard[2 + self] : -1;
    CHECK(farthest(heard, summand(state, self, seconds)) < 1e-4);
    return seconds;
  }
  // Makes a step of the other rank, and computes the state that both ranks get. Returns the seconds that the
  // rank under test reports for the step before.
  float step(PlayedState& state, std::uint64_t generation, float seconds = 0) {
    const float told = hear_summand(state, generation);
    const std::vector<float> own = summand(state, other, seconds);
    say(MessageType::reduce, generation, state.step, 0,
        PayloadWriter().raw(std::as_bytes(std::span(own))).bytes());
    advance(state, summand(state, 0, 0), summand(state, 1, 0), generation);
    return told;
  }
  // The state that the rank under test sends.
  PlayedState hear_feed(std::uint64_t generation) {
    PlayedState state;
    const std::size_t size = trainer->model().parameters().size(), all = size + trainer->state_size();
    std::vector<float> values;
    while (values.size() < all) {
      const Event event = hear(MessageType::feed);
      CHECK(event.header.generation == generation);
      CHECK(event.header.offset == values.size());
      state.step = event.header.clock;
      PayloadReader reader(event.payload);
      state.position = reader.get<std::uint64_t>();
      state.since = reader.get<std::uint64_t>();
      state.summed_in = reader.get<std::uint64_t>();
      const auto more = floats_of(reader.raw(reader.left()));
      REQUIRE_FALSE(more.empty());
      values.insert(values.end(), more.begin(), more.end());
    }
    CHECK(values.size() == all);
    state.parameters.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(size));
    state.optimizer_state.assign(values.begin() + static_cast<std::ptrdiff_t>(size), values.end());
    return state;
  }
  static void check_same(const PlayedState& one, const PlayedState& two) {
    CHECK(one.step == two.step);
    CHECK(one.position == two.position);
    CHECK(one.since == two.since);
    CHECK(one.summed_in == two.summed_in);
    CHECK(farthest(one.parameters, two.parameters) < 1e-5);
    CHECK(farthest(one.optimizer_state, two.optimizer_state) < 1e-5);
  }
  // Ends the rank under test by a done message of the other rank. Checks that the rank under test has the
  // result of the message.
  void end_elsewhere() {
    const std::string result = R"({"schema":1,"done":true,"message":"of the other"})";
    say(MessageType::done, 0, 0, 0, PayloadWriter().text(result).bytes());
    CHECK(rank->wait() == ExitCode::trained);
    CHECK(rank->result() == nlohmann::json::parse(result));
  }
};

// A state of step 40, in a run that has an optimizer's state only since step 38.
PlayedState late_state(TwoRanks& stage) {
  PlayedState state = stage.start_state();
  for (std::size_t i = 0; i < state.parameters.size(); ++i) state.parameters[i] *= 0.75f;
  for (std::size_t i = 0; i < state.optimizer_state.size(); ++i)
    state.optimizer_state[i] = 0.001f * static_cast<float>(1 + i % 7);
  state.step = 40;
  state.position = 40 * 32 + 3;
  state.since = 38;
  state.summed_in = 6;
  return state;
}

}  // namespace

TEST_CASE("when a rank receives a state, it continues from there, with the same steps as the sender") {
  TwoRanks stage(1);
  stage.start();
  const Event status = stage.hear(MessageType::status);
  CHECK(status.header.generation == 0);
  CHECK(status.header.clock == no_step);
  CHECK(PayloadReader(status.payload).get<std::uint64_t>() == 0);
  PlayedState state = late_state(stage);
  stage.propose(8, 0);
  const Event accept = stage.hear(MessageType::accept);
  CHECK(accept.header.generation == 8);
  CHECK(accept.header.clock == no_step);
  CHECK(accept.header.offset == 0);
  stage.begin(8, 40, 0, {1}, 5);
  const std::size_t size = state.parameters.size(), all = size + state.optimizer_state.size();

  // The rank drops all of these messages: none is a part of the state that it waits for.
  const std::vector<float> wrong(size, 9.0f);
  stage.feed(7, state, wrong, 0);
  stage.feed(8, state, wrong, all);
  stage.feed(8, state, wrong, all + 1);
  stage.feed(8, state, wrong, all - size + 1);
  stage.feed(8, state, std::span(wrong).first(2), size - 1);
  PlayedState impossible = state;
  impossible.since = 41;
  stage.feed(8, impossible, wrong, 0);
  stage.say(MessageType::feed, 8, 40, 0, PayloadWriter().put(std::uint64_t{1}).put(std::uint64_t{1}).bytes());
  Bytes ragged = TwoRanks::feed_payload(state, wrong);
  ragged.push_back(std::byte{1});
  stage.say(MessageType::feed, 8, 40, 0, ragged);

  // The state arrives in four parts.
  stage.feed(8, state, std::span(state.parameters).first(10), 0);
  stage.feed(8, state, std::span(state.parameters).subspan(10), 10);
  stage.feed(8, state, std::span(state.optimizer_state).first(20), size);
  stage.feed(8, state, std::span(state.optimizer_state).subspan(20), size + 20);
  CHECK(stage.step(state, 8) == 0);
  CHECK(stage.step(state, 8) > 0);
  stage.hear_summand(state, 8);
  stage.rank->reach(42, 2);
  CHECK(stage.rank->measurements().run->generation == 8);
  CHECK(stage.rank->measurements().run->restarts == 5);

  // The rank abandons the step and repeats it; it drops the time measured in that step.
  stage.say(MessageType::trouble, 8);
  CHECK(stage.hear(MessageType::trouble).header.generation == 8);
  CHECK(stage.hear(MessageType::status).header.clock == 42);
  stage.propose(9, 8);
  const Event again = stage.hear(MessageType::accept);
  CHECK(again.header.generation == 9);
  CHECK(again.header.clock == 42);
  CHECK(again.header.offset == 8);
  stage.begin(9, 42, 0, {});
  CHECK(stage.step(state, 9) == 0);
  stage.hear_summand(state, 9);
  CHECK(stage.rank->metrics() == "");
  stage.end_elsewhere();
}

TEST_CASE(
    "a rank uses a state that arrives before the begin message, and drops a state of an older generation") {
  TwoRanks stage(1);
  stage.start();
  PlayedState state = late_state(stage), older = state;
  older.step = 30;
  for (float& parameter : older.parameters) parameter = 5;
  stage.propose(3, 0);
  stage.hear(MessageType::accept);
  stage.feed_all(2, older);
  stage.feed_all(3, state);
  stage.begin(3, 40, 0, {1});
  stage.step(state, 3);
  stage.hear_summand(state, 3);
  stage.end_elsewhere();
}

TEST_CASE(
    "an accept message contains the generation of the last sum in the state, even if another rank sent this "
    "state") {
  TwoRanks stage(1);
  stage.start();
  const PlayedState state = late_state(stage);
  stage.propose(8, 0);
  stage.hear(MessageType::accept);
  stage.begin(8, 40, 0, {1});
  stage.feed_all(8, state);
  stage.hear_summand(state, 8);
  stage.say(MessageType::trouble, 8);
  stage.propose(9, 8);
  const Event accept = stage.hear(MessageType::accept);
  CHECK(accept.header.clock == 40);
  CHECK(accept.header.offset == 6);

  // The rank sends the state to the other rank, if that rank is behind.
  stage.begin(9, 40, 1, {0});
  TwoRanks::check_same(stage.hear_feed(9), state);
  stage.hear_summand(state, 9);

  // The lowest rank lags, so the rank under test saves its state.
  stage.rank->stop();
  stage.say(MessageType::trouble, 9);
  CHECK(stage.rank->wait() == ExitCode::terminated);
  const auto result = stage.rank->result();
  CHECK(result["message"] == "terminated after step 40");
  CHECK(result["checkpoint"] == 40);
  const TrainingState saved = stage.run.state();
  CHECK(saved.position == state.position);
  CHECK(farthest(saved.parameters, state.parameters) == 0);
}

TEST_CASE("a lagging rank offers its own state until the first part of a newer state has arrived") {
  TwoRanks stage(1);
  stage.start();
  const PlayedState state = late_state(stage);
  stage.propose(8, 0);
  stage.hear(MessageType::accept);
  stage.begin(8, 40, 0, {1});
  stage.feed_all(8, state);
  stage.hear_summand(state, 8);
  stage.say(MessageType::trouble, 8);
  stage.propose(9, 8);
  stage.hear(MessageType::accept);
  stage.begin(9, 41, 0, {1});
  std::uint64_t step = 40, summed_in = 6;
  SUBCASE("nothing has come") {}
  SUBCASE("a part has come") {
    stage.feed(9, state, std::span(state.parameters).first(10), 0);
    step = no_step;
    summed_in = 0;
  }
  stage.say(MessageType::trouble, 9);
  stage.propose(10, 9);
  const Event accept = stage.hear(MessageType::accept);
  CHECK(accept.header.clock == step);
  CHECK(accept.header.offset == summed_in);
  CHECK(accept.header.generation == 10);
  stage.end_elsewhere();
}

TEST_CASE("a proposer whose state is partly overwritten starts the run anew if no other rank has a state") {
  TwoRanks stage(0);
  stage.start();
  stage.say(MessageType::status, 0, no_step, 0,
            PayloadWriter().put(std::uint64_t{0}).put(std::uint8_t{0}).bytes());
  const PlayedState state = late_state(stage);
  const std::uint64_t first = stage.hear(MessageType::propose).header.generation;
  stage.accept(first, StateVersion{state.step, state.summed_in});
  CHECK(stage.hear(MessageType::begin).header.clock == state.step);
  stage.feed(first, state, std::span(state.parameters).first(10), 0);
  stage.say(MessageType::trouble, first);
  const std::uint64_t second = stage.hear(MessageType::propose).header.generation;
  stage.accept(second);
  CHECK(stage.hear(MessageType::begin).header.clock == 0);
  TwoRanks::check_same(stage.hear_feed(second), stage.start_state());
  stage.end_elsewhere();
}

TEST_CASE("the proposing rank makes the first state, sends it, reports, and ends the run for all") {
  TwoRanks stage(0);
  stage.run.config.steps = 5;
  stage.start();
  stage.say(MessageType::status, 0, no_step, 0,
            PayloadWriter().put(std::uint64_t{0}).put(std::uint8_t{0}).bytes());
  const std::uint64_t first = stage.hear(MessageType::propose).header.generation;
  CHECK(first == 1);
  stage.accept(first);
  const Event begin = stage.hear(MessageType::begin);
  CHECK(begin.header.clock == 0);
  CHECK(begin.header.key == 0);
  PlayedState state = stage.start_state();
  TwoRanks::check_same(stage.hear_feed(first), state);
  CHECK(stage.step(state, first, 0.5f) == 0);
  CHECK(stage.step(state, first, 1000.0f) > 0);
  stage.hear_summand(state, first);
  stage.rank->reach(2, 2);

  stage.say(MessageType::trouble, first);
  const std::uint64_t second = stage.hear(MessageType::propose).header.generation;
  CHECK(second == 2);
  stage.accept(second);
  CHECK(stage.hear(MessageType::begin).header.clock == 2);
  TwoRanks::check_same(stage.hear_feed(second), state);
  for (int i = 0; i < 3; ++i) stage.step(state, second, 1000.0f);

  const std::string result = PayloadReader(stage.hear(MessageType::done).payload).text();
  SUBCASE("the other rank ends with exit code 0") { stage.transport->send_goodbye(0); }
  SUBCASE("the other rank ends with a final exit code, and the reporter gets SIGTERM") {
    stage.transport->send_goodbye(static_cast<int>(ExitCode::bad_data));
    stage.rank->stop();
  }
  SUBCASE("the reporter gets SIGTERM while it stays for the other rank") { stage.rank->stop(); }
  CHECK(stage.rank->wait() == ExitCode::trained);
  CHECK(stage.rank->result() == nlohmann::json::parse(result));
  const auto told = stage.rank->result();
  CHECK(told["done"] == true);
  CHECK(told["checkpoint"] == 5);
  CHECK(told["metrics"]["slowest"] == "worker/1");
  CHECK(told["metrics"]["generation"] == 2);
  CHECK(told["metrics"]["restarts"] == 0);
  CHECK(told["curve"].size() == 4);  // 2, 3, 4 and 5; step 5 was reported twice
  const TrainingState saved = stage.run.state();
  CHECK(saved.step == 5);
  CHECK(saved.position == 5 * 32);
  CHECK(farthest(saved.parameters, state.parameters) < 1e-5);
}

TEST_CASE("if a rank gets SIGTERM while it waits for the state, it saves nothing") {
  TwoRanks stage(0);
  stage.start();
  stage.say(MessageType::status, 0, 10, 0,
            PayloadWriter().put(std::uint64_t{0}).put(std::uint8_t{0}).bytes());
  const std::uint64_t number = stage.hear(MessageType::propose).header.generation;
  stage.accept(number, StateVersion{10, 1});
  const Event begin = stage.hear(MessageType::begin);
  CHECK(begin.header.clock == 10);
  CHECK(begin.header.key == 1);
  stage.rank->stop();
  CHECK(stage.rank->wait() == ExitCode::terminated);
  CHECK(stage.rank->result()["message"] == "terminated after step 0");
  CHECK_FALSE(stage.rank->result().contains("checkpoint"));
  CHECK_FALSE(fs::exists(stage.run.folder.path() / "checkpoints"));
}

TEST_CASE("a trained rank waits for another rank at most for the configured time") {
  TwoRanks stage(0);
  stage.run.config.steps = 1;
  stage.start([](LaunchEnv& env) { env.late_seconds = 0; });
  stage.say(MessageType::status, 0, no_step, 0,
            PayloadWriter().put(std::uint64_t{0}).put(std::uint8_t{0}).bytes());
  const std::uint64_t number = stage.hear(MessageType::propose).header.generation;
  stage.accept(number);
  PlayedState state = stage.start_state();
  TwoRanks::check_same(stage.hear_feed(number), state);
  stage.step(state, number);
  stage.hear(MessageType::done);
  CHECK(stage.rank->wait() == ExitCode::trained);
}
