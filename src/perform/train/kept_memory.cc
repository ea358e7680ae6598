#include "perform/train/kept_memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace tombolo::train {

void keep_freed_memory(Bytes expected) {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);         // no block is a mapping of its own
  mallopt(M_TRIM_THRESHOLD, -1);  // the end of the heap is not given back
  constexpr uintptr_t kHugePage = 2 << 20;
  const double machine = real(sysconf(_SC_PHYS_PAGES)) * real(sysconf(_SC_PAGESIZE));
  const auto size = static_cast<size_t>(std::clamp(expected.value, 0.0, machine / 2));
  if (size < 2 * kHugePage) return;
  // A block that is never touched, and freed again: it leaves the heap that much larger, with huge
  // pages from the first aligned address on.
  void* block = std::malloc(size);
  if (!block) return;
  const auto begin = (reinterpret_cast<uintptr_t>(block) + kHugePage - 1) & ~(kHugePage - 1);
  const auto end = (reinterpret_cast<uintptr_t>(block) + size) & ~(kHugePage - 1);
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  std::free(block);
#else
  static_cast<void>(expected);
#endif
}

}  // namespace tombolo::train
