// What the helpers in pods write: bytes, messages, and the last message before they give up.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mlk::pod {

std::span<const std::byte> bytes_of(std::string_view text);

// Writes all bytes, even if the descriptor is non-blocking: another process that shares the descriptor may
// have set this mode. Returns false after an error (EPIPE: the descriptor has no reader), or if the reader
// has read nothing for the given time.
bool write_all(int fd, std::span<const std::byte> bytes, int longest_wait_ms);

// Prints "mlk: " and the text as one line on standard error. give_up() then ends the process with `code`.
void log(std::string_view text);
[[noreturn]] void give_up(int code, std::string_view text);

}  // namespace mlk::pod
