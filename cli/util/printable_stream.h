// The last check before the terminal: everything written to a stream is made printable, also text of a server
// that a caller forgot to make printable.
#pragma once

#include <functional>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>

namespace mlk {

// Stands between a stream and its buffer as long as it lives. Passes text on as printable() does; of control
// sequences only those that mlk itself writes. Several threads may write at the same time.
class PrintableStream : private std::streambuf {
 public:
  struct Sequences {
    bool colors = false;     // ESC [ ... m
    bool live_line = false;  // \r ESC [ K: erases the live line
    bool all_bytes = false;  // what another program reads, as it is
  };

  // `allowed` is called at each write, since it depends on flags that are parsed later.
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
  std::string waiting_;  // guarded by it: not yet passed on
};

}  // namespace mlk
