// gzip, RFC 1952.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace mlk::image {

// Compresses bytes that come in parts. The result is a sequence of members (section 2.2 of RFC 1952), which
// threads compress in parallel. Where a member ends depends only on the bytes, not on the parts. The result
// has no file name and no time, so one version of mlk gives the same result for the same bytes on every
// machine.
class GzipStream {
 public:
  // level: 1 (fast) to 12. take: called with the compressed bytes, in order, in the thread that calls add()
  // and finish().
  GzipStream(int level, std::function<void(std::string_view)> take);
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
  void add(std::string_view bytes);
  void finish();  // call it after the last add()

 private:
  struct Member;
  struct State;
  std::unique_ptr<Member> fresh_member();
  void write_first();
  const std::unique_ptr<State> state_;
};

// Throws Error{failure} if `bytes` are no gzip file, are cut off, or unpack to more than `most_bytes`.
std::string gunzip(std::string_view bytes, std::size_t most_bytes);

}  // namespace mlk::image
