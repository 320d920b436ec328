// The last check before the terminal. It makes all text of a stream printable, also text of a server that a
// caller forgot to make printable.
#pragma once

#include <functional>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>

namespace mlk {

// Sits between a stream and its buffer during its lifetime. Passes text on like printable(). Control
// sequences pass only if mlk itself writes such sequences. Several threads may write at the same time.
class PrintableStream : private std::streambuf {
 public:
  struct Sequences {
    bool colors = false;     // ESC [ ... m
    bool live_line = false;  // \r ESC [ K: erases the live line
    bool all_bytes = false;  // output for another program, unchanged
  };

  // Calls `allowed` at each write, because the result depends on flags that are parsed later.
  PrintableStream(std::ostream& stream, std::function<Sequences()> allowed);
  ~PrintableStream() override;  // writes the rest
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
  std::string waiting_;  // guarded by the mutex: not yet passed on
};

}  // namespace mlk
