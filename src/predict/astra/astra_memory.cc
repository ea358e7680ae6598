// How loads and stores wait for remote memory.

#include <algorithm>

#include "base/check.h"
#include "predict/astra/astra_machine.h"

namespace tombolo::astra {

// A memory that is shared serves one access at a time, in the order in which they come.
void AstraMachine::ask_memory(const MemoryAccess& access) {
  CHECK(options_.memory != nullptr && options_.memory->exists(), "rank {} has no remote memory",
        access.rank);
  if (options_.memory->together()) return ask_pool(access);
  if (options_.memory->shared()) {
    const auto [busy, was_free] =
        busy_memories_.try_emplace(options_.memory->memory_of(npu_of(access.rank)));
    if (!was_free) return busy->second.push_back(access);
  }
  begin_access(access);
}

// The node ends before the memory is free: what it frees queues up behind those that wait.
void AstraMachine::begin_access(const MemoryAccess& access) {
  const Program::Node& node = ranks_[static_cast<size_t>(access.rank)].program->nodes[access.node];
  const SimTime end = now() + options_.memory->duration(node.tensor_bytes);
  alarms_.set(access.rank, end, {kNodeDone, access.node});
  if (!options_.memory->shared()) return;
  const int32_t memory = options_.memory->memory_of(npu_of(access.rank));
  alarms_.set(access.rank, end, {kMemoryFree, static_cast<uint32_t>(memory)});
}

// The k-th accesses of all ranks are one transfer, which begins when the last has asked and the
// pool is done with the one before; they end together. Where ranks stand for their classes each
// class asks once.
void AstraMachine::ask_pool(const MemoryAccess& access) {
  const auto program_node = [&](int32_t rank, uint32_t node) -> const Program::Node& {
    return ranks_[static_cast<size_t>(rank)].program->nodes[node];
  };
  Rank& rank = ranks_[static_cast<size_t>(access.rank)];
  const size_t place = rank.transfers++ - transfers_begun_;
  if (place == transfers_.size()) {
    transfers_.push_back({0, access.rank, std::vector<uint32_t>(ranks_.size())});
  }
  PoolTransfer& transfer = transfers_[place];
  transfer.nodes[static_cast<size_t>(access.rank)] = access.node;
  const Program::Node& node = program_node(access.rank, access.node);
  const int32_t other = transfer.first_rank;
  const Program::Node& first = program_node(other, transfer.nodes[static_cast<size_t>(other)]);
  if (node.type != first.type || node.tensor_bytes != first.tensor_bytes) {
    const auto text = [](const Program::Node& n, int32_t npu) {
      return fmt::format("{} of {} bytes (node {} of rank {})", to_name(n.type), n.tensor_bytes,
                         n.id, npu);
    };
    error_ = Error{ErrorCode::kUnusable,
                   fmt::format("access {} to the memory pool is {} and {}", rank.transfers,
                               text(first, npu_of(other)), text(node, npu_of(access.rank))),
                   {},
                   "all NPUs load or store the same amount at the same time; MEMORY_POOL serves "
                   "each by itself"};
    return;
  }
  if (++transfer.asked < ranks_.size()) return;
  pool_free_ = std::max(pool_free_, now()) + options_.memory->duration(node.tensor_bytes);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    alarms_.set(static_cast<int32_t>(r), pool_free_, {kNodeDone, transfer.nodes[r]});
  }
  transfers_.pop_front();
  ++transfers_begun_;
}

void AstraMachine::memory_free(int32_t memory) {
  const auto busy = busy_memories_.find(memory);
  CHECK(busy != busy_memories_.end(), "memory {} served nobody", memory);
  if (busy->second.empty()) {
    busy_memories_.erase(busy);
    return;
  }
  const MemoryAccess next = busy->second.front();
  busy->second.pop_front();
  begin_access(next);
}

}  // namespace tombolo::astra
