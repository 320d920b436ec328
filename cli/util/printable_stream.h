// The last check before the terminal. It makes all text of a stream printable, in case a caller forgot to do
// this for text of a server.
#pragma once

#include <functional>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>

namespace mlk {

// Stands between a stream and the stream's buffer while this object lives. Passes text on in the form of
// printable(). Control sequences stay only if `allowed` permits them. Several threads may write at the same
// time.
class PrintableStream : private std::streambuf {
 public:
  struct Sequences {
    bool colors = false;     // ESC [ ... m
    bool live_line = false;  // \r ESC [ K: erases the live line
    bool all_bytes = false;  // output for another program, unchanged
  };

  // Calls `allowed` whenever text is passed on, because the result depends on flags that are parsed later.
  PrintableStream(std::ostream& stream, std::function<Sequences()> allowed);
  ~PrintableStream() override;  // passes on the waiting text
  PrintableStream(const PrintableStream&) = delete;
  PrintableStream& operator=(const PrintableStream&) = delete;

 private:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;
  bool pass_on(bool all);

  std::ostream& stream_;
  std::streambuf* const target_;
  const std::function<Sequences()> allowed_;
  std::mutex mutex_;
  std::string waiting_;  // text that is not yet passed on; guarded by the mutex
};

}  // namespace mlk
