// What a failed program says of its failure, found in its last lines: behind the frames and banners of what
// has started it, and above what is printed below an error. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlk {

struct ProgramError {
  std::string line;  // "ValueError: bad lr", with " (rank 1)" where a launcher names a rank; may be empty
  std::string text;  // the lines without those of launchers
  bool is_found = false;  // `line` is an error of the program; else only the last line that says something
};

// `text`: the end of a log, cleaned by program_text(). The error is the last one that no launcher made
// (torchrun, mpirun and mlk's part of it, a process that waits for another), and preferably one that blames
// no other process. Of an error that has several lines, the one with its type.
ProgramError program_error(std::string_view text);

// Whether the end of a log holds too little of it: a launcher's words alone, or a part of a long message.
// `text` as in program_error(), and what a termination message holds at most.
bool lacks_the_error(std::string_view text);

// The message that the kubelet took from a log, with the lines that the log has below it: the kubelet does
// not wait for those that are still on their way when the program has ended. `log_end` if there is no
// message; the message as it is if `log_end` does not have its last line, since then it is of another source.
std::string with_lines_below(std::string_view message, std::string_view log_end);

}  // namespace mlk
