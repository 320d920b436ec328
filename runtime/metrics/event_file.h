// TensorBoard's event files, written without TensorFlow: a file is a sequence of records, each with one
// Event message.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/log.h"

namespace mlk::rt {

struct Scalar {
  std::string name;
  double value = 0;
};

double wall_seconds();  // since 1970

// A record of the TFRecord format (tensorflow/core/lib/io/record_writer.h): the length, the checksum of the
// length, the data, and the checksum of the data. The checksums are masked crc32c.
std::string tfrecord(std::string_view data);

// Event messages (tensorflow/core/util/event.proto). wall_time: seconds since 1970.
std::string version_event(double wall_time);  // the first of a file
// Makes TensorBoard discard everything in older files from `step` on.
std::string restart_event(double wall_time, std::uint64_t step);
std::string scalars_event(double wall_time, std::uint64_t step, std::span<const Scalar> scalars);

// One file of one process; a restarted process opens another file. For one thread at a time.
class EventFile {
 public:
  // The first write makes the folder and the file, so that a process which never reports leaves none. `log`
  // must outlive this object.
  EventFile(std::string folder, const Log& log) : folder_(std::move(folder)), log_(log) {}
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Does not throw: an error is logged once, and the run continues without event files. wall_time: the time
  // of the report, in seconds since 1970.
  void write(std::uint64_t step, std::span<const Scalar> scalars, double wall_time);

 private:
  bool open_file();
  bool append(std::string_view event);
  void give_up(const std::string& what);

  const std::string folder_;
  const Log& log_;
  int fd_ = -1;
  bool given_up_ = false;
};

}  // namespace mlk::rt
