// What malloc does with the buffers of messages once they are free.
#pragma once

#include <malloc.h>

namespace mlk::rt {

// Chunks of a model come and go with every step. Memory that goes back to the system in between has to be
// cleared and mapped again each time, which takes longer than the chunk's way through the network. For the
// whole process; at its start.
inline void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

}  // namespace mlk::rt
