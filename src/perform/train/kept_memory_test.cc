#include "perform/train/kept_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>

namespace tombolo::train {
namespace {

// A block of 64 MB, written, freed and taken again: 16,384 pages the first time at most, next to
// none the second. What is reserved is no memory that is used.
TEST(KeptMemory, WhatIsFreedIsThereAgain) {
  keep_freed_memory(512_MB);
  const auto used = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage;
  };
  const long resident = used().ru_maxrss;
  const auto write = [] {
    constexpr size_t kSize = 64 << 20;
    void* block = std::malloc(kSize);
    std::memset(block, 1, kSize);
    EXPECT_EQ(static_cast<char*>(block)[kSize - 1], 1);
    std::free(block);
  };
  write();
  const long before = used().ru_minflt;
  for (int i = 0; i < 10; ++i) write();
  EXPECT_LT(used().ru_minflt - before, 1000) << "ten times 16,384 where each is new";
  EXPECT_LT(used().ru_maxrss - resident, 200'000) << "kB";
}

}  // namespace
}  // namespace tombolo::train
