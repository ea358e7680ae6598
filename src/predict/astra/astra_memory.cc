#include "predict/astra/astra_memory.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::astra {

void AstraMemory::ask(const Access& access) {
  CHECK(common_.options.memory != nullptr && common_.options.memory->exists(),
        "rank {} has no remote memory", access.rank);
  if (common_.options.memory->together()) return ask_pool(access);
  if (common_.options.memory->shared()) {
    const auto [busy, was_free] =
        busy_.try_emplace(common_.options.memory->memory_of(common_.npu_of(access.rank)));
    if (!was_free) return busy->second.push_back(access);
  }
  begin(access);
}

// The node ends before the memory is free: what it frees queues up behind those that wait.
void AstraMemory::begin(const Access& access) {
  const Program::Node& node = common_.program_of(access.rank).nodes[access.node];
  const SimTime end = common_.now() + common_.options.memory->duration(node.tensor_bytes);
  common_.set_alarm(access.rank, end, MachineAlarm::kNodeDone, access.node);
  if (!common_.options.memory->shared()) return;
  const int32_t memory = common_.options.memory->memory_of(common_.npu_of(access.rank));
  common_.set_alarm(access.rank, end, MachineAlarm::kMemoryFree, static_cast<uint32_t>(memory));
}

// The k-th accesses of all ranks are one transfer, which begins when the last has asked and the
// pool is done with the one before; they end together. Where ranks stand for their classes each
// class asks once.
void AstraMemory::ask_pool(const Access& access) {
  const auto program_node = [&](int32_t rank, uint32_t node) -> const Program::Node& {
    return common_.program_of(rank).nodes[node];
  };
  asked_by_.resize(common_.ranks());
  uint32_t& asked_by_rank = asked_by_[static_cast<size_t>(access.rank)];
  const size_t place = asked_by_rank++ - transfers_begun_;
  if (place == transfers_.size()) {
    transfers_.push_back({0, access.rank, std::vector<uint32_t>(common_.ranks())});
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
    common_.error = Error{
        ErrorCode::kUnusable,
        fmt::format("access {} to the memory pool is {} and {}", asked_by_rank,
                    text(first, common_.npu_of(other)), text(node, common_.npu_of(access.rank))),
        {},
        "all NPUs load or store the same amount at the same time; MEMORY_POOL serves "
        "each separately"};
    return;
  }
  if (++transfer.asked < common_.ranks()) return;
  pool_free_ =
      std::max(pool_free_, common_.now()) + common_.options.memory->duration(node.tensor_bytes);
  for (size_t r = 0; r < common_.ranks(); ++r) {
    common_.set_alarm(static_cast<int32_t>(r), pool_free_, MachineAlarm::kNodeDone,
                      transfer.nodes[r]);
  }
  transfers_.pop_front();
  ++transfers_begun_;
}

void AstraMemory::free(int32_t memory) {
  const auto busy = busy_.find(memory);
  CHECK(busy != busy_.end(), "memory {} served no request", memory);
  if (busy->second.empty()) {
    busy_.erase(busy);
    return;
  }
  const Access next = busy->second.front();
  busy->second.pop_front();
  begin(next);
}

}  // namespace tombolo::astra
