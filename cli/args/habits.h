// Words and flags of kubectl, git, Docker and Slurm, and what a user of mlk types or does instead.
#pragma once

#include <string>
#include <vector>

namespace mlk {

// Advice for an unknown command, as the rest of a line that begins with "hint: "; empty if mlk has no advice.
// `rest`: the words after the command. The first of these words that is not a flag takes the place of RUN in
// the advice if it may be the name of a run, and the place of FILE if it may be the path of a file.
std::string habit_of_command(const std::string& word, const std::vector<std::string>& rest);

// Advice for an unknown word after `mlk local`, in the form of habit_of_command().
std::string habit_of_local(const std::string& word);

// Advice for a flag that `command` does not have, in the form of habit_of_command().
std::string habit_of_flag(const std::string& command, const std::string& flag,
                          const std::vector<std::string>& rest);

}  // namespace mlk
