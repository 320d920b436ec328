// What people type who know kubectl, git, Docker or Slurm, and what does it here.
#pragma once

#include <string>
#include <vector>

namespace mlk {

// Advice for an unknown command, as the rest of a line that begins with "hint: "; empty when there is none.
// `rest`: the words after it, of which the first that is no flag takes the place of RUN or FILE.
std::string habit_of_command(const std::string& word, const std::vector<std::string>& rest);

// Advice for a flag that `command` does not have.
std::string habit_of_flag(const std::string& command, const std::string& flag,
                          const std::vector<std::string>& rest);

}  // namespace mlk
