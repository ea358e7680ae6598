// How collectives become chunks, wait for their dimensions and pass them phase by phase.

#include <algorithm>

#include "base/check.h"
#include "sim/astra_machine.h"

namespace tombolo::sim {

using graph::CollectiveType;

namespace {

bool all_alike(const std::vector<network::MemberEnd>& ends) {
  return std::all_of(ends.begin(), ends.end(),
                     [&](const network::MemberEnd& end) { return end == ends[0]; });
}

}  // namespace

size_t AstraMachine::PhaseKeyHash::operator()(const PhaseKey& key) const {
  uint64_t h = key.chunk * 0x9e3779b97f4a7c15u ^ key.member;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ h >> 32;
}

void AstraMachine::start_collective(int32_t r, uint32_t n) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const Program::Node& node = rank.program->nodes[n];
  if (node.collective == CollectiveType::kBroadcast) {  // ASTRA-sim replays it
    return alarms_.set(r, now() + SimDuration{node.replay_ns}, {kNodeDone, n});
  }
  const std::vector<const ChunkPlan*> custom{&custom_plan_};
  const std::vector<const ChunkPlan*>* plans = &custom;
  if (node.custom == nullptr) {
    CollectivePlanner::Question question{node.collective, node.bytes, node.involved_dims, 0};
    if (node.group >= 0) {
      question.group_size =
          static_cast<int32_t>(workload_->groups[static_cast<size_t>(node.group)].ranks.size());
    }
    const auto planned =
        planner_.plan(question, rotations_[rotations_.size() == 1 ? 0 : static_cast<size_t>(r)]);
    if (!planned) {
      error_ = std::move(planned).error();
      error_->context.push_back(fmt::format("starting node {} of rank {}", node.id, r));
      return;
    }
    plans = *planned;
  }
  if (plans->empty()) return alarms_.set(r, now(), {kNodeDone, n});  // alone in its group
  set_priority(rank, node);
  const uint32_t collective = new_collective(r, n, plans->size());
  const int32_t priority = rank.priority;
  for (const ChunkPlan* plan : *plans)
    proceed(new_chunk(r, node.group, collective, priority, plan));
}

void AstraMachine::set_priority(Rank& rank, const Program::Node& node) {
  switch (settings_->order) {
    case CollectiveOrder::kByPriority:
      rank.priority = static_cast<int32_t>(node.priority);
      break;
    case CollectiveOrder::kLastFirst:
      ++rank.priority;
      break;
    case CollectiveOrder::kFirstFirst:
      --rank.priority;
      break;
  }
}

uint32_t AstraMachine::new_collective(int32_t r, uint32_t n, size_t chunks) {
  uint32_t id = free_collective_;
  if (id == kNone) {
    id = static_cast<uint32_t>(collectives_.size());
    collectives_.emplace_back();
  } else {
    free_collective_ = collectives_[id].next_free;
  }
  collectives_[id] = {r, n, static_cast<uint32_t>(chunks), kNone};
  return id;
}

uint32_t AstraMachine::new_chunk(int32_t r, int32_t group, uint32_t collective, int32_t priority,
                                 const ChunkPlan* plan) {
  uint32_t id = free_chunk_;
  if (id == kNone) {
    id = static_cast<uint32_t>(chunks_.size());
    chunks_.emplace_back();
  } else {
    free_chunk_ = chunks_[id].next;
  }
  Rank& rank = ranks_[static_cast<size_t>(r)];
  uint32_t* counter = &rank.chunks;
  if (group >= 0) {
    auto found = std::find_if(rank.group_chunks.begin(), rank.group_chunks.end(),
                              [&](const auto& entry) { return entry.first == group; });
    if (found == rank.group_chunks.end()) found = rank.group_chunks.insert(found, {group, 0});
    counter = &found->second;
  }
  chunks_[id] = {plan, r, group, (*counter)++, collective, priority, kNone, -1, false};
  return id;
}

AstraMachine::Queue& AstraMachine::queue_of(const Chunk& chunk) {
  const size_t queue = chunk.plan->phases[static_cast<size_t>(chunk.phase)].queue;
  return queues_[static_cast<size_t>(chunk.rank) * static_cast<size_t>(planner_.queues()) + queue];
}

// The order of these steps is ASTRA-sim's: a collective that is done may start another one, whose
// chunks queue up before this one leaves.
void AstraMachine::proceed(uint32_t id) {
  const bool was_queued = chunks_[id].phase >= 0;
  const bool last = static_cast<size_t>(chunks_[id].phase) + 1 == chunks_[id].plan->phases.size();
  Queue* left = was_queued ? &queue_of(chunks_[id]) : nullptr;
  if (was_queued && last) chunk_done(id);
  if (left != nullptr) remove(*left, id);
  if (was_queued && last) {
    --left->working;
    let_work(*left);
    chunks_[id].next = free_chunk_;
    free_chunk_ = id;
    return;
  }
  ++chunks_[id].phase;
  chunks_[id].working = false;
  Queue& entered = queue_of(chunks_[id]);
  enqueue(entered, id);
  if (left != nullptr) {
    --left->working;
    let_work(*left);
  }
  let_work(entered);
}

// Behind those that work and those of at least its own priority.
void AstraMachine::enqueue(Queue& queue, uint32_t id) {
  Chunk& chunk = chunks_[id];
  const auto goes_before = [&](uint32_t other) {
    return other != kNone && (chunks_[other].working || chunks_[other].priority >= chunk.priority);
  };
  uint32_t before = queue.last;
  if (!goes_before(before)) {
    before = kNone;
    for (uint32_t c = queue.first; goes_before(c); c = chunks_[c].next) before = c;
  }
  uint32_t& link = before == kNone ? queue.first : chunks_[before].next;
  chunk.next = link;
  link = id;
  if (chunk.next == kNone) queue.last = id;
}

void AstraMachine::remove(Queue& queue, uint32_t id) {
  uint32_t before = kNone;
  uint32_t c = queue.first;
  while (c != id) {
    before = c;
    c = chunks_[c].next;
  }
  (before == kNone ? queue.first : chunks_[before].next) = chunks_[id].next;
  if (queue.last == id) queue.last = before;
}

void AstraMachine::let_work(Queue& queue) {
  const int32_t threshold = (settings_->active_chunks + options_.queues_per_dimension - 1) /
                            options_.queues_per_dimension;
  uint32_t c = queue.first;
  for (int32_t i = 0; i < queue.working && c != kNone; ++i) c = chunks_[c].next;
  while (c != kNone && queue.working < threshold) {
    const uint32_t next = chunks_[c].next;
    chunks_[c].working = true;
    begin_phase(c);
    ++queue.working;
    c = next;
  }
}

void AstraMachine::chunk_done(uint32_t id) {
  const uint32_t collective = chunks_[id].collective;
  if (--collectives_[collective].chunks_left > 0) return;
  const Collective finished = collectives_[collective];
  collectives_[collective].next_free = free_collective_;
  free_collective_ = collective;
  done(finished.rank, finished.node);
}

int32_t AstraMachine::rank_of(const RunningPhase& running, int32_t member) const {
  if (running.shared->any_ranks) {
    return workload_->groups[static_cast<size_t>(running.group)].ranks[static_cast<size_t>(member)];
  }
  const int32_t stride = running.shared->whole ? 1 : topology_->stride(running.shared->dimension);
  return running.first_rank + member * stride;
}

network::PhaseCosts AstraMachine::costs_of(const RunningPhase& running) const {
  network::PhaseCosts costs;
  costs.topology = topology_;
  costs.dimension = running.shared->dimension;
  costs.all_npus = running.shared->whole;
  costs.bus = SimDuration{running.shared->any_ranks ? 10 : settings_->endpoint_delay};
  costs.memory_bytes_per_ns = settings_->memory_bandwidth;
  if (running.shared->any_ranks) {
    costs.ranks = workload_->groups[static_cast<size_t>(running.group)].ranks;
  }
  return costs;
}

// The phase that this chunk takes part in, and as which member; the first one to come opens it.
uint32_t AstraMachine::running_phase(uint32_t id, int32_t& member) {
  const Chunk& chunk = chunks_[id];
  const auto p = static_cast<size_t>(chunk.phase);
  SharedPhase* shared = chunk.plan->phases[p].shared;
  int32_t first_rank = 0;
  if (shared->any_ranks) {
    const Group& group = workload_->groups[static_cast<size_t>(chunk.group)];
    member = group.position(chunk.rank);
    first_rank = group.ranks[0];
  } else if (shared->whole) {
    member = chunk.rank;
  } else {
    member = topology_->coordinate(chunk.rank, shared->dimension);
    first_rank = chunk.rank - member * topology_->stride(shared->dimension);
  }
  const PhaseKey key{static_cast<uint64_t>(chunk.group + 1) << 32 | chunk.number,
                     static_cast<uint64_t>(p) << 32 | static_cast<uint32_t>(first_rank)};
  const auto [place, opened] = running_by_key_.try_emplace(key, 0);
  if (!opened) {
    if (running_[place->second].shared != shared) {
      error_ =
          Error{ErrorCode::kUnusable,
                fmt::format("rank {} and rank {} disagree on chunk {} of their group's collectives",
                            chunk.rank, first_rank, chunk.number),
                {},
                "all members of a group must call the same collectives, with the same sizes, "
                "in the same order"};
    }
    return place->second;
  }
  if (free_running_.empty()) {
    free_running_.push_back(static_cast<uint32_t>(running_.size()));
    running_.emplace_back();
  }
  place->second = free_running_.back();
  free_running_.pop_back();
  RunningPhase& running = running_[place->second];
  running.key = key;
  running.shared = shared;
  running.first_rank = first_rank;
  running.group = chunk.group;
  running.begun = running.known = running.over = 0;
  running.in_flight = 0;
  running.chunks.assign(static_cast<size_t>(shared->phase.members()), kNone);
  if (options_.whole_phases) {
    running.times.resize(running.chunks.size());
  } else {
    running.state = std::make_unique<network::PhaseState>(shared->phase);
  }
  return place->second;
}

void AstraMachine::begin_phase(uint32_t chunk) {
  if (chunks_[chunk].plan == &custom_plan_) return begin_custom(chunk);
  if (options_.classes != nullptr) return begin_for_class(chunk);
  int32_t member = 0;
  const uint32_t id = running_phase(chunk, member);
  if (error_) return;
  RunningPhase& running = running_[id];
  running.chunks[static_cast<size_t>(member)] = chunk;
  ++running.begun;
  if (!options_.whole_phases) {
    Player player{*this, id};
    return running.state->start(member, player);
  }
  running.times[static_cast<size_t>(member)] = now();
  if (running.begun == running.shared->phase.members()) work_out(id);
}

// --- a phase as a whole
// ---------------------------------------------------------------------------

// Worked out once for every phase and group.
const std::vector<network::MemberEnd>& AstraMachine::ends_if_together(const RunningPhase& running) {
  const int32_t group = running.shared->any_ranks ? running.group : -1;
  std::vector<network::MemberEnd>& ends = running.shared->ends_if_together[group];
  if (ends.empty()) {
    const std::vector<SimTime> starts(static_cast<size_t>(running.shared->phase.members()));
    ends.resize(starts.size());
    solve_phase(running.shared->phase, costs_of(running), starts, ends);
  }
  return ends;
}

void AstraMachine::work_out(uint32_t id) {
  RunningPhase& running = running_[id];
  running_by_key_.erase(running.key);
  const std::vector<SimTime>& starts = running.times;
  const SimTime first = starts[0];
  std::vector<network::MemberEnd> ends;
  if (std::all_of(starts.begin(), starts.end(), [&](SimTime start) { return start == first; })) {
    const std::vector<network::MemberEnd>& known = ends_if_together(running);
    if (all_alike(known)) {
      queue_.push(known[0].known + (now() - SimTime{}), kPhaseKnown, id);
      std::fill(running.times.begin(), running.times.end(), known[0].over + (now() - SimTime{}));
      return;
    }
    ends = known;
    for (network::MemberEnd& end : ends) {
      end.over = end.over + (now() - SimTime{});
      end.known = end.known + (now() - SimTime{});
    }
  } else {
    ends.resize(starts.size());
    solve_phase(running.shared->phase, costs_of(running), starts, ends);
  }
  for (size_t m = 0; m < ends.size(); ++m) {
    running.times[m] = ends[m].over;
    queue_.push(ends[m].known, kEndKnown, static_cast<uint64_t>(m) << 32 | id);
  }
}

// All members are of one class: they begin now, too.
void AstraMachine::begin_for_class(uint32_t id) {
  const Chunk& chunk = chunks_[id];
  RunningPhase all;
  all.shared = chunk.plan->phases[static_cast<size_t>(chunk.phase)].shared;
  all.group = chunk.group;
  const std::vector<network::MemberEnd>& ends = ends_if_together(all);
  if (!all_alike(ends)) {
    apart_ = true;
    return;
  }
  queue_.push(ends[0].known + (now() - SimTime{}), kChunkEndKnown, id);
}

void AstraMachine::chunk_end_known(uint32_t id) {
  const Chunk& chunk = chunks_[id];
  const SharedPhase& shared = *chunk.plan->phases[static_cast<size_t>(chunk.phase)].shared;
  const network::MemberEnd& end =
      shared.ends_if_together.at(shared.any_ranks ? chunk.group : -1)[0];
  alarms_.set(chunk.rank, now() + (end.over - end.known), {kPhaseOver, id});
}

void AstraMachine::phase_known(uint32_t id) {
  for (size_t m = 0; m < running_[id].chunks.size(); ++m) end_known(id, static_cast<int32_t>(m));
}

void AstraMachine::end_known(uint32_t id, int32_t member) {
  RunningPhase& running = running_[id];
  const auto m = static_cast<size_t>(member);
  const uint32_t chunk = running.chunks[m];
  alarms_.set(chunks_[chunk].rank, running.times[m], {kPhaseOver, chunk});
  if (++running.known == running.shared->phase.members()) free_running_.push_back(id);
}

// --- a phase message by message
// -------------------------------------------------------------------

void AstraMachine::Player::send(int32_t from, int32_t to, int64_t bytes) {
  RunningPhase& phase = machine.running_[running];
  const uint32_t id = machine.new_message();
  Message& message = machine.messages_[id];
  message.from = machine.rank_of(phase, from);
  message.to = machine.rank_of(phase, to);
  message.at = {message.from, false};
  message.bytes = bytes;
  message.running = running;
  message.member = to;
  message.source = from;
  ++phase.in_flight;
  machine.carry(id);
}

void AstraMachine::Player::insert(int32_t member, int64_t bytes, bool reduces) {
  const RunningPhase& phase = machine.running_[running];
  const int64_t bus = phase.shared->any_ranks ? 10 : machine.settings_->endpoint_delay;
  machine.alarms_.set(
      machine.rank_of(phase, member), machine.now() + SimDuration{bus},
      {reduces ? kBusDone : kMessageReady, running, static_cast<uint32_t>(member), bytes});
}

void AstraMachine::Player::receive_later(int32_t member) {
  machine.queue_.push(machine.now(), kWasThereForPhase,
                      static_cast<uint64_t>(member) << 32 | running);
}

void AstraMachine::Player::over(int32_t member) {
  RunningPhase& phase = machine.running_[running];
  ++phase.over;
  machine.proceed(phase.chunks[static_cast<size_t>(member)]);
}

void AstraMachine::forget_if_over(uint32_t id) {
  RunningPhase& running = running_[id];
  if (running.state == nullptr || running.over < running.shared->phase.members() ||
      running.in_flight > 0) {
    return;
  }
  running_by_key_.erase(running.key);
  running.state = nullptr;
  free_running_.push_back(id);
}

// --- collectives that are spelled out
// -------------------------------------------------------------

void AstraMachine::begin_custom(uint32_t chunk) {
  const Collective& collective = collectives_[chunks_[chunk].collective];
  const Program::Node& node =
      ranks_[static_cast<size_t>(collective.rank)].program->nodes[collective.node];
  auto position = static_cast<size_t>(collective.rank);
  if (node.group >= 0) {
    const Group& group = workload_->groups[static_cast<size_t>(node.group)];
    position = static_cast<size_t>(group.position(collective.rank));
  }
  const auto id = static_cast<uint32_t>(customs_.size());
  CustomRun& custom = customs_.emplace_back();
  custom.program = &(*node.custom)[position];
  custom.rank = collective.rank;
  custom.group = node.group;
  custom.chunk = chunk;
  for (uint32_t n = 0; n < custom.program->nodes.size(); ++n) {
    custom.waiting_for.push_back(custom.program->nodes[n].dependencies);
    if (custom.waiting_for.back() == 0) custom.ready.push_back(n);
  }
  start_custom_nodes(id);
}

// All that can start does: these nodes need no resource.
void AstraMachine::start_custom_nodes(uint32_t id) {
  Ready ready;
  std::swap(ready, customs_[id].ready);
  std::sort(ready.begin(), ready.end());
  const int32_t rank = customs_[id].rank;
  const int32_t group = customs_[id].group;
  const auto real_rank = [&](int32_t position) {
    return group < 0
               ? position
               : workload_->groups[static_cast<size_t>(group)].ranks[static_cast<size_t>(position)];
  };
  for (const uint32_t n : ready) {
    const Program::Node& node = customs_[id].program->nodes[n];
    ++customs_[id].in_flight;
    const Party party{id, n, true};
    if (node.type == graph::NodeType::kSend) {
      send(rank, real_rank(node.peer), node.tag, node.bytes, party);
    } else if (node.type == graph::NodeType::kReceive) {
      receive(real_rank(node.peer), rank, node.tag, node.bytes, party);
    } else {
      alarms_.set(rank, now() + SimDuration{node.replay_ns}, {kCustomDone, id, n});
    }
  }
}

void AstraMachine::custom_done(uint32_t id, uint32_t n) {
  CustomRun& custom = customs_[id];
  const Program::Node& node = custom.program->nodes[n];
  --custom.in_flight;
  for (uint32_t i = 0; i < node.children; ++i) {
    const uint32_t child = custom.program->children[node.first_child + i];
    if (--custom.waiting_for[child] == 0) custom.ready.push_back(child);
  }
  start_custom_nodes(id);
  if (customs_[id].in_flight > 0 || !customs_[id].ready.empty()) return;
  const uint32_t chunk = customs_[id].chunk;
  customs_[id] = {};
  proceed(chunk);
}

}  // namespace tombolo::sim
