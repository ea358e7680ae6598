// AstraMachine: all ranks of a system at work, in virtual time, by ASTRA-sim's rules.
//
// Five stories meet here, each in a file of its own:
//
//   astra_machine.cc       a rank works off its Program: a node starts when its dependencies are
//                          done and its resource is free. A rank has one host, one accelerator and
//                          one communicator; receives take none. Lowest id first
//   astra_collectives.cc   a collective becomes chunks, a chunk goes from dimension to dimension
//                          and waits in the rank's queue of each; a queue lets `active_chunks` of
//                          them work at once, the others wait by priority. astra_custom.cc: those
//                          that are spelled out
//   astra_phases.cc        the members of a phase meet, and each is done at some time
//   astra_messages.cc      messages between two ranks, sent and received by nodes or by the phases
//                          of collectives; how they travel is a law's (message_law.h).
//                          astra_rendezvous.cc: not before the receiver has asked for them
//   astra_memory.cc        loads from remote memory and stores to it wait for it
//
// Under the law `analytical` a phase is worked out as a whole as soon as all its members have begun
// (network/phase_solver.h): one event a member instead of three a message. With whole_phases off,
// and always under any other law and where ranks take turns at a remote memory, every message is
// played.
//
// Determinism: events of one instant happen in ASTRA-sim's order (astra_alarms.h), so that answers
// are equal to the cycle. Cost: docs/guide/astra-sim.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "predict/astra/astra_alarms.h"
#include "predict/astra/astra_classes.h"
#include "predict/astra/astra_observer.h"
#include "predict/astra/astra_plan.h"
#include "predict/astra/astra_program.h"
#include "predict/astra/astra_system.h"
#include "predict/astra/message_laws.h"
#include "predict/engine/event_queue.h"
#include "predict/network/memory_expansion.h"
#include "predict/network/phase_solver.h"
#include "predict/network/phase_state.h"
#include "predict/network/topology.h"

namespace tombolo::astra {

struct MachineOptions {
  NetworkLaw law = NetworkLaw::kAnalytical;
  MessageLawMaker own_law = {};  // instead of `law`; plays every message
  int32_t queues_per_dimension = 1;
  bool rendezvous = false;               // messages leave when asked for; plays every message
  bool whole_phases = true;              // off: play every message under `analytical` too
  const RankClasses* classes = nullptr;  // simulate one rank of each; needs whole_phases
  const network::ExpandedMemory* memory = nullptr;  // remote, outlives the machine; null: none
  std::vector<AstraObserver*> observers;            // told of everything; outlive the machine
};

// What one rank did. Times of a kind are unions of intervals: what overlaps counts once.
struct RankReport {
  SimTime finish;
  SimDuration host, accelerator, communication;
  SimDuration memory;     // remote, from when it is asked for until the access is over
  SimDuration computing;  // sum over computations of the accelerator
  // Weighted by the duration of computations by roofline.
  double compute_bound = 0, compute_utilization = 0, memory_utilization = 0, intensity = 0;
  // Whether it had such nodes, though they may have taken no time.
  bool uses_host = false, uses_accelerator = false, communicates = false, uses_memory = false;

  // For how long it both computed and communicated, of a rank that does nothing else: one that has
  // nothing under way is over. ASTRA-sim does not say it of others.
  std::optional<SimDuration> overlap() const {
    if (!uses_accelerator || !communicates || uses_host || uses_memory) return std::nullopt;
    return std::max(accelerator + communication - (finish - SimTime{}), SimDuration{});
  }
};

struct MachineReport {
  std::vector<RankReport> ranks;  // of each class, where classes were simulated
  uint64_t events = 0;
  std::string fingerprint;
  bool themis_in_vain = false;  // asked for, and no collective goes through several dimensions
  std::vector<graph::CollectiveType> short_lists = {};  // CollectivePlanner::short_lists
  // With hierarchical groups, of those that are rings for all that (network/group_layout.h): one
  // for each number of ranks.
  std::map<size_t, std::vector<int32_t>> scattered_groups = {};
};

class AstraMachine : private MessageRun {
 public:
  // All must outlive the machine.
  AstraMachine(const network::Topology& topology, const SystemSettings& settings,
               const RankPrograms& workload, const MachineOptions& options = {});
  ~AstraMachine();

  // Once. Failed, naming a rank and a node: some rank cannot go on (a message or a member of a
  // collective that never comes).
  Result<MachineReport> run();

  // After a run with classes: members of a phase do not end together, so that it has no meaning.
  bool apart() const { return apart_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr int64_t kRequest = 8192;  // bytes that ask for a message

  enum EventKind : uint32_t {
    kAlarms,        // of a rank
    kLawOfMessage,  // the law's own
    kLawOfLink,
    kWasThere,  // a message that was asked for after it came, between nodes
    kWasThereForPhase,
    kWasAskedFor,    // a phase's message, before it was offered: it leaves
    kPhaseKnown,     // when all members of a phase will be done
    kEndKnown,       // when one of them will
    kChunkEndKnown,  // the same, of a chunk that stands for its class
    kLetWork         // a queue that decides at the end of an instant
  };
  enum AlarmKind : uint32_t {
    kNodeDone,
    kStartedUp,
    kBusDone,
    kMessageReady,
    kPhaseOver,
    kCustomDone,
    kMemoryFree
  };

  // --- ranks and their Programs (astra_machine.cc) ---------------------------------------------
  enum Resource : uint8_t { kHost, kAccelerator, kCommunicator, kNoResource, kResources };
  static Resource resource_of(const Program::Node& node);

  // A heap of nodes that could start, the lowest on top.
  using Ready = std::vector<uint32_t>;

  // How long at least one of several things was under way.
  struct Busy {
    int32_t now = 0;
    bool ever = false;
    SimTime since;
    SimDuration total;
    void begin(SimTime t) {
      ever = true;
      if (now++ == 0) since = t;
    }
    void end(SimTime t) {
      if (--now == 0) total += t - since;
    }
  };

  struct Rank {
    const Program* program = nullptr;
    std::vector<uint32_t> waiting_for;  // per node: dependencies that are not done
    Ready ready[kResources];
    std::vector<uint32_t> freed;  // while nodes are being started: those freed meanwhile
    bool taken[kResources] = {};
    bool starting = false, finished = false;
    uint32_t in_flight = 0;
    uint32_t left = 0;    // nodes that are not done
    uint32_t chunks = 0;  // of collectives of all ranks, begun so far
    std::vector<std::pair<int32_t, uint32_t>> group_chunks;  // the same per group
    uint32_t chunks_in_all = 0;
    int32_t priority = 0;    // of the latest collective
    uint32_t transfers = 0;  // from a pool, asked for so far
    Busy host, accelerator, communication, memory;
    RankReport report;
  };

  void wake(int32_t rank);  // start what can be started; has it finished?
  void start_ready(int32_t rank);
  void start(int32_t rank, uint32_t node);
  void compute(int32_t rank, uint32_t node);
  void done(int32_t rank, uint32_t node);  // and wakes the rank
  void release(int32_t rank, uint32_t node);
  void make_ready(Rank& rank, uint32_t node);
  Busy* busy_of(Rank& rank, const Program::Node& node);
  void ring(int32_t rank, const Alarm& alarm);
  Error stuck() const;

  // --- collectives (astra_collectives.cc, astra_custom.cc) --------------------------------------
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
    int32_t begun = 0, known = 0, over = 0;
    int64_t in_flight = 0;  // messages
    // Between two members: messages that nobody asked for yet, or requests ahead of them.
    struct Meeting {
      std::deque<int64_t> offered;  // bytes
      int64_t asked_for = 0;
    };
    std::map<std::pair<int32_t, int32_t>, Meeting> meetings;
    std::vector<uint32_t> chunks;                // per member
    std::vector<SimTime> times;                  // per member: its start, then its end
    std::unique_ptr<network::PhaseState> state;  // where messages are played
  };
  struct CustomRun {  // of one rank
    const Program* program = nullptr;
    int32_t rank = 0;
    int32_t group = -1;
    uint32_t chunk = kNone;
    std::vector<uint32_t> waiting_for;
    Ready ready;
    uint32_t in_flight = 0;
  };

  void start_collective(int32_t rank, uint32_t node);
  void launch(int32_t rank, uint32_t node);  // its chunks
  int32_t layout_of(int32_t group);
  uint32_t new_collective(int32_t rank, uint32_t node, size_t chunks);
  void set_priority(Rank& rank, const Program::Node& node);
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
  void begin_custom(uint32_t chunk);
  void start_custom_nodes(uint32_t custom);
  void custom_done(uint32_t custom, uint32_t node);

  // --- phases (astra_phases.cc) ------------------------------------------------------------------
  void begin_phase(uint32_t chunk);
  // The phase that a chunk takes part in, and as which member; the first to come opens it.
  uint32_t running_phase(uint32_t chunk, int32_t& member);
  int32_t rank_of(const RunningPhase& running, int32_t member) const;
  network::PhaseCosts costs_of(const RunningPhase& running) const;
  SimDuration bus_of(const SharedPhase& shared) const;
  // As a whole.
  const std::vector<network::MemberEnd>& ends_if_together(const RunningPhase& running);
  void work_out(uint32_t running);
  void phase_known(uint32_t running);
  void end_known(uint32_t running, int32_t member);
  // As a whole, by one rank for its class.
  void begin_for_class(uint32_t chunk);
  void chunk_end_known(uint32_t chunk);
  // Message by message.
  void forget_if_over(uint32_t running);
  // The driver of a phase that is played message by message (network/phase_state.h).
  struct Player {
    AstraMachine& machine;
    uint32_t running;
    void send(int32_t from, int32_t to, int64_t bytes);
    void insert(int32_t member, int64_t bytes, bool reduces);
    void asks(int32_t member, int32_t source);
    void receive_later(int32_t member);
    void over(int32_t member);
  };

  // --- remote memory (astra_memory.cc) -----------------------------------------------------------
  struct MemoryAccess {
    int32_t rank = 0;
    uint32_t node = 0;
  };
  struct PoolTransfer {  // an access of all ranks
    uint32_t asked = 0;
    int32_t first_rank = 0;       // to ask
    std::vector<uint32_t> nodes;  // per rank
  };
  void ask_memory(const MemoryAccess& access);
  void ask_pool(const MemoryAccess& access);
  void begin_access(const MemoryAccess& access);  // it is served, and ends with the node
  void memory_free(int32_t memory);

  // --- messages (astra_messages.cc) ------------------------------------------------------------
  // Who is told of a message between nodes: a node of a rank, or of a custom collective, or half a
  // rendezvous.
  struct Party {
    enum Kind : uint8_t { kOfRank, kCustom, kRendezvous };
    uint32_t owner = kNone;  // rank, or custom run, or half of a rendezvous
    uint32_t node = 0;       // below 2^30
    Kind kind = kOfRank;
    uint64_t packed() const { return uint64_t{owner} << 32 | node << 2 | kind; }
    static Party unpacked(uint64_t p) {
      return {static_cast<uint32_t>(p >> 32), static_cast<uint32_t>(p) >> 2,
              static_cast<Kind>(p & 3)};
    }
  };
  struct Mail {  // messages between nodes that agree on all of this are matched in order
    int32_t from = 0, to = 0;  // as they are simulated
    int64_t tag = 0, bytes = 0;
    bool operator==(const Mail&) const = default;
  };
  struct Message {
    int32_t from = 0;  // NPUs
    int32_t to = 0;
    int64_t bytes = 0;
    Mail mail;
    uint32_t running = kNone;  // a phase's message; else between nodes
    int32_t member = 0, source = 0;
    Party sender, receiver;  // receiver: once it has asked
    bool asks = false;       // of a phase: for a message from `to`
    bool arrived = false;
    uint32_t next = kNone;  // in a Mailbox, or free
  };
  struct MailHash {
    size_t operator()(const Mail& mail) const;
  };
  struct Mailbox {
    std::deque<uint32_t> sent;    // not asked for yet
    std::deque<Party> asked_for;  // not sent yet
  };

  // By nodes; with a rendezvous when the other end agrees.
  void offer(int32_t rank, int32_t peer, int64_t tag, int64_t bytes, Party sender);
  void ask(int32_t peer, int32_t rank, int64_t tag, int64_t bytes, Party receiver);
  void agreed(uint32_t half);
  uint32_t new_half(bool sends, const Mail& mail, Party party);
  void send_in_phase(uint32_t running, int32_t from, int32_t to, int64_t bytes, bool asks);
  uint32_t new_phase_message(uint32_t running, int32_t from, int32_t to, int64_t bytes, bool asks);
  void asked_in_phase(const Message& request);
  void send(int32_t rank, int32_t peer, int64_t tag, int64_t bytes, Party sender);
  void receive(int32_t peer, int32_t rank, int64_t tag, int64_t bytes, Party receiver);
  void met(const Party& receiver) const;  // observers hear of it
  void carry(uint32_t message);           // hands it to the law
  bool another_event();                   // is there one?
  void arrived(uint32_t message) override;
  void tell(const Party& party);
  uint32_t new_message();
  void forget(uint32_t message);

  // The NPU that a simulated rank is, and the simulated rank that stands for an NPU.
  int32_t npu_of(int32_t rank) const {
    return options_.classes ? options_.classes->first[static_cast<size_t>(rank)] : rank;
  }
  int32_t stand_in(int32_t npu) const {
    return options_.classes ? options_.classes->class_of[static_cast<size_t>(npu)] : npu;
  }
  // The group that is simulated for this one; with classes -1 where one rank stands for all
  // members.
  int32_t group_stand_in(int32_t group) const {
    if (options_.classes == nullptr || group < 0) return group;
    return options_.classes->stand_in[static_cast<size_t>(group)];
  }
  // Where chunks may overtake each other, those of one instant must be known before any is chosen,
  // or ranks come to different orders and wait for each other.
  bool decides_late() const {
    return settings_->chunk_choice != network::ChunkChoice::kFirstCome ||
           settings_->dimension_order != network::DimensionScheduling::kBaseline;
  }
  bool stopped() const { return error_.has_value() || apart_; }
  void tell_phase(uint32_t chunk) const;
  void passes(uint32_t message, const Passage& passage) override;

  const network::Topology* topology_;
  const SystemSettings* settings_;
  const RankPrograms* workload_;
  MachineOptions options_;
  CollectivePlanner planner_;
  engine::EventQueue queue_;
  Alarms alarms_;
  std::unique_ptr<MessageLaw> law_;
  bool settles_ = false;  // the law does
  std::vector<Rank> ranks_;
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
  std::vector<uint32_t> free_customs_;
  std::vector<Message> messages_;
  std::unordered_map<Mail, Mailbox, MailHash> mail_;
  struct HalfRendezvous {
    Mail mail;  // from and to as NPUs
    Party party;
    bool sends = false;
    uint32_t next_free = kNone;
  };
  std::vector<HalfRendezvous> halves_;
  uint32_t free_half_ = kNone;
  std::deque<PoolTransfer> transfers_;  // that not all ranks have asked for, in order
  uint32_t transfers_begun_ = 0;
  SimTime pool_free_;
  // Shared memories that serve somebody, and who waits for them.
  std::unordered_map<int32_t, std::deque<MemoryAccess>> busy_memories_;
  ChunkPlan custom_plan_;  // one phase, in the first queue
  uint32_t free_collective_ = kNone, free_chunk_ = kNone, free_message_ = kNone;
  std::optional<Error> error_;  // the first; stops the run
  bool apart_ = false;          // stops it, too
  bool ran_ = false;
};

}  // namespace tombolo::astra
