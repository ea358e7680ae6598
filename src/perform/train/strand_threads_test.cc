#include "perform/train/strand_threads.h"

#include <gmock/gmock.h>

#include <atomic>

namespace tombolo::train {
namespace {

using testing::ElementsAre;

// Each waits for the other to begin: one after the other they would never end.
TEST(StrandThreads, WorkAtTheSameTime) {
  StrandThreads strands(2);
  for (int turn = 0; turn < 100; ++turn) {
    std::atomic<int> begun = 0;
    const StrandThreads::Work wait = [&] {
      ++begun;
      while (begun < 2) std::this_thread::yield();
    };
    const StrandThreads::Work works[] = {wait, wait};
    std::vector<size_t> ended;
    strands.run(works, [&](size_t which) { ended.push_back(which); });
    EXPECT_THAT(ended, testing::UnorderedElementsAre(0, 1));
  }
}

// The second one ends only when the caller has heard of the first, and the other way round.
TEST(StrandThreads, TellOfEachAsItEnds) {
  StrandThreads strands(2);
  for (const size_t early : {size_t{0}, size_t{1}}) {
    std::atomic<bool> heard = false;
    const StrandThreads::Work at_once = [] {};
    const StrandThreads::Work later = [&] { heard.wait(false); };
    const StrandThreads::Work works[] = {early == 0 ? at_once : later,
                                         early == 0 ? later : at_once};
    std::vector<size_t> ended;
    strands.run(works, [&](size_t which) {
      ended.push_back(which);
      heard = true;
      heard.notify_all();
    });
    EXPECT_THAT(ended, ElementsAre(early, 1 - early));
  }
}

}  // namespace
}  // namespace tombolo::train
