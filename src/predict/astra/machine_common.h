// What the four parts of a machine have in common, and how one hears of another.
//
//   ranks        start nodes, and free what waited for them       astra_ranks.h
//   collectives  cut into chunks, which go from phase to phase    astra_collectives.h
//   messages     meet who asked for them; a law carries them      astra_messages.h
//   memory       serves loads and stores                          astra_memory.h
//
// Work goes down by a call: a rank hands a node to the part that knows its kind, collectives hand
// messages to messages. That it is over goes up through the two interfaces below, so that no part
// knows how another works. Whatever takes time is an event of the queue or an alarm of a rank, which
// the machine gives to the part that set it (astra_machine.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "predict/astra/astra_alarms.h"
#include "predict/astra/astra_classes.h"
#include "predict/astra/astra_observer.h"
#include "predict/astra/astra_program.h"
#include "predict/astra/astra_system.h"
#include "predict/astra/message_laws.h"
#include "predict/engine/event_queue.h"
#include "predict/network/memory_expansion.h"
#include "predict/network/topology.h"

namespace tombolo::astra {

struct MachineOptions {
  NetworkLaw law = NetworkLaw::kAnalytical;
  MessageLawMaker own_law = {};  // instead of `law`; plays every message
  int32_t queues_per_dimension = 1;
  bool rendezvous = false;   // messages leave when asked for; plays every message
  bool whole_phases = true;  // off: play every message under `analytical` too
  // Simulate one rank of each; under `analytical` with whole_phases, or under `fluid`.
  const RankClasses* classes = nullptr;
  const network::ExpandedMemory* memory = nullptr;  // remote, outlives the machine; null: none
  std::vector<AstraObserver*> observers;            // told of everything; outlive the machine
};

// What the queue holds, and of whom. The order is part of the fingerprint.
enum class MachineEvent : uint32_t {
  kAlarms,            // of a rank
  kLawOfMessage,      // messages: the law's own
  kLawOfLink,         // the same
  kWasThere,          // messages: one that was asked for after it came, between nodes
  kWasThereForPhase,  // collectives: the same, in a phase
  kWasAskedFor,       // messages: a phase's, asked for before it was offered, leaves
  kPhaseKnown,        // collectives: when all members of a phase will be done
  kEndKnown,          // collectives: when one of them will
  kChunkEndKnown,     // collectives: the same, of a chunk that stands for its class
  kLetWork            // collectives: a queue that decides at the end of an instant
};

enum class MachineAlarm : uint32_t {
  kNodeDone,      // ranks
  kStartedUp,     // collectives, as those below
  kBusDone,       // of a message that is reduced
  kMessageReady,  // of a phase, for its member
  kPhaseOver,     // of a chunk
  kCustomDone,    // a computation of a collective that is spelled out
  kMemoryFree     // memory
};

// Ranks hear that a node is over which they handed on.
class NodeEnds {
 public:
  virtual void node_over(int32_t rank, uint32_t node) = 0;

 protected:
  ~NodeEnds() = default;
};

// A message between two members of a phase.
struct PhaseMessage {
  uint32_t phase = 0;        // the collectives' own number
  int32_t from = 0, to = 0;  // members
  bool asks = false;         // with a rendezvous: for a message from `to`
  MessageCause cause = {};
};

// Collectives hear of their messages.
class MessageEnds {
 public:
  virtual void phase_message_over(const PhaseMessage& message) = 0;
  virtual void custom_node_over(uint32_t custom, uint32_t node) = 0;  // of one that is spelled out

 protected:
  ~MessageEnds() = default;
};

struct Common {
  const network::Topology* topology;
  const SystemSettings* settings;
  const RankPrograms* workload;
  MachineOptions options;
  engine::EventQueue queue;
  Alarms alarms;
  NodeEnds* nodes = nullptr;  // both set when all parts are there
  MessageEnds* collectives = nullptr;
  std::optional<Error> error = {};  // the first; stops the run
  // Classes were simulated, and members of a phase do not end together, or messages do not stand for
  // those of their class: stops the run, too.
  bool apart = false;

  Common(const network::Topology& of_topology, const SystemSettings& of_settings,
         const RankPrograms& of_workload, MachineOptions of_options)
      : topology(&of_topology),
        settings(&of_settings),
        workload(&of_workload),
        options(std::move(of_options)),
        alarms(queue, static_cast<uint32_t>(MachineEvent::kAlarms), static_cast<int32_t>(ranks())) {
  }

  SimTime now() const { return queue.now(); }
  bool stopped() const { return error.has_value() || apart; }
  void push(SimTime at, MachineEvent event, uint64_t subject) {
    queue.push(at, static_cast<uint32_t>(event), subject);
  }
  void set_alarm(int32_t rank, SimTime at, MachineAlarm alarm, uint32_t subject, uint32_t part = 0,
                 int64_t detail = 0) {
    alarms.set(rank, at, {static_cast<uint32_t>(alarm), subject, part, detail});
  }

  // Those that are simulated: of each class one.
  size_t ranks() const {
    return options.classes ? options.classes->first.size() : workload->programs.size();
  }
  // The NPU that a simulated rank is, and the simulated rank that stands for an NPU.
  int32_t npu_of(int32_t rank) const {
    return options.classes ? options.classes->first[static_cast<size_t>(rank)] : rank;
  }
  int32_t stand_in(int32_t npu) const {
    return options.classes ? options.classes->class_of[static_cast<size_t>(npu)] : npu;
  }
  // The group that is simulated for this one; with classes -1 where one rank stands for all
  // members.
  int32_t group_stand_in(int32_t group) const {
    if (options.classes == nullptr || group < 0) return group;
    return options.classes->stand_in[static_cast<size_t>(group)];
  }
  const Program& program_of(int32_t rank) const {
    return *workload->programs[static_cast<size_t>(npu_of(rank))];
  }
};

}  // namespace tombolo::astra
