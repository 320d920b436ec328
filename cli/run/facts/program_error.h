// Finds the error of a failed program in its last lines: between the frames and banners of launchers, and
// above footers that are printed below an error. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlk {

struct ProgramError {
  std::string line;  // "ValueError: bad lr", with " (rank 1)" where a launcher names a rank; may be empty
  std::string text;  // all lines except the lines of launchers
  bool is_found = false;  // whether `line` is an error of the program
};

// `text`: the end of a log, cleaned by program_text(). The error is the last error that was not printed by a
// launcher. Launchers are torchrun, mpirun, mlk-mpi, and processes that wait for other processes. An error
// that blames no other process is preferred. If an error has several lines, the line with its type is used.
ProgramError program_error(std::string_view text);

// Whether `text`, a termination message, has no error, but more of the log may show one: the message has
// lines of a launcher, or the kubelet may have cut off its beginning. `text` is cleaned by program_text().
bool lacks_the_error(std::string_view text);

// Completes a message that the kubelet took from a log: appends the lines that `log_end` has below the last
// line of the message. The kubelet does not wait for lines that are still on their way when the program has
// ended. Returns `log_end` if there is no message. Returns the message unchanged if `log_end` lacks the last
// line of the message, since then the message is from another source.
std::string with_lines_below(std::string_view message, std::string_view log_end);

}  // namespace mlk
