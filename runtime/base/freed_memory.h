// Makes malloc keep the buffers of messages when they are freed.
#pragma once

#include <malloc.h>

namespace mlk::rt {

// Chunks of a model are allocated and freed in every step. Memory that returns to the system in between has
// to be cleared and mapped again, which takes longer than sending the chunk. Applies to the whole process;
// call it at the start.
inline void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

}  // namespace mlk::rt
