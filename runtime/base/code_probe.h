// Marks places in state machines. Simulated runs must reach each place (FoundationDB's idea: CODE_PROBE).
#pragma once

namespace mlk::rt {

// Called with the name of each probe that the code reaches. Only tests/sim sets it, before its first run.
inline void (*probe_listener)(const char* name) = nullptr;

// name: as in the tables of PROTOCOLS.md, such as "allreduce.proposal-expired". Costs one comparison if no
// listener is set. For any thread.
inline void code_probe(const char* name) {
  if (probe_listener != nullptr) probe_listener(name);
}

}  // namespace mlk::rt
