#include "predict/astra/astra_ranks.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::astra {

using graph::NodeType;

AstraRanks::AstraRanks(Common& common, AstraCollectives& collectives, AstraMessages& messages,
                       AstraMemory& memory)
    : common_(common),
      collectives_(collectives),
      messages_(messages),
      memory_(memory),
      ranks_(common.ranks()) {}

void AstraRanks::begin() {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    const int32_t npu = common_.npu_of(static_cast<int32_t>(r));
    rank.program = common_.workload->programs[static_cast<size_t>(npu)];
    CHECK(rank.program, "rank {} is NPU {}, which has no program", r, npu);
    rank.left = static_cast<uint32_t>(rank.program->nodes.size());
    for (uint32_t node = 0; node < rank.left; ++node) {
      rank.waiting_for.push_back(rank.program->nodes[node].dependencies);
      if (rank.waiting_for.back() == 0) make_ready(rank, node);
    }
  }
  for (size_t r = 0; r < ranks_.size() && !common_.stopped(); ++r) wake(static_cast<int32_t>(r));
}

Result<std::vector<RankReport>> AstraRanks::reports() {
  std::vector<RankReport> out;
  for (Rank& rank : ranks_) {
    if (!rank.finished) return fail(stuck());
    rank.report.host = rank.host.total;
    rank.report.accelerator = rank.accelerator.total;
    rank.report.communication = rank.communication.total;
    rank.report.memory = rank.memory.total;
    rank.report.uses_host = rank.host.ever;
    rank.report.uses_accelerator = rank.accelerator.ever;
    rank.report.communicates = rank.communication.ever;
    rank.report.uses_memory = rank.memory.ever;
    out.push_back(rank.report);
  }
  return out;
}

// Whatever is not computing and not on the host communicates, be it a transfer from memory.
AstraRanks::Resource AstraRanks::resource_of(const Program::Node& node) {
  if (node.on_host) return kHost;
  if (node.type == NodeType::kCompute) return kAccelerator;
  return node.type == NodeType::kReceive ? kNoResource : kCommunicator;
}

AstraRanks::Busy* AstraRanks::busy_of(Rank& rank, const Program::Node& node) {
  switch (node.type) {
    case NodeType::kCompute:
      return node.on_host ? &rank.host : &rank.accelerator;
    case NodeType::kSend:
    case NodeType::kReceive:
    case NodeType::kCollective:
      return &rank.communication;
    case NodeType::kMemoryLoad:
    case NodeType::kMemoryStore:
      return &rank.memory;
    default:
      return nullptr;
  }
}

void AstraRanks::make_ready(Rank& rank, uint32_t node) {
  Ready& ready = rank.ready[resource_of(rank.program->nodes[node])];
  ready.push_back(node);
  std::push_heap(ready.begin(), ready.end(), std::greater<>());
}

void AstraRanks::wake(int32_t r) {
  start_ready(r);
  Rank& rank = ranks_[static_cast<size_t>(r)];
  // A node that takes no time frees others, and ASTRA-sim starts these with the rank's next event.
  // Where there will be none it would wait for ever; here they start now.
  while (rank.in_flight == 0 && rank.left > 0 && !common_.stopped() &&
         std::any_of(std::begin(rank.ready), std::end(rank.ready),
                     [](const Ready& ready) { return !ready.empty(); })) {
    start_ready(r);
  }
  if (rank.left == 0 && !rank.finished) {
    rank.finished = true;
    rank.report.finish = common_.now();
    for (AstraObserver* observer : common_.options.observers) observer->rank_ends(r, common_.now());
  }
}

// Each node that could start when the round began, and whose resource is free, lowest id first.
void AstraRanks::start_ready(int32_t r) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  rank.starting = true;
  while (!common_.stopped()) {
    Ready* next = nullptr;
    for (int resource = 0; resource < kResources; ++resource) {
      Ready& ready = rank.ready[resource];
      if (ready.empty() || rank.taken[resource]) continue;
      if (next == nullptr || ready.front() < next->front()) next = &ready;
    }
    if (next == nullptr) break;
    std::pop_heap(next->begin(), next->end(), std::greater<>());
    const uint32_t node = next->back();
    next->pop_back();
    start(r, node);
  }
  rank.starting = false;
  for (const uint32_t node : rank.freed) make_ready(rank, node);
  rank.freed.clear();
}

void AstraRanks::start(int32_t r, uint32_t n) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const Program::Node& node = rank.program->nodes[n];
  const Resource resource = resource_of(node);
  rank.taken[resource] = resource != kNoResource;
  ++rank.in_flight;
  if (Busy* busy = busy_of(rank, node)) busy->begin(common_.now());
  for (AstraObserver* observer : common_.options.observers)
    observer->node_begins(r, n, common_.now());
  if (common_.settings->replay_only) return compute(r, n);
  switch (node.type) {
    case NodeType::kCompute:
      return compute(r, n);
    case NodeType::kCollective:
      return collectives_.start(r, n);
    case NodeType::kSend:
      return messages_.offer(r, node.peer, node.tag, node.bytes, {static_cast<uint32_t>(r), n});
    case NodeType::kReceive:
      return messages_.ask(node.peer, r, node.tag, node.bytes, {static_cast<uint32_t>(r), n});
    case NodeType::kMemoryLoad:
    case NodeType::kMemoryStore:
      return memory_.start(r, n);
    case NodeType::kInvalid:
    case NodeType::kMetadata:
      return release(r, n);
  }
}

// As long as the trace says, or as the roofline allows: min(bandwidth * intensity, peak).
void AstraRanks::compute(int32_t r, uint32_t n) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const Program::Node& node = rank.program->nodes[n];
  int64_t lasts = node.replay_ns;
  if (common_.settings->roofline && !node.on_host && !common_.settings->replay_only) {
    if (node.tensor_bytes == 0) return release(r, n);
    const double bandwidth = common_.settings->memory_bandwidth * 1e9;
    const double peak = common_.settings->peak_performance * 1e12;
    const auto operations = static_cast<double>(node.operations);
    const double intensity = operations / static_cast<double>(node.tensor_bytes);
    const double performance = std::min(bandwidth * intensity, peak);
    lasts = operations == 0 ? 0 : static_cast<int64_t>(operations / performance * 1e9);
    const auto weight = static_cast<double>(lasts);
    rank.report.intensity += intensity * weight;
    rank.report.compute_utilization += performance / peak * weight;
    if (intensity > 0)
      rank.report.memory_utilization += performance / intensity / bandwidth * weight;
    if (performance >= peak) rank.report.compute_bound += weight;
  }
  if (!node.on_host) rank.report.computing += SimDuration{lasts};
  common_.set_alarm(r, common_.now() + SimDuration{lasts}, MachineAlarm::kNodeDone, n);
}

void AstraRanks::release(int32_t r, uint32_t n) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const Program::Node& node = rank.program->nodes[n];
  rank.taken[resource_of(node)] = false;
  --rank.in_flight;
  --rank.left;
  rank.waiting_for[n] = kNone;  // done; stuck() looks for those that are not
  if (Busy* busy = busy_of(rank, node)) busy->end(common_.now());
  for (AstraObserver* observer : common_.options.observers)
    observer->node_ends(r, n, common_.now());
  for (uint32_t i = 0; i < node.children; ++i) {
    const uint32_t child = rank.program->children[node.first_child + i];
    CHECK(rank.waiting_for[child] > 0, "node {} of rank {} waits for nothing, and node {} is done",
          rank.program->nodes[child].id, r, node.id);
    if (--rank.waiting_for[child] > 0) continue;
    if (rank.starting) {
      rank.freed.push_back(child);
    } else {
      make_ready(rank, child);
    }
  }
}

void AstraRanks::node_over(int32_t rank, uint32_t node) {
  release(rank, node);
  wake(rank);
}

// Nothing happens any more, and some rank is not done.
Error AstraRanks::stuck() const {
  size_t unfinished = 0;
  size_t first = ranks_.size();
  for (size_t r = ranks_.size(); r-- > 0;) {
    if (ranks_[r].finished) continue;
    ++unfinished;
    first = r;
  }
  const Rank& rank = ranks_[first];
  std::string waiting;
  for (size_t n = 0; n < rank.waiting_for.size() && waiting.empty(); ++n) {
    const Program::Node& node = rank.program->nodes[n];
    const bool meets_others = node.type == NodeType::kSend || node.type == NodeType::kReceive ||
                              node.type == NodeType::kCollective || accesses_memory(node);
    if (rank.waiting_for[n] != 0 || !meets_others) continue;
    const Ready& ready = rank.ready[resource_of(node)];
    if (std::find(ready.begin(), ready.end(), n) != ready.end()) continue;
    if (node.type == NodeType::kReceive) {
      const auto receiver = static_cast<int32_t>(first);
      if (!messages_.asked_in_vain(node.peer, receiver, node.tag, node.bytes)) continue;
    }
    waiting = fmt::format("node {} ({})", node.id, to_name(node.type));
  }
  Error out;
  out.code = ErrorCode::kUnusable;
  out.message = fmt::format("{} of {} ranks never finish; rank {} has {} of {} nodes left{}{}",
                            unfinished, ranks_.size(), first, rank.left, rank.waiting_for.size(),
                            waiting.empty() ? "" : " and waits for ", waiting);
  out.hint =
      "every send needs a receive of the same peer, tag and size, and every member of a "
      "group must call the same collectives in the same order, and all ranks a memory pool as "
      "often; "
      "chunks that queue up in another "
      "order on every rank can wait for each other, too: fewer splits or more active chunks";
  return out;
}

}  // namespace tombolo::astra
