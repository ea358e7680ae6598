// AstraMemory: loads from remote memory and stores to it, which wait for it (network/memory_expansion.h).
//
// A memory that is shared serves one access at a time, in the order in which they come. The k-th
// accesses of all ranks to a pool are one transfer.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "predict/astra/machine_common.h"

namespace tombolo::astra {

class AstraMemory {
 public:
  explicit AstraMemory(Common& common) : common_(common) {}

  void start(int32_t rank, uint32_t node) { ask({rank, node}); }  // ends by kNodeDone
  void free(int32_t memory);                                      // kMemoryFree

 private:
  struct Access {
    int32_t rank = 0;
    uint32_t node = 0;
  };
  struct PoolTransfer {  // an access of all ranks
    uint32_t asked = 0;
    int32_t first_rank = 0;       // to ask
    std::vector<uint32_t> nodes;  // per rank
  };

  void ask(const Access& access);
  void ask_pool(const Access& access);
  void begin(const Access& access);  // it is served, and ends with the node

  Common& common_;
  // Shared memories that serve a rank, and the ranks that wait for them.
  std::unordered_map<int32_t, std::deque<Access>> busy_;
  std::vector<uint32_t> asked_by_;      // per rank: transfers from a pool so far
  std::deque<PoolTransfer> transfers_;  // that not all ranks have asked for, in order
  uint32_t transfers_begun_ = 0;
  SimTime pool_free_;
};

}  // namespace tombolo::astra
