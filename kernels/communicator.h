// Sums over the devices of several processes, where these have a library for it (NCCL).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace mlk::kernels {

// One device in a group of processes that each have one. Sums run beside the operations of the device: one
// begins after what the device was given before it, and must be seen done before its numbers are used again.
class Communicator {
 public:
  virtual ~Communicator() = default;  // as abort(), if that was not called

  enum class State { working, done, failed };
  // working: it still joins the group, or sums are under way. For any thread.
  virtual State state() = 0;
  // How many sums are done. For any thread.
  virtual std::size_t sums_done() const = 0;
  // The bytes that a member has given to the sums that are done, and the seconds that they took on the
  // device, with what it waited there for other members.
  struct Traffic {
    double bytes = 0, seconds = 0;
  };
  virtual Traffic traffic() = 0;
  // What has failed, a sentence; empty if nothing has. For any thread.
  virtual std::string failure() const = 0;

  // Begins to add up the numbers, of a buffer of the device, over all members, in place. All members call
  // this in the same order with the same sizes. After a failure it does nothing. For the thread of the Ops.
  virtual void sum(std::span<float> numbers) = 0;

  // Gives up what is under way; numbers of its sums are then spoilt. For any thread; waits 1 s at most.
  // False: the library does not come back, and may still write to these numbers.
  [[nodiscard]] virtual bool abort() = 0;
};

// What the members of a new group have to know, to find each other.
using GroupId = std::array<unsigned char, 128>;

class Collectives {
 public:
  virtual ~Collectives() = default;

  // Of the library, as a number that grows with it; 0: there is none. All members need the same.
  virtual int version() const = 0;
  // Why there is none, a sentence; empty if there is one.
  virtual const std::string& why_none() const = 0;
  // Nothing if the library cannot make one.
  virtual std::optional<GroupId> new_group() = 0;
  // Begins to join a group as the index-th of its members. Others join at the same time; see state(). Never
  // null: failures show there.
  virtual std::unique_ptr<Communicator> join(const GroupId& group, int members, int index) = 0;
};

}  // namespace mlk::kernels
