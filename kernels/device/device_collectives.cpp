#include "kernels/device/device_collectives.h"

namespace mlk::kernels {
namespace {

class DeviceCommunicator final : public Communicator {
 public:
  DeviceCommunicator(const mlk_device_table& table, mlk_communicator& communicator)
      : table_(table), communicator_(communicator) {}
  ~DeviceCommunicator() override { table_.leave(&communicator_); }
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  State state() override {
    const int state = table_.communicator_state(&communicator_);
    return state < 0 ? State::failed : state > 0 ? State::done : State::working;
  }
  std::size_t sums_done() const override { return table_.sums_done(&communicator_); }
  Traffic traffic() override {
    Traffic traffic;
    table_.traffic(&communicator_, &traffic.bytes, &traffic.seconds);
    return traffic;
  }
  std::string failure() const override {
    const char* const failure = table_.communicator_failure(&communicator_);
    return failure ? failure : "";
  }
  void sum(std::span<float> numbers) override { table_.sum(&communicator_, numbers.data(), numbers.size()); }
  bool abort() override { return table_.abort(&communicator_); }

 private:
  const mlk_device_table& table_;
  mlk_communicator& communicator_;
};

class DeviceCollectives final : public Collectives {
 public:
  DeviceCollectives(const mlk_device_table& table, mlk_device& device) : table_(table), device_(device) {
    char why[512] = "";
    version_ = table.collectives_version(why, sizeof why);
    why_none_ = why;
  }

  int version() const override { return version_; }
  const std::string& why_none() const override { return why_none_; }
  std::optional<GroupId> new_group() override {
    GroupId id{};
    static_assert(sizeof id == mlk_group_id_bytes);
    return table_.new_group(id.data()) ? std::optional(id) : std::nullopt;
  }
  std::unique_ptr<Communicator> join(const GroupId& group, int members, int index) override {
    return std::make_unique<DeviceCommunicator>(table_, *table_.join(&device_, group.data(), members, index));
  }

 private:
  const mlk_device_table& table_;
  mlk_device& device_;
  int version_ = 0;
  std::string why_none_;
};

}  // namespace

std::unique_ptr<Collectives> make_device_collectives(const mlk_device_table& table, mlk_device& device) {
  return std::make_unique<DeviceCollectives>(table, device);
}

}  // namespace mlk::kernels
