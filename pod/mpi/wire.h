// The messages between the processes of mlk-mpi, and how the processes prove that they have the run's key.
// Pure: bytes in, bytes out.
//
//   server to client   magic, nonce
//   client to server   magic, nonce, HMAC(key, "client", both nonces)
//   server to client   HMAC(key, "server", both nonces)
//
// Then frames in both directions: length of the payload (4 bytes, little-endian), type, payload, and the
// first 16 bytes of HMAC(key of the direction, number of the frame, length, type, payload). So only an owner
// of the key can begin a connection, add frames, change frames or repeat frames. Frames are not encrypted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pod/base/output.h"
#include "runtime/base/hmac.h"

namespace mlk::mpi {

using Bytes = std::vector<std::byte>;
using Nonce = std::array<std::byte, 32>;

enum class Type : std::uint8_t {
  lead = 1,  // first frame of a launcher; this launcher controls the agent from now on
  run,       // first frame of mpirun's remote shell: a command line for sh
  process,   // first frame of a process of the program: its rank
  output,    // of a command: descriptor 1 or 2 (a byte), then the bytes for this descriptor
  ended,     // of a command or a process: see End
  program,   // to a process: the program that it has to run, see Program
  failed,    // to the launcher: what has failed, see End
  stopping,  // to the launcher: Kubernetes has asked the pod to end
  finish,    // to the agent: end with this code (a byte); the agent answers with the same frame
  signal,    // to a process: a signal for the program (a byte)
};

struct Frame {
  Type type = Type::failed;
  Bytes payload;
};

inline constexpr std::size_t most_payload = 2 << 20;  // of one frame; the command of a pod is always shorter
inline constexpr std::size_t nonce_size = 32, proof_size = 32, mac_size = 16, header_size = 5;

using pod::bytes_of;
std::string_view text_of(std::span<const std::byte> bytes);

// How a process has ended.
struct End {
  std::uint32_t rank = 0;  // in MPI; unused for a command
  std::uint8_t code = 0;   // the exit code, or 128 + the signal that killed it
  bool told = false;       // the agent or mpirun had asked the process to end
  bool operator==(const End&) const = default;
};
Bytes encode(const End& end);
std::optional<End> decode_end(std::span<const std::byte> payload);

// The program that the processes of a pod execute, and the folder in which they execute it.
struct Program {
  std::uint32_t agent = 0;  // the process id of the agent
  std::string folder;
  std::vector<std::string> words;
  bool operator==(const Program&) const = default;
};
Bytes encode(const Program& program);
std::optional<Program> decode_program(std::span<const std::byte> payload);

// One end of a connection. Any invalid input breaks the session. A broken session neither accepts nor sends
// bytes.
class Session {
 public:
  enum class Side { client, server };
  Session(Side side, std::string_view key, const Nonce& nonce);

  // Accepts bytes that have arrived. Returns false if the connection must be closed.
  bool receive(std::span<const std::byte> bytes);
  bool ready() const { return stage_ == Stage::ready; }  // the other end has the key
  std::optional<Frame> next();
  bool broken() const { return stage_ == Stage::broken; }

  void send(Type type, std::span<const std::byte> payload = {});  // no effect before ready()
  std::span<const std::byte> output() const { return std::span(out_).subspan(sent_); }
  void sent(std::size_t bytes);

 private:
  enum class Stage { greeting, proof, ready, broken };

  bool shake_hands();
  rt::Digest proof_of(std::string_view who) const;
  void derive_keys();
  void put(std::span<const std::byte> bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  std::span<const std::byte> input() const { return std::span(in_).subspan(taken_); }

  Side side_;
  Bytes key_;
  Nonce own_, other_{};
  Stage stage_ = Stage::greeting;
  Bytes in_, out_;
  std::size_t taken_ = 0, sent_ = 0;
  rt::Digest sending_{}, receiving_{};  // keys of the directions
  std::uint64_t frames_sent_ = 0, frames_received_ = 0;
};

}  // namespace mlk::mpi
