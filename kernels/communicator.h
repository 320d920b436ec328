// Sums over the devices of several processes, if a library for such sums (NCCL) is installed.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace mlk::kernels {

// One device in a group of processes that have one device each. Sums run beside the operations of the device.
// A sum begins after the operations that were queued before it. The caller must not use the numbers again
// before sums_done() counts the sum.
class Communicator {
 public:
  virtual ~Communicator() = default;  // does the same as abort(), if abort() was not called

  enum class State { working, done, failed };
  // State::working: the device is still joining the group, or sums are in progress. For any thread.
  virtual State state() = 0;
  // How many sums are done. For any thread.
  virtual std::size_t sums_done() const = 0;
  // The bytes that this member contributed to the sums that are done, and the seconds that these sums took on
  // the device, including the waits for other members.
  struct Traffic {
    double bytes = 0, seconds = 0;
  };
  virtual Traffic traffic() = 0;
  // A sentence that says what has failed; empty if nothing has failed. For any thread.
  virtual std::string failure() const = 0;

  // Begins to add up numbers over all members, in place. The numbers lie in a buffer of the device. All
  // members call sum() in the same order with the same sizes. After a failure, sum() does nothing. For the
  // thread of the Ops.
  virtual void sum(std::span<float> numbers) = 0;

  // Abandons the sums in progress; their numbers are then invalid. For any thread; waits 1 s at most. False:
  // the library may still write to these numbers.
  [[nodiscard]] virtual bool abort() = 0;
};

// The id by which the members of a new group find each other.
using GroupId = std::array<unsigned char, 128>;

class Collectives {
 public:
  virtual ~Collectives() = default;

  // The version of the library, as a number that grows with each version; 0: there is no library. All members
  // need the same version.
  virtual int version() const = 0;
  // A sentence that says why there is no library; empty if there is a library.
  virtual const std::string& why_none() const = 0;
  // The id of a new group; nothing if the library cannot make an id.
  virtual std::optional<GroupId> new_group() = 0;
  // Begins to join a group as member `index`, counted from 0. The other members join at the same time. The
  // result is never null. Its state() says whether the group is complete, and whether joining has failed.
  virtual std::unique_ptr<Communicator> join(const GroupId& group, int members, int index) = 0;
};

}  // namespace mlk::kernels
