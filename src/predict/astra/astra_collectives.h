// AstraCollectives: collectives of all ranks at work.
//
//   astra_collectives.cc   a collective becomes chunks, a chunk goes from dimension to dimension
//                          and waits in the rank's queue of each; a queue lets `active_chunks` of
//                          them work at once, the others wait by priority
//   astra_phases.cc        the members of a phase meet, and each is done at some time
//   astra_custom.cc        collectives that are spelled out as graphs
//
// A phase is worked out as a whole as soon as all its members have begun (network/phase_solver.h):
// one event a member instead of three a message. Where MachineOptions say otherwise, and where a
// member may be over before others have begun, its messages are played (network/phase_state.h).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "predict/astra/astra_messages.h"
#include "predict/astra/astra_plan.h"
#include "predict/astra/machine_common.h"
#include "predict/network/phase_solver.h"
#include "predict/network/phase_state.h"

namespace tombolo::astra {

class AstraCollectives : public MessageEnds {
 public:
  AstraCollectives(Common& common, AstraMessages& messages);

  void start(int32_t rank, uint32_t node);  // a collective; ends by NodeEnds::node_over

  void ring(int32_t rank, MachineAlarm kind, const Alarm& alarm);
  void happen(MachineEvent event, uint64_t subject);

  void phase_message_over(const PhaseMessage& message) override;
  void custom_node_over(uint32_t custom, uint32_t node) override;

  const CollectivePlanner& planner() const { return planner_; }
  // MachineReport::scattered_groups.
  const std::map<size_t, std::vector<int32_t>>& scattered_groups() const {
    return scattered_groups_;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // --- collectives and their chunks (astra_collectives.cc) ---------------------------------------
  struct OfRank {
    uint32_t chunks = 0;                                     // of collectives of all ranks, begun
    std::vector<std::pair<int32_t, uint32_t>> group_chunks;  // the same per group
    uint32_t chunks_in_all = 0;
    int32_t priority = 0;  // of the latest collective
  };
  struct Collective {  // of one rank
    int32_t rank = 0;
    uint32_t node = 0;
    uint32_t chunks_left = 0;
    uint32_t next_free = kNone;
  };
  struct Chunk {  // of one rank
    const ChunkPlan* plan = nullptr;
    int32_t rank = 0;
    int32_t group = -1;
    uint32_t number = 0;  // the same on all ranks of the group
    uint32_t collective = kNone;
    int32_t priority = 0;
    uint32_t next = kNone;  // behind it in its queue, or free
    SimTime queued;
    uint32_t sequence = 0;  // among the chunks of its rank
    int16_t phase = -1;
    bool working = false;
  };
  struct Queue {  // those that work stand in front
    uint32_t first = kNone, last = kNone;
    int32_t working = 0;
    bool decides = false;  // at the end of this instant
  };

  void launch(int32_t rank, uint32_t node);  // its chunks
  int32_t layout_of(int32_t group);
  uint32_t new_collective(int32_t rank, uint32_t node, size_t chunks);
  void set_priority(OfRank& rank, const Program::Node& node);
  uint32_t new_chunk(int32_t rank, int32_t group, uint32_t collective, int32_t priority,
                     const ChunkPlan* plan);
  void proceed(uint32_t chunk);  // to its next phase, or it is done
  int64_t bytes_in_phase(const Chunk& chunk) const;
  void enqueue(Queue& queue, uint32_t chunk);
  void remove(Queue& queue, uint32_t chunk);
  void let_work(Queue& queue);
  void let_work_now(Queue& queue);
  void chunk_done(uint32_t chunk);
  Queue& queue_of(const Chunk& chunk);
  // Where chunks may overtake each other, those of one instant must be known before any is chosen,
  // or ranks come to different orders and wait for each other.
  bool decides_late() const {
    return settings_->chunk_choice != network::ChunkChoice::kFirstCome ||
           settings_->dimension_order != network::DimensionScheduling::kBaseline;
  }

  // --- those that are spelled out (astra_custom.cc) ----------------------------------------------
  struct CustomRun {  // of one rank
    const Program* program = nullptr;
    int32_t rank = 0;
    int32_t group = -1;
    uint32_t chunk = kNone;
    std::vector<uint32_t> waiting_for;
    std::vector<uint32_t> ready;
    uint32_t in_flight = 0;
  };
  void begin_custom(uint32_t chunk);
  void start_custom_nodes(uint32_t custom);

  // --- phases (astra_phases.cc) ------------------------------------------------------------------
  struct PhaseKey {
    uint64_t chunk = 0;   // group and number
    uint64_t member = 0;  // phase and the first member's rank
    bool operator==(const PhaseKey&) const = default;
  };
  struct PhaseKeyHash {
    size_t operator()(const PhaseKey& key) const;
  };
  struct RunningPhase {
    PhaseKey key;
    SharedPhase* shared = nullptr;
    int32_t first_rank = 0;  // of member 0, where members lie along a dimension
    int32_t group = -1;
    int32_t alone = -1;  // the member that plays it for its class; -1: all do
    int64_t sent = 0;    // by that one
    int32_t begun = 0, known = 0, over = 0;
    int64_t in_flight = 0;  // messages
    // Between two members: messages that are not asked for yet, or requests ahead of them.
    struct Meeting {
      std::deque<int64_t> offered;  // bytes
      int64_t asked_for = 0;
    };
    std::map<std::pair<int32_t, int32_t>, Meeting> meetings;
    std::vector<uint32_t> chunks;                // per member
    std::vector<SimTime> times;                  // per member: its start, then its end
    std::unique_ptr<network::PhaseState> state;  // where messages are played
  };

  void begin_phase(uint32_t chunk);
  // The phase that a chunk takes part in, and as which member; the first to come opens it.
  uint32_t running_phase(uint32_t chunk, int32_t& member);
  uint32_t open(SharedPhase* shared, int32_t first_rank, int32_t group);
  struct PhasePlace {
    int32_t member = 0, first_rank = 0;
  };
  // In this group, which is the chunk's own or simulated for it.
  PhasePlace place_of(const Chunk& chunk, int32_t group) const;
  int32_t rank_of(const RunningPhase& running, int32_t member) const;
  network::PhaseCosts costs_of(const RunningPhase& running) const;
  SimDuration bus_of(const SharedPhase& shared) const;
  void tell_phase(uint32_t chunk) const;
  // As a whole.
  const std::vector<network::MemberEnd>& ends_if_together(const RunningPhase& running);
  void work_out(uint32_t running);
  void phase_known(uint32_t running);
  void end_known(uint32_t running, int32_t member);
  // As a whole, by one rank for its class.
  void begin_for_class(uint32_t chunk);
  void chunk_end_known(uint32_t chunk);
  // Message by message.
  void play_for_class(uint32_t chunk);
  MessageCause cause_of(const RunningPhase& running) const;
  void send_in_phase(PhaseMessage message, int64_t bytes);
  void asked_in_phase(const PhaseMessage& request);
  void forget_if_over(uint32_t running);
  // The driver of a phase that is played message by message (network/phase_state.h).
  struct Player {
    AstraCollectives& collectives;
    uint32_t running;
    void send(int32_t from, int32_t to, int64_t bytes);
    void insert(int32_t member, int64_t bytes, bool reduces);
    void asks(int32_t member, int32_t source);
    void receive_later(int32_t member);
    void over(int32_t member);
  };

  Common& common_;
  AstraMessages& messages_;
  const network::Topology* topology_;
  const SystemSettings* settings_;
  const RankPrograms* workload_;
  CollectivePlanner planner_;
  std::vector<OfRank> ranks_;
  // Per group: its layout, once asked for.
  std::vector<std::optional<int32_t>> layouts_;
  std::map<size_t, std::vector<int32_t>> scattered_groups_;
  std::vector<Rotation> rotations_;  // per rank, or one where none ever changes
  std::vector<Queue> queues_;        // per rank and queue
  std::vector<Collective> collectives_;
  std::vector<Chunk> chunks_;
  std::vector<RunningPhase> running_;
  std::vector<uint32_t> free_running_;
  std::unordered_map<PhaseKey, uint32_t, PhaseKeyHash> running_by_key_;
  std::vector<CustomRun> customs_;
  ChunkPlan custom_plan_;  // one phase, in the first queue
  uint32_t free_collective_ = kNone, free_chunk_ = kNone;
};

}  // namespace tombolo::astra
