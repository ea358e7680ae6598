#include "predict/astra/astra_machine.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::astra {

using graph::NodeType;

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

}  // namespace

AstraMachine::AstraMachine(const network::Topology& topology, const SystemSettings& settings,
                           const RankPrograms& workload, const MachineOptions& options)
    : MessageRun(queue_, kLawOfMessage, !options.observers.empty()),
      topology_(&topology),
      settings_(&settings),
      workload_(&workload),
      options_(options),
      planner_(topology, settings, options.queues_per_dimension),
      alarms_(queue_, kAlarms,
              static_cast<int32_t>(options.classes ? options.classes->first.size()
                                                   : workload.programs.size())),
      ranks_(options.classes ? options.classes->first.size() : workload.programs.size()),
      layouts_(workload.groups.size()),
      queues_(ranks_.size() * static_cast<size_t>(planner_.queues())) {
  const bool by_formula = !options.own_law && options.law == NetworkLaw::kAnalytical;
  CHECK(!options.classes || (options.whole_phases && !options.rendezvous && by_formula),
        "classes need whole phases under the law analytical");
  CHECK(!options.classes || !options.memory || !options.memory->shared(),
        "ranks that share a memory do not end together");
  CHECK(workload.programs.size() == static_cast<size_t>(topology.npus()), "{} programs for {} NPUs",
        workload.programs.size(), topology.npus());
  CHECK(!options.classes || options.classes->class_of.size() == workload.programs.size(),
        "classes of {} ranks for {}", options.classes ? options.classes->class_of.size() : 0,
        workload.programs.size());
  if (options.rendezvous) options_.whole_phases = false;
  // Who is served first, of those that leave a collective at one instant, follows from the order of
  // their messages.
  if (options.memory != nullptr && options.memory->shared() && reaches_memory(workload)) {
    options_.whole_phases = false;
  }
  if (!by_formula) options_.whole_phases = false;
  law_ = options.own_law ? options.own_law(topology, *this)
                         : make_message_law(options.law, topology, hierarchical(settings), *this);
  settles_ = law_->settles();
  rotations_.assign(planner_.rotates() ? ranks_.size() : 1, planner_.no_rotation());
  custom_plan_.phases.push_back({});
}

AstraMachine::~AstraMachine() = default;

Result<MachineReport> AstraMachine::run() {
  CHECK(!ran_, "a machine runs once");
  ran_ = true;
  for (AstraObserver* observer : options_.observers) {
    observer->begins({topology_, settings_, workload_, options_.classes, options_.whole_phases});
  }
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    rank.program = workload_->programs[static_cast<size_t>(npu_of(static_cast<int32_t>(r)))];
    CHECK(rank.program, "rank {} is NPU {}, which has no program", r,
          npu_of(static_cast<int32_t>(r)));
    rank.left = static_cast<uint32_t>(rank.program->nodes.size());
    for (uint32_t node = 0; node < rank.left; ++node) {
      rank.waiting_for.push_back(rank.program->nodes[node].dependencies);
      if (rank.waiting_for.back() == 0) make_ready(rank, node);
    }
  }
  for (size_t r = 0; r < ranks_.size() && !stopped(); ++r) wake(static_cast<int32_t>(r));
  while (!stopped() && another_event()) {
    const engine::Event event = queue_.pop();
    const auto subject = static_cast<uint32_t>(event.subject);
    switch (event.kind) {
      case kAlarms:
        alarms_.work_off(event.subject,
                         [this](int32_t rank, const Alarm& alarm) { ring(rank, alarm); });
        break;
      case kLawOfMessage:
        law_->woken(About::kMessage, event.subject);
        break;
      case kLawOfLink:
        law_->woken(About::kLink, event.subject);
        break;
      case kWasThere:
        tell(Party::unpacked(event.subject));
        break;
      case kWasThereForPhase: {
        Player player{*this, subject};
        running_[subject].state->received(static_cast<int32_t>(event.subject >> 32), player);
        break;
      }
      case kWasAskedFor:
        carry(subject);
        break;
      case kPhaseKnown:
        phase_known(subject);
        break;
      case kEndKnown:
        end_known(subject, static_cast<int32_t>(event.subject >> 32));
        break;
      case kChunkEndKnown:
        chunk_end_known(subject);
        break;
      case kLetWork:
        queues_[event.subject].decides = false;
        let_work_now(queues_[event.subject]);
        break;
    }
  }
  if (error_) return fail(std::move(*error_));
  MachineReport out;
  if (apart_) return out;
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
    out.ranks.push_back(rank.report);
  }
  out.events = queue_.popped();
  out.fingerprint = queue_.fingerprint();
  out.themis_in_vain = settings_->dimension_order == network::DimensionScheduling::kThemis &&
                       !planner_.chose_orders();
  out.short_lists.assign(planner_.short_lists().begin(), planner_.short_lists().end());
  out.scattered_groups = std::move(scattered_groups_);
  return out;
}

// Whatever is not computing and not on the host communicates, be it a transfer from memory.
AstraMachine::Resource AstraMachine::resource_of(const Program::Node& node) {
  if (node.on_host) return kHost;
  if (node.type == NodeType::kCompute) return kAccelerator;
  return node.type == NodeType::kReceive ? kNoResource : kCommunicator;
}

AstraMachine::Busy* AstraMachine::busy_of(Rank& rank, const Program::Node& node) {
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

void AstraMachine::make_ready(Rank& rank, uint32_t node) {
  Ready& ready = rank.ready[resource_of(rank.program->nodes[node])];
  ready.push_back(node);
  std::push_heap(ready.begin(), ready.end(), std::greater<>());
}

void AstraMachine::wake(int32_t r) {
  start_ready(r);
  Rank& rank = ranks_[static_cast<size_t>(r)];
  // A node that takes no time frees others, and ASTRA-sim starts these with the rank's next event.
  // Where there will be none it would wait for ever; here they start now.
  while (rank.in_flight == 0 && rank.left > 0 && !stopped() &&
         std::any_of(std::begin(rank.ready), std::end(rank.ready),
                     [](const Ready& ready) { return !ready.empty(); })) {
    start_ready(r);
  }
  if (rank.left == 0 && !rank.finished) {
    rank.finished = true;
    rank.report.finish = now();
    for (AstraObserver* observer : options_.observers) observer->rank_ends(r, now());
  }
}

// Each node that could start when the round began, and whose resource is free, lowest id first.
void AstraMachine::start_ready(int32_t r) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  rank.starting = true;
  while (!stopped()) {
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

void AstraMachine::start(int32_t r, uint32_t n) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const Program::Node& node = rank.program->nodes[n];
  const Resource resource = resource_of(node);
  rank.taken[resource] = resource != kNoResource;
  ++rank.in_flight;
  if (Busy* busy = busy_of(rank, node)) busy->begin(now());
  for (AstraObserver* observer : options_.observers) observer->node_begins(r, n, now());
  if (settings_->replay_only) return compute(r, n);
  switch (node.type) {
    case NodeType::kCompute:
      return compute(r, n);
    case NodeType::kCollective:
      return start_collective(r, n);
    case NodeType::kSend:
      return offer(r, node.peer, node.tag, node.bytes, {static_cast<uint32_t>(r), n});
    case NodeType::kReceive:
      return ask(node.peer, r, node.tag, node.bytes, {static_cast<uint32_t>(r), n});
    case NodeType::kMemoryLoad:
    case NodeType::kMemoryStore:
      return ask_memory({r, n});
    case NodeType::kInvalid:
    case NodeType::kMetadata:
      return release(r, n);
  }
}

// As long as the trace says, or as the roofline allows: min(bandwidth * intensity, peak).
void AstraMachine::compute(int32_t r, uint32_t n) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const Program::Node& node = rank.program->nodes[n];
  int64_t lasts = node.replay_ns;
  if (settings_->roofline && !node.on_host && !settings_->replay_only) {
    if (node.tensor_bytes == 0) return release(r, n);
    const double bandwidth = settings_->memory_bandwidth * 1e9;
    const double peak = settings_->peak_performance * 1e12;
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
  alarms_.set(r, now() + SimDuration{lasts}, {kNodeDone, n});
}

void AstraMachine::release(int32_t r, uint32_t n) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const Program::Node& node = rank.program->nodes[n];
  rank.taken[resource_of(node)] = false;
  --rank.in_flight;
  --rank.left;
  rank.waiting_for[n] = kNone;  // done; stuck() looks for those that are not
  if (Busy* busy = busy_of(rank, node)) busy->end(now());
  for (AstraObserver* observer : options_.observers) observer->node_ends(r, n, now());
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

void AstraMachine::done(int32_t rank, uint32_t node) {
  release(rank, node);
  wake(rank);
}

void AstraMachine::ring(int32_t rank, const Alarm& alarm) {
  switch (alarm.kind) {
    case kNodeDone:
      return done(rank, alarm.subject);
    case kStartedUp:
      return launch(rank, alarm.subject);
    case kPhaseOver:
      return proceed(alarm.subject);
    case kCustomDone:
      return custom_done(alarm.subject, alarm.part);
    case kMemoryFree:
      return memory_free(static_cast<int32_t>(alarm.subject));
    case kBusDone: {
      const SimDuration reduction = costs_of(running_[alarm.subject]).reduction(alarm.detail);
      return alarms_.set(rank, now() + reduction, {kMessageReady, alarm.subject, alarm.part});
    }
    case kMessageReady: {
      Player player{*this, alarm.subject};
      running_[alarm.subject].state->ready(static_cast<int32_t>(alarm.part), player);
      return forget_if_over(alarm.subject);
    }
  }
}

// Nothing happens any more, and somebody is not done.
Error AstraMachine::stuck() const {
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
      const auto box =
          mail_.find({stand_in(node.peer), static_cast<int32_t>(first), node.tag, node.bytes});
      if (box == mail_.end() || box->second.asked_for.empty()) continue;
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
