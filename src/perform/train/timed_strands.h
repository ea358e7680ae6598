// Times of operators on the shards of a rank: alone, and two of each shard from a common start.
//
//   TimedStrands strands(2);
//   const auto times = strands.run(std::vector<TimedStep>{{.first = multiply}, {.first = multiply, .second = send}});
//
// A shard is a thread, as where it trains, and has one more for what runs beside; that one sleeps while operators are
// measured alone. All threads of a step begin when the last one has come, which is looked for and not slept for, so
// that nobody's time has a wake-up in it. Knows nothing of what operators compute, and sees no LibTorch.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "perform/train/shard_team.h"

namespace tombolo::train {

struct TimedStep {
  std::function<void(int32_t shard)> first;
  std::function<void(int32_t shard)> second = {};  // beside it; empty: alone
};

// From the start of all until the last shard was through.
struct StepTime {
  std::chrono::nanoseconds first{}, second{};
};

// Where threads begin something together. Who waits keeps looking, and gives way to others now and then.
class CommonStart {
 public:
  explicit CommonStart(int32_t threads) : threads_(threads) {}
  void meet();     // throws ShardTeam::Abandoned
  void abandon();  // for good

 private:
  const int32_t threads_;
  std::atomic<int32_t> arrived_ = 0;
  std::atomic<uint64_t> meetings_ = 0;
  std::atomic<bool> abandoned_ = false;
};

class TimedStrands {
 public:
  // `on_failure`: called when an operator has thrown, on its thread: wakes who waits for what will not come.
  explicit TimedStrands(int32_t shards, std::function<void()> on_failure = {});

  // One step after the other, on all shards. Throws what the first operator that failed has thrown, and can then be
  // used no more. One call at a time.
  std::vector<StepTime> run(std::span<const TimedStep> steps);

 private:
  struct Interval {
    std::chrono::steady_clock::time_point begin, end;
  };
  void perform(std::span<const TimedStep> steps, int32_t thread);

  const int32_t shards_;
  const std::function<void()> on_failure_;
  ShardTeam team_;  // of twice as many threads: shard by shard, then those beside them
  CommonStart alone_, beside_;
  std::vector<std::vector<Interval>> intervals_;  // by thread, of each step
};

}  // namespace tombolo::train
