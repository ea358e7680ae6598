#include "predict/workload/workload.h"

#include <algorithm>
#include <functional>

#include "predict/cost/batch_by_speed.h"
#include "predict/cost/law.h"
#include "predict/cost/stage_laws.h"
#include "predict/workload/traffic_volume.h"

namespace tombolo::workload {
namespace {

Status check_graphs(const plan::Job& job) {
  if (!job.model) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"gpt3-175b\" or config = \"config.json\"");
  }
  return plan::check_divisions(job);
}

// The law of each chunk of layers, and what a chunk takes to hand a microbatch on: where a Plan
// has its stage, if there are several datacenters.
class ChunkLaws {
 public:
  static Result<ChunkLaws> make(const plan::Job& job) {
    cost::StageLaws laws = TRY(during(cost::StageLaws::make(*job.model, job), job.file));
    plan::Plan placed;
    if (laws.across()) placed = TRY(plan::lay_out(job));
    return ChunkLaws(std::move(laws), std::move(placed));
  }

  bool across() const { return laws_.across(); }
  const cost::IterationLaw& of(size_t chunk) const {
    return laws_.in(across() ? placed_.datacenter_index(rank_of(chunk)) : 0);
  }
  // Whether replicas of a stage work on devices that take another time than the first one's.
  bool first_stands_for_unlike() const {
    for (int32_t s = 0; s < (across() ? placed_.parallelism.pipeline : 0); ++s) {
      if (!plan::unlike_datacenters(placed_, s).empty()) return true;
    }
    return false;
  }
  bool shards_in_datacenters() const {
    return across() && placed_.parallelism.zero > 0 && placed_.replicas_lie_apart();
  }
  // From a chunk to the next.
  Seconds transfer(size_t chunk, const cost::Configuration& c) const {
    if (!across()) return of(chunk).transfer(c);
    const cluster::Datacenter& here = placed_.datacenter_of(rank_of(chunk));
    const cluster::Datacenter& next = placed_.datacenter_of(rank_of(chunk + 1));
    if (here.name == next.name) return of(chunk).transfer(c);
    const int64_t shards = placed_.ranks[static_cast<size_t>(rank_of(chunk))].shards;
    return cost::wan_hop(*placed_.cluster.link(here.name, next.name), {&here, shards},
                         {&next, shards}, placed_.parallelism.data, placed_.boundary)
        .transfer;
  }

 private:
  ChunkLaws(cost::StageLaws laws, plan::Plan placed)
      : laws_(std::move(laws)), placed_(std::move(placed)) {}
  int32_t rank_of(size_t chunk) const { return placed_.rank_of(static_cast<int32_t>(chunk), 0); }

  cost::StageLaws laws_;
  plan::Plan placed_;  // over several datacenters
};

// One stage is no pipeline: its chunks of layers are one.
plan::Decisions spread_of(const plan::Decisions& job) {
  plan::Decisions out = job;
  if (job.parallelism.pipeline > 1) return out;
  out.parallelism.virtual_stages = 1;
  if (out.parallelism.mapping() != layout::StageMapping::kLine) {
    out.parallelism.schedule = layout::default_schedule(1);
  }
  return out;
}

void note_what_graphs_leave_out(const plan::Job& job, const ChunkLaws& laws,
                                std::vector<std::string>& notes) {
  if (laws.first_stands_for_unlike()) {
    notes.push_back(
        "left out: different devices of replicas; every pipeline takes the times of the first");
  }
  const plan::Exchange exchange = job.exchange.value_or(plan::Exchange{});
  if (laws.shards_in_datacenters()) {
    notes.push_back(
        "left out: datacenters that shard separately with ZeRO; collectives are over all "
        "replicas");
  }
  const bool may_lie_apart = job.cluster.datacenters.size() > 1 && job.parallelism.data > 1;
  if (may_lie_apart && exchange.mode != plan::ExchangeMode::kDense) {
    notes.push_back(
        fmt::format("left out: [exchange] mode = \"{}\"; replicas sum all gradients, in every "
                    "iteration",
                    to_name(exchange.mode)));
  }
  const std::vector<int64_t>& each = job.parallelism.microbatches_per_replica;
  if (std::adjacent_find(each.begin(), each.end(), std::not_equal_to<>()) != each.end()) {
    notes.push_back(
        fmt::format("left out: microbatches_per_replica; every pipeline is counted with {} of them",
                    job.microbatches()));
  }
}

// All of an iteration, one after the other, must fit into 64 bits of nanoseconds.
Status check_time(const plan::Job& job, const schedule::PipelineShape& shape, const char* what,
                  Seconds time) {
  const double times = 8.0 * shape.stages * shape.microbatches;
  if (time.value >= 0 && time.value * times < 9e9) return {};
  return unusable(fmt::format("{}: {} takes {}: an iteration would span over 290 years", job.file,
                              what, brief(time)),
                  "faster links or devices, or fewer microbatches");
}

}  // namespace

Result<Workload> Workload::make(const plan::Job& asked, const WorkloadOptions& options) {
  const plan::Job job = TRY(cost::with_batch_by_speed(asked));
  TRY(check_graphs(job));
  const layout::Parallelism& p = job.parallelism;
  if (options.remote_parameters && p.zero != 3) {
    return unusable(
        fmt::format("{}: parallelism.zero = {}: parameters in remote memory are shards of ZeRO 3",
                    job.file, p.zero),
        "zero = 3");
  }
  const TrafficVolume volume = TRY(traffic_volume(job, {}));
  Workload out(TRY(layout::RankNumbering::make(p, job.file)));
  const ChunkLaws laws = TRY(ChunkLaws::make(job));
  const cost::Configuration of_job = TRY(cost::configuration_of(job));
  const cost::Configuration alone = cost::stage_configuration(of_job, p.tensor, laws.across());
  const cost::Configuration& c = laws.across() ? alone : of_job;
  out.parallelism_ = p;
  out.remote_parameters_ = options.remote_parameters;
  out.weight_bytes_ = plan::element_bytes(job.training.precision);
  out.gradient_bytes_ = plan::gradient_bytes(job);
  out.overhead_ = laws.of(0).constants().stack.host_iteration.value;
  const plan::Decisions spread = spread_of(job);
  out.shape_ = schedule::shape_of(spread);

  schedule::Times times;
  out.notes_ = job.notes;
  note_what_graphs_leave_out(job, laws, out.notes_);
  for (const model::Slice& slice : plan::split_layers(*job.model, p)) {
    const size_t index = out.chunks_.size();
    const cost::IterationLaw& law = laws.of(index);
    if (index > 0) {
      const Seconds transfer = laws.transfer(index - 1, c);
      TRY(check_time(job, out.shape_, "a transfer between stages", transfer));
      times.transfer.push_back(round_to_ns(transfer));
    }
    for (const std::string& assumed : law.constants().assumed) {
      const auto known = std::find(out.notes_.begin(), out.notes_.end(), assumed);
      if (known == out.notes_.end()) out.notes_.push_back(assumed);
    }
    Chunk chunk;
    chunk.parts = parts_of(job, slice, law, c, options.granularity);
    const cost::StagePrice price = law.stage(alone, slice);
    TRY(check_time(job, out.shape_, "a microbatch of a stage",
                   price.forward + price.backward + price.update));
    chunk.update = price.update.value;
    const plan::StageCost cost{.forward = price.forward, .backward = price.backward};
    times.stages.push_back(schedule::durations_of(cost));
    out.chunks_.push_back(std::move(chunk));
  }
  out.schedule_ =
      TRY(during(schedule::build(spread.parallelism.schedule, out.shape_, times, p.discipline),
                 "reading " + job.file));

  const cost::MicrobatchVolume batch = microbatch_volume(job, p.tensor);
  out.whole_boundary_ = batch.hidden;
  out.boundary_ = batch.hidden / static_cast<double>(p.tensor);
  const bool folded = out.shape_.position_of(0) == out.shape_.position_of(out.shape_.stages - 1);
  if (!folded) out.tied_ = volume.tied.value;
  out.find_groups();
  return out;
}

void Workload::find_groups() {
  constexpr layout::RankGroup kLists[] = {
      layout::RankGroup::kTensor,          layout::RankGroup::kContext,
      layout::RankGroup::kExpert,          layout::RankGroup::kGradients,
      layout::RankGroup::kExpertGradients, layout::RankGroup::kPipeline};
  int64_t name = 1;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    Groups& g = groups_[kind];
    g.lists = numbering_.groups(kLists[kind]);
    if (kind == kTied) {
      stage_offsets_ = g.lists.offsets;
      if (tied_ > 0) {
        g.lists.offsets = {g.lists.offsets.front(), g.lists.offsets.back()};
      } else {
        g.lists.offsets.resize(1);
      }
    }
    const bool for_experts = kind == kExpert || kind == kExpertGradients;
    if (for_experts && parallelism_.expert == 1) g.lists.offsets.resize(1);
    g.first_name = name;
    if (g.size() < 2) continue;
    g.of_rank.assign(static_cast<size_t>(ranks()), -1);
    for (size_t i = 0; i < g.lists.bases.size(); ++i) {
      for (const int32_t offset : g.lists.offsets) {
        g.of_rank[static_cast<size_t>(g.lists.bases[i] + offset)] = static_cast<int32_t>(i);
      }
    }
    name += static_cast<int64_t>(g.lists.bases.size());
  }
}

chakra::CommGroups Workload::groups() const {
  chakra::CommGroups out;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const Groups& g = groups_[kind];
    if (g.size() < 2 || g.size() == static_cast<size_t>(ranks())) continue;
    for (size_t i = 0; i < g.lists.bases.size(); ++i) {
      out.emplace(fmt::format("{}", g.first_name + static_cast<int64_t>(i)), g.lists.members(i));
    }
  }
  return out;
}

TrafficKind Workload::kind_of(const graph::Node& collective) {
  switch (static_cast<Kind>(kind_index(collective))) {
    case kTensor:
      return TrafficKind::kTensor;
    case kContext:
      return TrafficKind::kContext;
    case kExpert:
      return TrafficKind::kExpert;
    case kTied:
      return TrafficKind::kPipeline;
    default:
      return TrafficKind::kData;
  }
}

}  // namespace tombolo::workload
