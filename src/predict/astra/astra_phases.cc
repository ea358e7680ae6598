// How the members of a phase meet, and when each of them is done: worked out as a whole, or message
// by message.

#include <algorithm>

#include "predict/astra/astra_collectives.h"

namespace tombolo::astra {
namespace {

bool all_alike(const std::vector<network::MemberEnd>& ends) {
  return std::all_of(ends.begin(), ends.end(),
                     [&](const network::MemberEnd& end) { return end == ends[0]; });
}

}  // namespace

size_t AstraCollectives::PhaseKeyHash::operator()(const PhaseKey& key) const {
  uint64_t h = key.chunk * 0x9e3779b97f4a7c15u ^ key.member;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ h >> 32;
}

int32_t AstraCollectives::rank_of(const RunningPhase& running, int32_t member) const {
  if (running.shared->any_ranks) {
    return workload_->groups[static_cast<size_t>(running.group)].ranks[static_cast<size_t>(member)];
  }
  if (running.shared->whole) return running.first_rank + member;
  return running.first_rank +
         running.shared->place(member) * topology_->stride(running.shared->dimension);
}

// Within a group's one ring ASTRA-sim takes a delay of its own.
SimDuration AstraCollectives::bus_of(const SharedPhase& shared) const {
  return SimDuration{shared.any_ranks && !hierarchical(*settings_) ? 10
                                                                   : settings_->endpoint_delay};
}

network::PhaseCosts AstraCollectives::costs_of(const RunningPhase& running) const {
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

AstraCollectives::PhasePlace AstraCollectives::place_of(const Chunk& chunk, int32_t group) const {
  const SharedPhase& shared = *chunk.plan->phases[static_cast<size_t>(chunk.phase)].shared;
  if (shared.any_ranks) {
    return {
        workload_->groups[static_cast<size_t>(chunk.group)].position(common_.npu_of(chunk.rank)),
        workload_->groups[static_cast<size_t>(group)].ranks[0]};
  }
  if (shared.whole) return {chunk.rank, 0};
  // Along a dimension.
  int32_t npu = common_.npu_of(chunk.rank);
  int32_t first = 0;  // place
  if (group >= 0) {
    const auto& groups = workload_->groups;
    const Group& played = groups[static_cast<size_t>(group)];
    if (group != chunk.group) {
      const int32_t position = groups[static_cast<size_t>(chunk.group)].position(npu);
      npu = played.ranks[static_cast<size_t>(position)];
    }
    first = topology_->coordinate(played.lowest(), shared.dimension);
  }
  const int32_t place = topology_->coordinate(npu, shared.dimension) - first;
  return {shared.member_at(place), npu - place * topology_->stride(shared.dimension)};
}

uint32_t AstraCollectives::running_phase(uint32_t id, int32_t& member) {
  const Chunk& chunk = chunks_[id];
  const auto p = static_cast<size_t>(chunk.phase);
  SharedPhase* shared = chunk.plan->phases[p].shared;
  const int32_t group = common_.group_stand_in(chunk.group);
  const PhasePlace at = place_of(chunk, group);
  const int32_t first_rank = at.first_rank;
  member = at.member;
  const PhaseKey key{static_cast<uint64_t>(group + 1) << 32 | chunk.number,
                     static_cast<uint64_t>(p) << 32 | static_cast<uint32_t>(first_rank)};
  const auto [place, opened] = running_by_key_.try_emplace(key, 0);
  if (!opened) {
    if (running_[place->second].shared != shared) {
      common_.error =
          Error{ErrorCode::kUnusable,
                fmt::format("rank {} and rank {} disagree on chunk {} of their group's collectives",
                            chunk.rank, first_rank, chunk.number),
                {},
                "all members of a group must call the same collectives, with the same sizes, "
                "in the same order"};
    }
    return place->second;
  }
  place->second = open(shared, first_rank, group);
  RunningPhase& running = running_[place->second];
  running.key = key;
  running.chunks.assign(static_cast<size_t>(shared->phase.members()), kNone);
  if (common_.options.whole_phases && !shared->phase.may_end_early()) {
    running.times.resize(running.chunks.size());
    return place->second;
  }
  // Members are played by their NPUs. Where no other phase is, some of a class may be over before
  // others.
  common_.apart =
      common_.apart || (common_.options.classes != nullptr && common_.options.whole_phases);
  running.state = std::make_unique<network::PhaseState>(shared->phase);
  return place->second;
}

// A phase that no member has begun.
uint32_t AstraCollectives::open(SharedPhase* shared, int32_t first_rank, int32_t group) {
  if (free_running_.empty()) {
    free_running_.push_back(static_cast<uint32_t>(running_.size()));
    running_.emplace_back();
  }
  const uint32_t id = free_running_.back();
  free_running_.pop_back();
  RunningPhase& running = running_[id];
  running.shared = shared;
  running.first_rank = first_rank;
  running.group = group;
  running.alone = -1;
  running.sent = 0;
  running.begun = running.known = running.over = 0;
  running.in_flight = 0;
  running.meetings.clear();
  return id;
}

void AstraCollectives::begin_phase(uint32_t chunk) {
  if (chunks_[chunk].plan == &custom_plan_) return begin_custom(chunk);
  if (!common_.options.observers.empty()) tell_phase(chunk);
  if (common_.options.classes != nullptr && common_.group_stand_in(chunks_[chunk].group) < 0) {
    return common_.options.whole_phases ? begin_for_class(chunk) : play_for_class(chunk);
  }
  int32_t member = 0;
  const uint32_t id = running_phase(chunk, member);
  if (common_.stopped()) return;
  RunningPhase& running = running_[id];
  running.chunks[static_cast<size_t>(member)] = chunk;
  ++running.begun;
  if (running.state != nullptr) {
    Player player{*this, id};
    return running.state->start(member, player);
  }
  running.times[static_cast<size_t>(member)] = common_.now();
  if (running.begun == running.shared->phase.members()) work_out(id);
}

void AstraCollectives::tell_phase(uint32_t id) const {
  const Chunk& chunk = chunks_[id];
  const PlannedPhase& planned = chunk.plan->phases[static_cast<size_t>(chunk.phase)];
  const uint32_t node = collectives_[chunk.collective].node;
  for (AstraObserver* observer : common_.options.observers) {
    observer->phase_begins(chunk.rank, id, {planned.shared, chunk.group, chunk.number, node},
                           common_.now());
  }
}

// As a whole.

// Worked out once for every phase and group.
const std::vector<network::MemberEnd>& AstraCollectives::ends_if_together(
    const RunningPhase& running) {
  const int32_t group = running.shared->any_ranks ? running.group : -1;
  std::vector<network::MemberEnd>& ends = running.shared->ends_if_together[group];
  if (ends.empty()) {
    const std::vector<SimTime> starts(static_cast<size_t>(running.shared->phase.members()));
    ends.resize(starts.size());
    solve_phase(running.shared->phase, costs_of(running), starts, ends);
  }
  return ends;
}

void AstraCollectives::work_out(uint32_t id) {
  RunningPhase& running = running_[id];
  running_by_key_.erase(running.key);
  const std::vector<SimTime>& starts = running.times;
  const SimTime first = starts[0];
  std::vector<network::MemberEnd> ends;
  if (std::all_of(starts.begin(), starts.end(), [&](SimTime start) { return start == first; })) {
    const std::vector<network::MemberEnd>& known = ends_if_together(running);
    if (all_alike(known)) {
      common_.push(known[0].known + (common_.now() - SimTime{}), MachineEvent::kPhaseKnown, id);
      std::fill(running.times.begin(), running.times.end(),
                known[0].over + (common_.now() - SimTime{}));
      return;
    }
    ends = known;
    for (network::MemberEnd& end : ends) {
      end.over = end.over + (common_.now() - SimTime{});
      end.known = end.known + (common_.now() - SimTime{});
    }
  } else {
    ends.resize(starts.size());
    solve_phase(running.shared->phase, costs_of(running), starts, ends);
  }
  for (size_t m = 0; m < ends.size(); ++m) {
    running.times[m] = ends[m].over;
    common_.push(ends[m].known, MachineEvent::kEndKnown, static_cast<uint64_t>(m) << 32 | id);
  }
}

// All members are of one class: they begin now, too.
void AstraCollectives::begin_for_class(uint32_t id) {
  const Chunk& chunk = chunks_[id];
  RunningPhase all;
  all.shared = chunk.plan->phases[static_cast<size_t>(chunk.phase)].shared;
  all.group = chunk.group;
  const std::vector<network::MemberEnd>& ends = ends_if_together(all);
  if (!all_alike(ends)) {
    common_.apart = true;
    return;
  }
  common_.push(ends[0].known + (common_.now() - SimTime{}), MachineEvent::kChunkEndKnown, id);
}

void AstraCollectives::chunk_end_known(uint32_t id) {
  const Chunk& chunk = chunks_[id];
  const SharedPhase& shared = *chunk.plan->phases[static_cast<size_t>(chunk.phase)].shared;
  const network::MemberEnd& end =
      shared.ends_if_together.at(shared.any_ranks ? chunk.group : -1)[0];
  common_.set_alarm(chunk.rank, common_.now() + (end.over - end.known), MachineAlarm::kPhaseOver,
                    id);
}

void AstraCollectives::phase_known(uint32_t id) {
  for (size_t m = 0; m < running_[id].chunks.size(); ++m) end_known(id, static_cast<int32_t>(m));
}

void AstraCollectives::end_known(uint32_t id, int32_t member) {
  RunningPhase& running = running_[id];
  const auto m = static_cast<size_t>(member);
  const uint32_t chunk = running.chunks[m];
  common_.set_alarm(chunks_[chunk].rank, running.times[m], MachineAlarm::kPhaseOver, chunk);
  if (++running.known == running.shared->phase.members()) free_running_.push_back(id);
}

// Message by message.

// By one rank for its class: all members do at once whatever it does, so that what it waits for is
// there when what it sent is.
void AstraCollectives::play_for_class(uint32_t id) {
  const Chunk& chunk = chunks_[id];
  SharedPhase* shared = chunk.plan->phases[static_cast<size_t>(chunk.phase)].shared;
  if (shared->whole || !shared->phase.symmetric()) {
    common_.apart = true;
    return;
  }
  const PhasePlace at = place_of(chunk, chunk.group);
  const uint32_t opened = open(shared, at.first_rank, chunk.group);
  RunningPhase& running = running_[opened];
  running.key = {.chunk = UINT64_MAX, .member = opened};  // not looked for by key
  running.alone = at.member;
  running.chunks.assign(1, id);
  running.state =
      std::make_unique<network::PhaseState>(network::PhaseState::of_one(shared->phase, at.member));
  Player player{*this, opened};
  running.state->start(at.member, player);
}

// What a law needs to know where one member sends for all.
MessageCause AstraCollectives::cause_of(const RunningPhase& running) const {
  const SharedPhase& shared = *running.shared;
  const network::Algorithm algorithm = shared.phase.spec().choice.algorithm;
  return {.group = running.group,
          .turns =
              running.alone >= 0 && !shared.any_ranks && shared.places.empty() &&
              (algorithm == network::Algorithm::kRing || algorithm == network::Algorithm::kDirect)};
}

void AstraCollectives::Player::send(int32_t from, int32_t to, int64_t bytes) {
  PhaseMessage message{running, from, to, false};
  if (!collectives.common_.options.rendezvous) return collectives.send_in_phase(message, bytes);
  RunningPhase& phase = collectives.running_[running];
  RunningPhase::Meeting& meeting = phase.meetings[{from, to}];
  if (meeting.asked_for == 0) return meeting.offered.push_back(bytes);
  // The request is there already. ASTRA-sim hears of that by an event of this instant, so that the
  // sender's own request, which it makes now, takes the link before the message.
  --meeting.asked_for;
  ++phase.in_flight;
  message.cause = collectives.cause_of(phase);
  collectives.messages_.send_in_phase_soon(message, collectives.rank_of(phase, from),
                                           collectives.rank_of(phase, to), bytes);
}

void AstraCollectives::Player::asks(int32_t member, int32_t source) {
  if (!collectives.common_.options.rendezvous) return;
  collectives.send_in_phase({running, member, source, true}, AstraMessages::kRequest);
}

void AstraCollectives::send_in_phase(PhaseMessage message, int64_t bytes) {
  RunningPhase& phase = running_[message.phase];
  ++phase.in_flight;
  const int32_t from = rank_of(phase, message.from);
  const int32_t to = rank_of(phase, message.to);
  if (phase.alone >= 0) {  // it stands for the one that comes back
    message.from = phase.shared->phase.from(phase.alone, phase.sent++);
    message.to = phase.alone;
  }
  message.cause = cause_of(phase);
  messages_.send_in_phase(message, from, to, bytes);
}

void AstraCollectives::phase_message_over(const PhaseMessage& message) {
  RunningPhase& phase = running_[message.phase];
  --phase.in_flight;
  if (message.asks) return asked_in_phase(message);
  Player player{*this, message.phase};
  phase.state->arrived(message.to, message.from, player);
  forget_if_over(message.phase);
}

// The request of `from` has reached `to`, who sends what it has for it.
void AstraCollectives::asked_in_phase(const PhaseMessage& request) {
  RunningPhase::Meeting& meeting = running_[request.phase].meetings[{request.to, request.from}];
  if (meeting.offered.empty()) {
    ++meeting.asked_for;
    return;
  }
  const int64_t bytes = meeting.offered.front();
  meeting.offered.pop_front();
  send_in_phase({request.phase, request.to, request.from, false}, bytes);
}

void AstraCollectives::Player::insert(int32_t member, int64_t bytes, bool reduces) {
  Common& common = collectives.common_;
  const RunningPhase& phase = collectives.running_[running];
  common.set_alarm(common.stand_in(collectives.rank_of(phase, member)),
                   common.now() + collectives.bus_of(*phase.shared),
                   reduces ? MachineAlarm::kBusDone : MachineAlarm::kMessageReady, running,
                   static_cast<uint32_t>(member), bytes);
}

void AstraCollectives::Player::receive_later(int32_t member) {
  Common& common = collectives.common_;
  common.push(common.now(), MachineEvent::kWasThereForPhase,
              static_cast<uint64_t>(member) << 32 | running);
}

void AstraCollectives::Player::over(int32_t member) {
  RunningPhase& phase = collectives.running_[running];
  ++phase.over;
  collectives.proceed(phase.chunks[phase.alone >= 0 ? 0 : static_cast<size_t>(member)]);
}

void AstraCollectives::forget_if_over(uint32_t id) {
  RunningPhase& running = running_[id];
  if (running.state == nullptr || running.over < std::ssize(running.chunks) ||
      running.in_flight > 0) {
    return;
  }
  running_by_key_.erase(running.key);
  running.state = nullptr;
  free_running_.push_back(id);
}

}  // namespace tombolo::astra
