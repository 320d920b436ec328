// Encodes the records by hand: the wire format of protocol buffers is tags, little-endian numbers and
// lengths.
#include "runtime/metrics/event_file.h"

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "runtime/base/crc32c.h"

namespace mlk::rt {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

template <typename T>
void put_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// The type that the wire format gives each field of a message.
enum class WireType : std::uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_tag(std::string& out, std::uint64_t field, WireType type) {
  put_varint(out, field << 3 | static_cast<std::uint64_t>(type));
}

void put_bytes(std::string& out, std::uint64_t field, std::string_view value) {
  put_tag(out, field, WireType::bytes);
  put_varint(out, value.size());
  out += value;
}

std::string event_at(double wall_time, std::uint64_t step) {
  std::string out;
  put_tag(out, 1, WireType::fixed64);
  put_raw(out, wall_time);
  put_tag(out, 2, WireType::varint);
  put_varint(out, step);
  return out;
}

std::uint32_t masked_crc32c(std::string_view data) {
  const std::uint32_t crc = crc32c(data.data(), data.size());
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "host";
  return name;
}

}  // namespace

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string tfrecord(std::string_view data) {
  std::string out;
  put_raw(out, std::uint64_t{data.size()});
  put_raw(out, masked_crc32c(out));
  out += data;
  put_raw(out, masked_crc32c(data));
  return out;
}

std::string version_event(double wall_time) {
  std::string out = event_at(wall_time, 0);
  put_bytes(out, 3, "brain.Event:2");
  return out;
}

std::string restart_event(double wall_time, std::uint64_t step) {
  std::string session;
  put_tag(session, 1, WireType::varint);
  put_varint(session, 1);  // SessionLog.START
  std::string out = event_at(wall_time, step);
  put_bytes(out, 7, session);
  return out;
}

std::string scalars_event(double wall_time, std::uint64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.name);
    put_tag(value, 2, WireType::fixed32);
    put_raw(value, static_cast<float>(scalar.value));
    put_bytes(summary, 1, value);
  }
  std::string out = event_at(wall_time, step);
  put_bytes(out, 5, summary);
  return out;
}

EventFile::~EventFile() {
  if (fd_ >= 0) close(fd_);
}

void EventFile::write(std::uint64_t step, std::span<const Scalar> scalars, double wall_time) {
  if (given_up_) return;
  const bool first = fd_ < 0;
  if (first && !open_file()) return;
  if (first && !(append(version_event(wall_time)) && append(restart_event(wall_time, step)))) return;
  append(scalars_event(wall_time, step, scalars));
}

// TensorBoard reads the files of a folder in the order of their names. So a name begins with the time, in
// seconds, at which the file was opened. A counter follows, as a process may open several files in one
// second.
bool EventFile::open_file() {
  constexpr int most_tries = 100;
  try {
    std::filesystem::create_directories(folder_);
  } catch (const std::system_error& error) {
    give_up("cannot make the folder: " + error.code().message());
    return false;
  }
  const std::string base = folder_ + "/events.out.tfevents." +
                           std::to_string(static_cast<std::uint64_t>(wall_seconds())) + "." + host_name() +
                           "." + std::to_string(getpid()) + ".";
  for (int count = 0; count < most_tries; ++count) {
    fd_ = open((base + std::to_string(count)).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC,
               0644);
    if (fd_ >= 0) return true;
    if (errno != EEXIST) break;
  }
  give_up(std::string("cannot make a file: ") + std::strerror(errno));
  return false;
}

// Writes each record with one call, so that a process that is killed leaves only complete records.
bool EventFile::append(std::string_view event) {
  const std::string record = tfrecord(event);
  const ssize_t written = ::write(fd_, record.data(), record.size());
  if (written == static_cast<ssize_t>(record.size())) return true;
  give_up(written < 0 ? std::string("cannot write: ") + std::strerror(errno)
                      : "cannot write: the disk is full");
  return false;
}

void EventFile::give_up(const std::string& what) {
  log_.line("event files in " + folder_ + ": " + what + "; goes on without them");
  given_up_ = true;
}

}  // namespace mlk::rt
