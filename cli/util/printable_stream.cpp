#include "cli/util/printable_stream.h"

#include <string_view>
#include <utility>

#include "cli/util/text.h"
#include "cli/util/unicode.h"

namespace mlk {
namespace {

constexpr std::size_t most_waiting = 64 * 1024;
constexpr std::size_t longest_piece = longest_color_sequence;  // bytes of a sequence or a character
constexpr std::string_view erase_line = "\r\x1b[K";

}  // namespace

PrintableStream::PrintableStream(std::ostream& stream, std::function<Sequences()> allowed)
    : stream_(stream), target_(stream.rdbuf()), allowed_(std::move(allowed)) {
  const std::ios_base::iostate state = stream_.rdstate();
  stream_.rdbuf(this);  // also clears the state of the stream
  stream_.setstate(state);
}

PrintableStream::~PrintableStream() {
  sync();
  const std::ios_base::iostate state = stream_.rdstate();
  stream_.rdbuf(target_);
  stream_.setstate(state);
}

PrintableStream::int_type PrintableStream::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
  const char c = traits_type::to_char_type(character);
  return xsputn(&c, 1) == 1 ? character : traits_type::eof();
}

std::streamsize PrintableStream::xsputn(const char* text, std::streamsize size) {
  const std::lock_guard lock(mutex_);
  waiting_.append(text, static_cast<std::size_t>(size));
  if (waiting_.size() > most_waiting && !pass_on(false)) return 0;
  return size;
}

int PrintableStream::sync() {
  const std::lock_guard lock(mutex_);
  return pass_on(true) && target_->pubsync() == 0 ? 0 : -1;
}

// Passes the waiting text to the target. If `all` is false, keeps the last bytes, which may be the start of a
// sequence or a character. Returns false if the target accepts no more bytes.
bool PrintableStream::pass_on(bool all) {
  const Sequences allowed = allowed_();
  std::string out;
  std::string_view rest = waiting_;
  if (allowed.all_bytes) out.swap(waiting_), rest = {};
  while (rest.size() >= (all ? 1 : longest_piece)) {
    std::size_t size = allowed.colors ? color_sequence(rest) : 0;
    if (size == 0 && allowed.live_line && rest.starts_with(erase_line)) size = erase_line.size();
    if (size > 0) {
      out += rest.substr(0, size);
    } else {
      size = first_character(rest).bytes;
      out += printable(rest.substr(0, size));
    }
    rest.remove_prefix(size);
  }
  waiting_ = std::string(rest);
  const auto size = static_cast<std::streamsize>(out.size());
  return target_->sputn(out.data(), size) == size;
}

}  // namespace mlk
