// Makes malloc keep the buffers of messages when they are freed.
#pragma once

#include <malloc.h>

namespace mlk::rt {

// Every step allocates and frees chunks of a model. If memory returns to the system in between, the kernel
// has to clear and map it again, which takes longer than sending the chunk. Applies to the whole process;
// call it at the start.
inline void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

}  // namespace mlk::rt
