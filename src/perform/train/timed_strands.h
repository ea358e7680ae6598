// Times of operators on the shards of a rank: alone, and two of each shard from a common start.
//
//   TimedStrands strands(2);
//   const auto times = strands.run(std::vector<TimedStep>{{.first = multiply}, {.first = multiply, .second = send}});
//
// A shard is a thread, as in training, and has a second one for the concurrent operator, which sleeps while operators
// are measured alone. All threads of a step begin when the last one has arrived; they spin until then instead of
// sleeping, so no measured time includes a wake-up. Independent of what operators compute, and of LibTorch.
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
  std::function<void(int32_t shard)> second = {};  // concurrently; empty: first runs alone
};

// From the common start until the last shard has finished.
struct StepTime {
  std::chrono::nanoseconds first{}, second{};
};

// Where threads begin something together. A waiting thread spins, and yields its core now and then.
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
  // `on_failure`: called when an operator has thrown, on its thread; must wake threads that wait for that operator.
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
  ShardTeam team_;  // of twice as many threads: first of each shard, then second of each
  CommonStart alone_, beside_;
  std::vector<std::vector<Interval>> intervals_;  // by thread, of each step
};

}  // namespace tombolo::train
