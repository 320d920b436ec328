#include "runtime/collectives/device_sum.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/collectives/device_sum");

using namespace mlk::rt;
using mlk::kernels::Collectives, mlk::kernels::Communicator, mlk::kernels::GroupId;

namespace {

// The behaviour of a played group, which the test sets.
struct Group {
  Communicator::State state = Communicator::State::working;
  std::size_t sums_done = 0;
  Communicator::Traffic traffic;
  std::string failure;
  bool aborts = true;  // the library returns from an abort
  int aborted = 0;
};

struct PlayedCommunicator final : Communicator {
  explicit PlayedCommunicator(Group& played) : group(played) {}
  State state() override { return group.state; }
  std::size_t sums_done() const override { return group.sums_done; }
  std::string failure() const override { return group.failure; }
  Traffic traffic() override { return group.traffic; }
  void sum(std::span<float>) override {}
  bool abort() override {
    ++group.aborted;
    return group.aborts;
  }
  Group& group;
};

struct PlayedCollectives final : Collectives {
  int version() const override { return its_version; }
  const std::string& why_none() const override { return why; }
  std::optional<GroupId> new_group() override { return id; }
  std::unique_ptr<Communicator> join(const GroupId& joined, int, int) override {
    joined_id = joined;
    return std::make_unique<PlayedCommunicator>(group);
  }

  int its_version = 22809;
  std::string why;
  std::optional<GroupId> id = GroupId();
  GroupId joined_id{};
  Group group;
};

// Members of a generation, which sum the floats that write_report() writes.
struct Members {
  explicit Members(std::size_t count) : collectives(count) {
    for (std::size_t i = 0; i < count; ++i) {
      sums.push_back(std::make_unique<DeviceSum>(&collectives[i], std::size_t{1} << 18, quiet));
    }
  }
  void begin() {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i]->begin(sums.size(), i);
  }
  void add_up() {
    std::vector<float> sum(DeviceSum::talk_floats), own(DeviceSum::talk_floats, 99.0f);
    for (const auto& member : sums) {
      member->write_report(own);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    }
    for (const auto& member : sums) member->read_reports(sum, now);
  }
  void all_become(Communicator::State state) {
    for (auto& each : collectives) each.group.state = state;
  }
  bool all_use_devices() const {
    return std::ranges::all_of(sums, [](const auto& member) { return member->is_in_use(); });
  }
  bool none_uses_devices() const {
    return std::ranges::none_of(sums, [](const auto& member) { return member->is_in_use(); });
  }

  Log quiet{"test", -1};
  SteadyTime now{std::chrono::hours(1)};
  std::vector<PlayedCollectives> collectives;
  std::vector<std::unique_ptr<DeviceSum>> sums;
};

}  // namespace

TEST_CASE("all members begin to sum on their devices at the same step, when all have joined the group") {
  Members members(3);
  for (std::size_t i = 0; i < sizeof(GroupId); ++i)
    (*members.collectives[0].id)[i] = static_cast<unsigned char>(255 - 2 * i);  // every byte has to arrive
  members.begin();
  members.add_up();
  for (const auto& each : members.collectives) CHECK(each.joined_id == *members.collectives[0].id);
  members.add_up();
  CHECK(members.none_uses_devices());
  members.collectives[0].group.state = members.collectives[2].group.state = Communicator::State::done;
  members.add_up();
  CHECK(members.none_uses_devices());
  members.all_become(Communicator::State::done);
  members.add_up();
  CHECK(members.all_use_devices());
  members.begin();
  CHECK(members.none_uses_devices());
}

TEST_CASE("take_traffic() returns the bytes since the last call, times 2 * (n - 1) / n for n members") {
  Members members(4);
  members.begin();
  members.add_up();
  auto& group = members.collectives[0].group;
  const auto take = [&] { return members.sums[0]->take_traffic(); };
  CHECK(take().seconds == 0);
  members.all_become(Communicator::State::done);
  members.add_up();
  group.traffic = {1000, 0.5};
  const BusTraffic first = take();
  CHECK(first.bytes == 1500);
  CHECK(first.seconds == 0.5);
  CHECK(take().seconds == 0);
  group.traffic = {3000, 1.5};
  const BusTraffic second = take();
  CHECK(second.bytes == 3000);
  CHECK(second.bytes_per_second() == 3000);

  members.begin();  // the next group counts from zero
  members.add_up();
  group.traffic = {1000, 0.25};
  members.add_up();
  CHECK(take().seconds == 0.25);
}

TEST_CASE(
    "the hosts compute the sums if a member has no NCCL, has another version of NCCL, or cannot make a "
    "group") {
  for (const int which : {0, 1, 2}) {
    Members members(2);
    if (which == 0) members.collectives[1].its_version = 0;
    if (which == 1) members.collectives[1].its_version = 22705;
    if (which == 2) members.collectives[0].id.reset();
    members.all_become(Communicator::State::done);
    members.begin();
    for (int step = 0; step < 3; ++step) members.add_up();
    CHECK(members.none_uses_devices());
  }
}

TEST_CASE("the hosts compute the sums if the devices have no collectives, or if there is only one member") {
  Log quiet{"test", -1};
  DeviceSum none(nullptr, 1, quiet);
  std::vector<float> talk(DeviceSum::talk_floats, 1.0f);
  none.begin(2, 0);
  none.write_report(talk);
  CHECK(std::ranges::count(talk, 0.0f) == static_cast<std::ptrdiff_t>(talk.size()));
  none.read_reports(talk, SteadyTime());
  CHECK_FALSE(none.is_in_use());
  CHECK(none.give_up(false));
  Members alone(1);
  alone.all_become(Communicator::State::done);
  alone.begin();
  for (int step = 0; step < 3; ++step) alone.add_up();
  CHECK(alone.none_uses_devices());
}

TEST_CASE("all members abandon a group if one member cannot join it or takes too long") {
  for (const bool fails : {true, false}) {
    Members members(2);
    members.begin();
    members.add_up();
    if (fails) members.collectives[1].group.state = Communicator::State::failed;
    if (!fails) members.now += std::chrono::seconds(31);
    members.add_up();
    for (const auto& each : members.collectives) CHECK(each.group.aborted == 1);
    members.all_become(Communicator::State::done);
    members.add_up();
    CHECK(members.none_uses_devices());
  }
}

TEST_CASE(
    "members begin to sum on their devices once all have joined the group, even if one member's time limit "
    "is over") {
  Members members(2);
  members.begin();
  members.add_up();
  members.all_become(Communicator::State::done);
  std::vector<float> sum(DeviceSum::talk_floats), own(DeviceSum::talk_floats);
  for (const auto& member : members.sums) {
    member->write_report(own);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
  }
  members.sums[0]->read_reports(sum, members.now);
  members.sums[1]->read_reports(sum, members.now + std::chrono::seconds(31));
  CHECK(members.all_use_devices());
}

TEST_CASE(
    "progress() returns `stands_still` if no part ends within 500 ms plus 16 ms for each MiB of the largest "
    "part") {
  Members members(2);
  members.begin();
  members.add_up();
  members.all_become(Communicator::State::done);
  members.add_up();
  REQUIRE(members.all_use_devices());
  using enum DeviceSum::Progress;
  DeviceSum& sum = *members.sums[0];
  Group& group = members.collectives[0].group;
  const auto after = [&](int milliseconds) { return sum.progress(members.now + Milliseconds(milliseconds)); };
  CHECK(after(0) == done);
  group.state = Communicator::State::working;
  CHECK(after(0) == under_way);
  CHECK(after(515) == under_way);  // 500 ms, and 16 ms for a MiB
  CHECK(after(517) == stands_still);
  ++group.sums_done;
  CHECK(after(600) == under_way);
  CHECK(after(1117) == stands_still);
  group.state = Communicator::State::failed;
  CHECK(after(1200) == failed);
}

TEST_CASE("failed groups no longer count after a later group has made many sums") {
  Members members(2);
  for (int generation = 0; generation < 8; ++generation) {
    members.begin();
    members.add_up();
    members.all_become(Communicator::State::done);
    members.add_up();
    REQUIRE(members.all_use_devices());
    for (auto& each : members.collectives) each.group.sums_done = 1000;
    for (const auto& member : members.sums) CHECK(member->give_up(true));
  }
}

TEST_CASE("a member joins no group after three failures; the loss of a member does not count as a failure") {
  Members members(2);
  members.collectives[1].group.aborts = false;
  for (int generation = 0; generation < 8; ++generation) {
    members.begin();
    members.add_up();
    members.all_become(Communicator::State::done);
    members.add_up();
    const bool lost = generation < 5;
    REQUIRE(members.all_use_devices());
    CHECK(members.sums[0]->give_up(!lost));
    CHECK_FALSE(members.sums[1]->give_up(!lost));
  }
  members.begin();
  for (int step = 0; step < 3; ++step) members.add_up();
  CHECK(members.none_uses_devices());
}
