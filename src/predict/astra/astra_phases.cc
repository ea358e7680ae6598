// How the members of a phase meet, and when each of them is done: worked out as a whole, or message
// by message.

#include <algorithm>

#include "predict/astra/astra_machine.h"

namespace tombolo::astra {
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

int32_t AstraMachine::rank_of(const RunningPhase& running, int32_t member) const {
  if (running.shared->any_ranks) {
    return workload_->groups[static_cast<size_t>(running.group)].ranks[static_cast<size_t>(member)];
  }
  if (running.shared->whole) return running.first_rank + member;
  return running.first_rank +
         running.shared->place(member) * topology_->stride(running.shared->dimension);
}

// Within a group's one ring ASTRA-sim takes a delay of its own.
SimDuration AstraMachine::bus_of(const SharedPhase& shared) const {
  return SimDuration{shared.any_ranks && !hierarchical(*settings_) ? 10
                                                                   : settings_->endpoint_delay};
}

network::PhaseCosts AstraMachine::costs_of(const RunningPhase& running) const {
  network::PhaseCosts costs;
  costs.topology = topology_;
  costs.dimension = running.shared->dimension;
  costs.places = running.shared->places;
  costs.all_npus = running.shared->whole;
  costs.through_all = hierarchical(*settings_);
  costs.bus = bus_of(*running.shared);
  costs.memory_bytes_per_ns = settings_->memory_bandwidth;
  if (running.shared->any_ranks) {
    costs.ranks = workload_->groups[static_cast<size_t>(running.group)].ranks;
  }
  return costs;
}

uint32_t AstraMachine::running_phase(uint32_t id, int32_t& member) {
  const Chunk& chunk = chunks_[id];
  const auto p = static_cast<size_t>(chunk.phase);
  SharedPhase* shared = chunk.plan->phases[p].shared;
  int32_t first_rank = 0;
  const int32_t group = group_stand_in(chunk.group);
  if (shared->any_ranks) {
    member = workload_->groups[static_cast<size_t>(chunk.group)].position(npu_of(chunk.rank));
    first_rank = workload_->groups[static_cast<size_t>(group)].ranks[0];
  } else if (shared->whole) {
    member = chunk.rank;
  } else {
    // Along a dimension, in the group that is simulated for its own.
    int32_t npu = npu_of(chunk.rank);
    int32_t first = 0;  // place
    if (group >= 0) {
      const auto& groups = workload_->groups;
      const Group& played = groups[static_cast<size_t>(group)];
      if (group != chunk.group) {
        const int32_t position = groups[static_cast<size_t>(chunk.group)].position(npu);
        npu = played.ranks[static_cast<size_t>(position)];
      }
      first = topology_->coordinate(played.lowest(), shared->dimension);
    }
    const int32_t place = topology_->coordinate(npu, shared->dimension) - first;
    member = shared->member_at(place);
    first_rank = npu - place * topology_->stride(shared->dimension);
  }
  const PhaseKey key{static_cast<uint64_t>(group + 1) << 32 | chunk.number,
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
  running.group = group;
  running.begun = running.known = running.over = 0;
  running.in_flight = 0;
  running.meetings.clear();
  running.chunks.assign(static_cast<size_t>(shared->phase.members()), kNone);
  if (options_.whole_phases && !shared->phase.may_end_early()) {
    running.times.resize(running.chunks.size());
    return place->second;
  }
  // Members are played by their NPUs, and some of a class may be over before others.
  apart_ = apart_ || options_.classes != nullptr;
  running.state = std::make_unique<network::PhaseState>(shared->phase);
  return place->second;
}

void AstraMachine::begin_phase(uint32_t chunk) {
  if (chunks_[chunk].plan == &custom_plan_) return begin_custom(chunk);
  if (!options_.observers.empty()) tell_phase(chunk);
  if (options_.classes != nullptr && group_stand_in(chunks_[chunk].group) < 0) {
    return begin_for_class(chunk);
  }
  int32_t member = 0;
  const uint32_t id = running_phase(chunk, member);
  if (stopped()) return;
  RunningPhase& running = running_[id];
  running.chunks[static_cast<size_t>(member)] = chunk;
  ++running.begun;
  if (running.state != nullptr) {
    Player player{*this, id};
    return running.state->start(member, player);
  }
  running.times[static_cast<size_t>(member)] = now();
  if (running.begun == running.shared->phase.members()) work_out(id);
}

void AstraMachine::tell_phase(uint32_t id) const {
  const Chunk& chunk = chunks_[id];
  const PlannedPhase& planned = chunk.plan->phases[static_cast<size_t>(chunk.phase)];
  const uint32_t node = collectives_[chunk.collective].node;
  for (AstraObserver* observer : options_.observers) {
    observer->phase_begins(chunk.rank, id, {planned.shared, chunk.group, chunk.number, node},
                           now());
  }
}

// As a whole.

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

// Message by message.

void AstraMachine::Player::send(int32_t from, int32_t to, int64_t bytes) {
  if (machine.options_.rendezvous) {
    RunningPhase::Meeting& meeting = machine.running_[running].meetings[{from, to}];
    if (meeting.asked_for == 0) return meeting.offered.push_back(bytes);
    // The request is there already. ASTRA-sim hears of that by an event of this instant, so that
    // the sender's own request, which it makes now, takes the link before the message.
    --meeting.asked_for;
    const uint32_t message = machine.new_phase_message(running, from, to, bytes, false);
    machine.queue_.push(machine.now(), kWasAskedFor, message);
    return;
  }
  machine.send_in_phase(running, from, to, bytes, false);
}

void AstraMachine::Player::asks(int32_t member, int32_t source) {
  if (machine.options_.rendezvous) machine.send_in_phase(running, member, source, kRequest, true);
}

void AstraMachine::send_in_phase(uint32_t running, int32_t from, int32_t to, int64_t bytes,
                                 bool asks) {
  carry(new_phase_message(running, from, to, bytes, asks));
}

uint32_t AstraMachine::new_phase_message(uint32_t running, int32_t from, int32_t to, int64_t bytes,
                                         bool asks) {
  RunningPhase& phase = running_[running];
  const uint32_t id = new_message();
  Message& message = messages_[id];
  message.from = rank_of(phase, from);
  message.to = rank_of(phase, to);
  message.bytes = bytes;
  message.running = running;
  message.member = to;
  message.source = from;
  message.asks = asks;
  ++phase.in_flight;
  return id;
}

void AstraMachine::Player::insert(int32_t member, int64_t bytes, bool reduces) {
  const RunningPhase& phase = machine.running_[running];
  machine.alarms_.set(
      machine.rank_of(phase, member), machine.now() + machine.bus_of(*phase.shared),
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

}  // namespace tombolo::astra
