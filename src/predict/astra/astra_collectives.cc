#include "predict/astra/astra_collectives.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace tombolo::astra {

using graph::CollectiveType;

AstraCollectives::AstraCollectives(Common& common, AstraMessages& messages)
    : common_(common),
      messages_(messages),
      topology_(common.topology),
      settings_(common.settings),
      workload_(common.workload),
      planner_(*common.topology, *common.settings, common.options.queues_per_dimension),
      ranks_(common.ranks()),
      layouts_(common.workload->groups.size()),
      rotations_(planner_.rotates() ? ranks_.size() : 1, planner_.no_rotation()),
      queues_(ranks_.size() * static_cast<size_t>(planner_.queues())) {
  custom_plan_.phases.push_back({});
}

void AstraCollectives::ring(int32_t rank, MachineAlarm kind, const Alarm& alarm) {
  switch (kind) {
    case MachineAlarm::kStartedUp:
      return launch(rank, alarm.subject);
    case MachineAlarm::kPhaseOver:
      return proceed(alarm.subject);
    case MachineAlarm::kCustomDone:
      return custom_node_over(alarm.subject, alarm.part);
    case MachineAlarm::kBusDone: {
      const SimDuration reduction = costs_of(running_[alarm.subject]).reduction(alarm.detail);
      return common_.set_alarm(rank, common_.now() + reduction, MachineAlarm::kMessageReady,
                               alarm.subject, alarm.part);
    }
    case MachineAlarm::kMessageReady: {
      Player player{*this, alarm.subject};
      running_[alarm.subject].state->ready(static_cast<int32_t>(alarm.part), player);
      return forget_if_over(alarm.subject);
    }
    case MachineAlarm::kNodeDone:
    case MachineAlarm::kMemoryFree:
      break;
  }
  CHECK(false, "alarm {} is not the collectives'", static_cast<uint32_t>(kind));
}

void AstraCollectives::happen(MachineEvent event, uint64_t subject) {
  const auto low = static_cast<uint32_t>(subject);
  const auto high = static_cast<int32_t>(subject >> 32);
  switch (event) {
    case MachineEvent::kWasThereForPhase: {
      Player player{*this, low};
      return running_[low].state->received(high, player);
    }
    case MachineEvent::kPhaseKnown:
      return phase_known(low);
    case MachineEvent::kEndKnown:
      return end_known(low, high);
    case MachineEvent::kChunkEndKnown:
      return chunk_end_known(low);
    case MachineEvent::kLetWork:
      queues_[subject].decides = false;
      return let_work_now(queues_[subject]);
    default:
      CHECK(false, "event {} is not the collectives'", static_cast<uint32_t>(event));
  }
}

void AstraCollectives::start(int32_t r, uint32_t n) {
  const Program::Node& node = common_.program_of(r).nodes[n];
  if (node.collective == CollectiveType::kBroadcast) {  // ASTRA-sim replays it
    return common_.set_alarm(r, common_.now() + SimDuration{node.replay_ns},
                             MachineAlarm::kNodeDone, n);
  }
  if (!settings_->startup.empty() && node.custom == nullptr) {
    const int64_t startup = planner_.startup(layout_of(node.group));
    if (startup > 0) {
      return common_.set_alarm(r, common_.now() + SimDuration{startup}, MachineAlarm::kStartedUp,
                               n);
    }
  }
  launch(r, n);
}

void AstraCollectives::launch(int32_t r, uint32_t n) {
  OfRank& rank = ranks_[static_cast<size_t>(r)];
  const Program::Node& node = common_.program_of(r).nodes[n];
  const std::vector<const ChunkPlan*> custom{&custom_plan_};
  const std::vector<const ChunkPlan*>* plans = &custom;
  if (node.custom == nullptr) {
    CollectivePlanner::Question question{
        node.collective, node.bytes, node.involved_dims, 0, {}, -1};
    if (node.group >= 0) {
      question.group_size =
          static_cast<int32_t>(workload_->groups[static_cast<size_t>(node.group)].ranks.size());
    }
    question.layout = layout_of(node.group);
    const auto planned =
        planner_.plan(question, rotations_[rotations_.size() == 1 ? 0 : static_cast<size_t>(r)]);
    if (!planned) {
      common_.error = std::move(planned).error();
      common_.error->context.push_back(fmt::format("starting node {} of rank {}", node.id, r));
      return;
    }
    plans = *planned;
  }
  if (plans->empty()) {  // alone in its group
    return common_.set_alarm(r, common_.now(), MachineAlarm::kNodeDone, n);
  }
  set_priority(rank, node);
  const uint32_t collective = new_collective(r, n, plans->size());
  const int32_t priority = rank.priority;
  for (const ChunkPlan* plan : *plans)
    proceed(new_chunk(r, node.group, collective, priority, plan));
}

int32_t AstraCollectives::layout_of(int32_t group) {
  if (!hierarchical(*settings_)) return -1;
  if (group < 0) return planner_.layout_of_all();
  std::optional<int32_t>& known = layouts_[static_cast<size_t>(group)];
  if (!known) {
    const std::vector<int32_t>& ranks = workload_->groups[static_cast<size_t>(group)].ranks;
    known = planner_.layout_of(ranks);
    if (*known < 0) scattered_groups_.try_emplace(ranks.size(), ranks);
  }
  return *known;
}

void AstraCollectives::set_priority(OfRank& rank, const Program::Node& node) {
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

uint32_t AstraCollectives::new_collective(int32_t r, uint32_t n, size_t chunks) {
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

uint32_t AstraCollectives::new_chunk(int32_t r, int32_t group, uint32_t collective,
                                     int32_t priority, const ChunkPlan* plan) {
  uint32_t id = free_chunk_;
  if (id == kNone) {
    id = static_cast<uint32_t>(chunks_.size());
    chunks_.emplace_back();
  } else {
    free_chunk_ = chunks_[id].next;
  }
  OfRank& rank = ranks_[static_cast<size_t>(r)];
  uint32_t* counter = &rank.chunks;
  if (group >= 0) {
    auto found = std::find_if(rank.group_chunks.begin(), rank.group_chunks.end(),
                              [&](const auto& entry) { return entry.first == group; });
    if (found == rank.group_chunks.end()) found = rank.group_chunks.insert(found, {group, 0});
    counter = &found->second;
  }
  chunks_[id] = {plan,     r,     group, (*counter)++,         collective,
                 priority, kNone, {},    rank.chunks_in_all++, -1,
                 false};
  return id;
}

AstraCollectives::Queue& AstraCollectives::queue_of(const Chunk& chunk) {
  const size_t queue = chunk.plan->phases[static_cast<size_t>(chunk.phase)].queue;
  return queues_[static_cast<size_t>(chunk.rank) * static_cast<size_t>(planner_.queues()) + queue];
}

// The order of these steps is ASTRA-sim's: a collective that is done may start another one, whose
// chunks queue up before this one leaves.
void AstraCollectives::proceed(uint32_t id) {
  const bool was_queued = chunks_[id].phase >= 0;
  const bool last = static_cast<size_t>(chunks_[id].phase) + 1 == chunks_[id].plan->phases.size();
  Queue* left = was_queued ? &queue_of(chunks_[id]) : nullptr;
  if (was_queued && chunks_[id].plan != &custom_plan_) {
    for (AstraObserver* observer : common_.options.observers) {
      observer->phase_ends(chunks_[id].rank, id, common_.now());
    }
  }
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

// What a chunk has at the larger end of its phase.
int64_t AstraCollectives::bytes_in_phase(const Chunk& chunk) const {
  const SharedPhase* shared = chunk.plan->phases[static_cast<size_t>(chunk.phase)].shared;
  if (shared == nullptr) return 0;  // spelled out
  return std::max(shared->phase.spec().bytes, shared->phase.final_bytes());
}

// Behind those that work and those of at least its own priority. Where queues decide late, also
// behind those that are smaller, if the smallest goes first; and of equals of one instant the
// lowest number is first.
void AstraCollectives::enqueue(Queue& queue, uint32_t id) {
  Chunk& chunk = chunks_[id];
  chunk.queued = common_.now();
  const bool late = decides_late();
  const bool smallest = settings_->chunk_choice == network::ChunkChoice::kSmallest;
  const auto rank = [&](const Chunk& c) {
    return std::tuple(smallest ? bytes_in_phase(c) : 0, -int64_t{c.priority}, c.queued, c.sequence);
  };
  const auto goes_before = [&](uint32_t other) {
    if (other == kNone || chunks_[other].working) return other != kNone;
    return late ? rank(chunks_[other]) < rank(chunk) : chunks_[other].priority >= chunk.priority;
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

void AstraCollectives::remove(Queue& queue, uint32_t id) {
  uint32_t before = kNone;
  uint32_t c = queue.first;
  while (c != id) {
    before = c;
    c = chunks_[c].next;
  }
  (before == kNone ? queue.first : chunks_[before].next) = chunks_[id].next;
  if (queue.last == id) queue.last = before;
}

void AstraCollectives::let_work(Queue& queue) {
  if (!decides_late()) return let_work_now(queue);
  if (queue.decides) return;
  queue.decides = true;
  common_.push(common_.now(), MachineEvent::kLetWork,
               static_cast<uint64_t>(&queue - queues_.data()));
}

void AstraCollectives::let_work_now(Queue& queue) {
  const int32_t threshold = (settings_->active_chunks + common_.options.queues_per_dimension - 1) /
                            common_.options.queues_per_dimension;
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

void AstraCollectives::chunk_done(uint32_t id) {
  const uint32_t collective = chunks_[id].collective;
  if (--collectives_[collective].chunks_left > 0) return;
  const Collective finished = collectives_[collective];
  collectives_[collective].next_free = free_collective_;
  free_collective_ = collective;
  common_.nodes->node_over(finished.rank, finished.node);
}

}  // namespace tombolo::astra
