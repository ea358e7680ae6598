// The shards of a rank as threads of its process: which runs on which, and where they synchronise.
//
// Tensor and context parallelism cut every layer, so their shards meet several times in each. One process
// for all of them lets them meet in memory, and the rank stays what the Plan, the schedule and a restart
// see: one actor (docs/decisions/0065-shards-compute-as-threads-of-a-rank.md).
//
//   ShardTeam team(2);
//   team.run([&](int32_t shard) { part[shard] = half(shard); team.meet(); use(part[1 - shard]); });
//
// A waiting thread spins for a moment before it sleeps: most waits take microseconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace tombolo::train {

class ShardTeam {
 public:
  using Work = std::function<void(int32_t shard)>;

  // Thrown in shards that wait for one that has thrown. Work must not catch it.
  struct Abandoned : std::exception {
    const char* what() const noexcept override { return "another shard of this rank failed"; }
  };

  explicit ShardTeam(int32_t shards);  // at least 1
  ~ShardTeam();
  ShardTeam(const ShardTeam&) = delete;

  int32_t shards() const { return shards_; }

  // Runs each shard's part on its thread, shard 0's on the caller's; returns when all have ended. If one
  // throws, meet() throws Abandoned in shards that wait for it, now or later; at the end run() rethrows what
  // it threw, of several the lowest shard's. One call at a time.
  void run(const Work& work);

  // Within run(): returns when every shard is here. What one wrote before, the others read after it.
  void meet();

  // meet() throws in every thread that waits there or calls it, until the next run(): for threads that meet
  // outside of run().
  void abandon();

 private:
  void serve(int32_t shard);
  void work(int32_t shard) noexcept;

  const int32_t shards_;
  const Work* work_ = nullptr;
  std::vector<std::exception_ptr> thrown_;
  std::atomic<bool> ending_ = false, abandoned_ = false;
  std::atomic<int32_t> arrived_ = 0, running_ = 0;
  std::atomic<uint64_t> meetings_ = 0, calls_ = 0;  // so far; both are waited on
  std::vector<std::thread> threads_;                // of all shards but the first
};

}  // namespace tombolo::train
