// The last door before the terminal: whatever is written to a stream leaves it printable, also where somebody
// forgot that a text was a server's.
#pragma once

#include <functional>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>

namespace mlk {

// Stands between a stream and its buffer for as long as it lives. Lets text through as printable() does, and
// of control sequences those that mlk itself writes. Safe to write to from several threads.
class PrintableStream : private std::streambuf {
 public:
  struct Sequences {
    bool colors = false;     // ESC [ ... m
    bool live_line = false;  // \r ESC [ K: take the line away
  };

  // `allowed` is asked each time something is written: flags decide, which are read later.
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
  std::string waiting_;  // under it: not yet passed on
};

}  // namespace mlk
