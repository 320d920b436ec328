// The newest metrics lines of runs, from short tails of their logs.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace mlk::kube {
class Client;
}

namespace mlk {

struct RunObjects;

// How long a command that shows runs waits for their logs, however many they are.
inline constexpr std::chrono::milliseconds tails_budget{1500};

// Reads the logs that may hold the newest metrics line of each run, side by side, into its `lines`. What is
// not answered within `budget`, or is refused, is left out. Never throws for what the server says.
void read_tails(kube::Client& client, const std::string& name_space, const std::vector<RunObjects*>& runs,
                std::chrono::milliseconds budget = tails_budget);

}  // namespace mlk
