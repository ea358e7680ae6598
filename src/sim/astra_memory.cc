// How loads and stores wait for remote memory.

#include "base/check.h"
#include "sim/astra_machine.h"

namespace tombolo::sim {

// A memory that is shared serves one access at a time, in the order in which they come.
void AstraMachine::ask_memory(const MemoryAccess& access) {
  CHECK(options_.memory != nullptr && options_.memory->exists(), "rank {} has no remote memory",
        access.rank);
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

}  // namespace tombolo::sim
