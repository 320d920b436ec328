// Reads the newest metrics lines of runs, and the errors of failed runs, from short tails of their logs.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace mlk::kube {
class Client;
}

namespace mlk {

struct RunObjects;

// How long a command that shows runs waits for all their logs together.
inline constexpr std::chrono::milliseconds tails_budget{1500};

// Reads, in parallel, the logs that may contain the newest metrics line of each run, and stores this line in
// the `lines` of the run. Leaves out logs that do not answer within `budget`, and logs that the server
// refuses. If the termination message of a failed pod lacks the program's error, also reads a longer end of
// the log of this pod, and stores it in the `endings` of the run. Never throws for errors of the server.
void read_tails(kube::Client& client, const std::string& name_space, const std::vector<RunObjects*>& runs,
                std::chrono::milliseconds budget = tails_budget);

}  // namespace mlk
