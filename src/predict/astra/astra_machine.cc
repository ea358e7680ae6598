#include "predict/astra/astra_machine.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::astra {
namespace {

bool reaches_memory(const RankPrograms& workload) {
  const Program* seen = nullptr;  // ranks next to each other often share a Program
  for (const Program* program : workload.programs) {
    if (program == nullptr || program == seen) continue;
    seen = program;
    if (std::any_of(program->nodes.begin(), program->nodes.end(), accesses_memory)) return true;
  }
  return false;
}

// With whole phases only where they say the same as their messages.
MachineOptions checked(const network::Topology& topology, const RankPrograms& workload,
                       MachineOptions options) {
  const bool by_formula = !options.own_law && options.law == NetworkLaw::kAnalytical;
  const bool as_fluid = !options.own_law && options.law == NetworkLaw::kFluid;
  CHECK(!options.classes ||
            (!options.rendezvous && (as_fluid || (by_formula && options.whole_phases))),
        "classes need whole phases under the law analytical, or the law fluid");
  CHECK(!options.classes || !options.memory || !options.memory->shared(),
        "ranks that share a memory do not end together");
  CHECK(workload.programs.size() == static_cast<size_t>(topology.npus()), "{} programs for {} NPUs",
        workload.programs.size(), topology.npus());
  CHECK(!options.classes || options.classes->class_of.size() == workload.programs.size(),
        "classes of {} ranks for {}", options.classes ? options.classes->class_of.size() : 0,
        workload.programs.size());
  // Who is served first, of those that leave a collective at one instant, follows from the order of
  // their messages.
  const bool in_turns =
      options.memory != nullptr && options.memory->shared() && reaches_memory(workload);
  if (options.rendezvous || in_turns || !by_formula) options.whole_phases = false;
  return options;
}

}  // namespace

AstraMachine::AstraMachine(const network::Topology& topology, const SystemSettings& settings,
                           const RankPrograms& workload, const MachineOptions& options)
    : common_(topology, settings, workload, checked(topology, workload, options)),
      messages_(common_),
      memory_(common_),
      collectives_(common_, messages_),
      ranks_(common_, collectives_, messages_, memory_) {
  common_.nodes = &ranks_;
  common_.collectives = &collectives_;
}

Result<MachineReport> AstraMachine::run() {
  CHECK(!ran_, "a machine runs once");
  ran_ = true;
  const MachineOptions& options = common_.options;
  for (AstraObserver* observer : options.observers) {
    observer->begins({common_.topology, common_.settings, common_.workload, options.classes,
                      options.whole_phases});
  }
  ranks_.begin();
  while (!common_.stopped()) {
    messages_.before_next();
    if (common_.queue.empty()) break;
    happen(common_.queue.pop());
  }
  if (common_.error) return fail(std::move(*common_.error));
  MachineReport out;
  if (common_.apart) return out;
  out.ranks = TRY(ranks_.reports());
  out.events = common_.queue.popped();
  out.fingerprint = common_.queue.fingerprint();
  const CollectivePlanner& planner = collectives_.planner();
  out.themis_in_vain = common_.settings->dimension_order == network::DimensionScheduling::kThemis &&
                       !planner.chose_orders();
  out.short_lists.assign(planner.short_lists().begin(), planner.short_lists().end());
  out.scattered_groups = collectives_.scattered_groups();
  return out;
}

void AstraMachine::happen(const engine::Event& event) {
  const auto kind = static_cast<MachineEvent>(event.kind);
  switch (kind) {
    case MachineEvent::kAlarms:
      return common_.alarms.work_off(
          event.subject, [this](int32_t rank, const Alarm& alarm) { ring(rank, alarm); });
    case MachineEvent::kLawOfMessage:
      return messages_.wake_law(AstraMessages::About::kMessage, event.subject);
    case MachineEvent::kLawOfLink:
      return messages_.wake_law(AstraMessages::About::kLink, event.subject);
    case MachineEvent::kWasThere:
      return messages_.was_there(event.subject);
    case MachineEvent::kWasAskedFor:
      return messages_.leave(static_cast<uint32_t>(event.subject));
    case MachineEvent::kWasThereForPhase:
    case MachineEvent::kPhaseKnown:
    case MachineEvent::kEndKnown:
    case MachineEvent::kChunkEndKnown:
    case MachineEvent::kLetWork:
      return collectives_.happen(kind, event.subject);
  }
}

void AstraMachine::ring(int32_t rank, const Alarm& alarm) {
  const auto kind = static_cast<MachineAlarm>(alarm.kind);
  switch (kind) {
    case MachineAlarm::kNodeDone:
      return ranks_.node_over(rank, alarm.subject);
    case MachineAlarm::kMemoryFree:
      return memory_.free(static_cast<int32_t>(alarm.subject));
    default:
      return collectives_.ring(rank, kind, alarm);
  }
}

}  // namespace tombolo::astra
