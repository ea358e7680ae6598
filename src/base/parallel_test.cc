#include "base/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/interruption.h"

namespace tombolo {
namespace {

TEST(ParallelFor, DoesEveryIndexOnce) {
  for (const int threads : {0, 1, 3, 64}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{1000}}) {
      std::vector<std::atomic<int>> done(count);
      parallel_for(count, threads, [&](size_t i) { ++done[i]; });
      for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ParallelFor, OneThreadGoesInOrder) {
  std::vector<size_t> order;
  parallel_for(4, 1, [&](size_t i) { order.push_back(i); });
  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2, 3));
}

// Two indices that wait for each other need two threads.
TEST(ParallelFor, HelpersWorkAtTheSameTime) {
  std::atomic<int> here{0};
  parallel_for(2, 2, [&](size_t) {
    ++here;
    while (here < 2) std::this_thread::yield();
  });
  EXPECT_EQ(here, 2);
}

TEST(ParallelFor, ThrowsWhatWorkThrows) {
  for (const int threads : {1, 3}) {
    std::atomic<int> begun{0};
    const auto fail_at_second = [&](size_t i) {
      ++begun;
      if (i == 1) throw std::runtime_error("second");
    };
    EXPECT_THROW(parallel_for(100'000, threads, fail_at_second), std::runtime_error);
    EXPECT_LT(begun, 100'000);
  }
}

TEST(ParallelFor, HelpersAreInterruptedWithTheirCaller) {
  Interruption interruption;
  const Interruption::Watched watched(&interruption);
  std::atomic<int> here{0}, done{0};
  const auto work = [&](size_t) {  // the two first, together
    if (++here == 2) interruption.ask();
    while (here < 2) std::this_thread::yield();
    ++done;
  };
  EXPECT_THROW(parallel_for(1000, 2, work), Interrupted);
  EXPECT_LE(done, 3);
}

TEST(Threads, ZeroMeansAsManyAsThereAre) {
  EXPECT_EQ(threads_or_all(3), 3);
  EXPECT_GE(threads_or_all(0), 1);
}

}  // namespace
}  // namespace tombolo
