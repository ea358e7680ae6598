// Performs operators in a plan's order: computation on the caller's thread, communication of each link on a thread of
// its own, each operator as soon as its stream is free and what it waits for has ended.
//
//   StrandExecutor executor;
//   const auto times = executor.run(operators, order_of(operators, Way::kIntraBatch));
//
// It knows names, streams and dependencies, and nothing of what operators compute (strand_layers.h makes them of the
// layers of two microbatches). The order of a stream is exactly that of the list, as in the queues of a device:
// all shards of a rank perform the same one, so that their collectives match.
//
// Cost: a lock and a wake-up per operator that another stream waits for, some ten microseconds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace tombolo::train {

enum class Stream : uint8_t { kCompute, kLocal, kCross };
inline constexpr size_t kStreams = 3;

struct StrandOperator {
  std::string name;
  Stream stream = Stream::kCompute;
  int32_t strand = 0;
  bool async = false;         // communication that frameworks start and do not wait for
  std::vector<size_t> after;  // numbers of earlier operators of its strand
  std::function<void()> work;
};

// What is performed when. `after`: what an operator waits for besides its strand and its stream, by its number; empty:
// nothing.
struct StrandOrder {
  std::vector<size_t> operators;  // each once
  std::vector<std::vector<size_t>> after = {};
  bool on_one_thread = false;
};

enum class Way : uint8_t {
  kOneAfterOther,  // strand by strand as numbered, on one thread: nothing overlaps
  kIntraBatch,     // strand by strand, with asynchronous communication during what does not need it
  kByTurns,  // a strand computes until it has something to send, then the other: knows no times
  kInTurn  // an operator of each, as Wavelet does (in_turn_seconds() predicts it): each strand as kIntraBatch
};
StrandOrder order_of(std::span<const StrandOperator> operators, Way way);
// Unusable if `names` are not those of the operators, each once, or if the order would deadlock.
Result<StrandOrder> order_of(std::span<const StrandOperator> operators,
                             std::span<const std::string> names);

// Since run() was called.
struct OperatorTime {
  std::chrono::nanoseconds start{}, end{};
};

class StrandExecutor {
 public:
  // `on_failure`: called once when an operator of a run has thrown, on its thread; must wake threads that wait for
  // that operator, as other shards do in a collective (ShardTeam::abandon).
  explicit StrandExecutor(std::function<void()> on_failure = {});
  ~StrandExecutor();
  StrandExecutor(const StrandExecutor&) = delete;

  // Returns when all have ended, with their times by number. Rethrows what the first failed operator has thrown, once
  // all streams have stopped; operators that had not begun are skipped. CHECKs that the order does not deadlock.
  // One call at a time.
  std::vector<OperatorTime> run(std::span<const StrandOperator> operators,
                                const StrandOrder& order);

 private:
  void serve(size_t stream);
  void perform(Stream stream);
  void perform_one(size_t number);
  bool may_start(size_t number) const;  // with the lock

  const std::function<void()> on_failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::span<const StrandOperator> operators_;
  const StrandOrder* order_ = nullptr;
  std::chrono::steady_clock::time_point began_;
  std::vector<OperatorTime> times_;
  std::vector<bool> ended_;
  std::exception_ptr thrown_;
  uint64_t run_ = 0;    // how many so far
  size_t serving_ = 0;  // threads that have not finished it
  bool closing_ = false;
  std::vector<std::thread> threads_;  // of the links
};

}  // namespace tombolo::train
