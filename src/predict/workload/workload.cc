#include "predict/workload/workload.h"

#include <algorithm>

#include "predict/cost/law.h"
#include "predict/workload/traffic_volume.h"

namespace tombolo::workload {
namespace {

Status check_graphs(const plan::Job& job) {
  if (!job.model) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"gpt3-175b\" or config = \"config.json\"");
  }
  TRY(cost::check_divisions(job));
  if (job.cluster.datacenters.size() > 1) {
    return unusable(fmt::format("{}: cluster: {} datacenters; layers with tensor, context, expert "
                                "parallelism or ZeRO are priced on one",
                                job.file, job.cluster.datacenters.size()),
                    "one [[cluster.datacenter]]");
  }
  return {};
}

// As estimate reads a job: virtual stages without a schedule of their own are interleaved, and one
// stage is no pipeline.
std::string schedule_of(const plan::Parallelism& p) {
  const bool line = plan::layout_of(p.schedule) == plan::Layout::kLine;
  if (p.pipeline == 1 && !line) return "1f1b";
  if (p.pipeline > 1 && p.virtual_stages > 1 && p.schedule == "1f1b") return "interleaved";
  return p.schedule;
}

schedule::Shape shape_of(const plan::Job& job, const std::string& name) {
  const plan::Parallelism& p = job.parallelism;
  const int64_t chunks = p.pipeline == 1 ? 1 : p.virtual_stages;
  schedule::Shape shape;
  shape.stages = static_cast<int32_t>(p.pipeline * chunks);
  shape.microbatches =
      static_cast<int32_t>(job.training.global_batch / (job.training.micro_batch * p.data));
  shape.chunks = static_cast<int32_t>(chunks);
  shape.layout = plan::layout_of(name);
  return shape;
}

}  // namespace

Result<Workload> Workload::make(const plan::Job& job, const WorkloadOptions& options) {
  TRY(check_graphs(job));
  const plan::Parallelism& p = job.parallelism;
  if (options.remote_parameters && p.zero != 3) {
    return unusable(
        fmt::format("{}: parallelism.zero = {}: parameters in remote memory are shards of ZeRO 3",
                    job.file, p.zero),
        "zero = 3");
  }
  const TrafficVolume volume = TRY(traffic_volume(job, {}));
  Workload out(TRY(RankNumbering::make(p, job.file)));
  const cost::Configuration c = TRY(cost::configuration_of(job));
  const cost::IterationLaw law =
      TRY(during(cost::IterationLaw::make(*job.model, job.cluster.datacenters[0],
                                          cost::settings_of(job.training)),
                 job.file));
  out.parallelism_ = p;
  out.remote_parameters_ = options.remote_parameters;
  out.weight_bytes_ = plan::element_bytes(job.training.precision);
  out.gradient_bytes_ = plan::gradient_bytes(job.training.precision);
  out.overhead_ = law.constants().stack.host_iteration.value;
  const std::string name = schedule_of(p);
  out.shape_ = shape_of(job, name);

  cost::Configuration alone = c;
  alone.virtual_stages = 1;
  schedule::Times times;
  for (const model::Slice& slice : cut_layers(*job.model, p)) {
    Chunk chunk;
    chunk.parts = parts_of(job, slice, law, c, options.granularity);
    const cost::StagePrice price = law.stage(alone, slice);
    chunk.update = price.update.value;
    const plan::StageCost cost{.forward = price.forward, .backward = price.backward};
    times.stages.push_back(schedule::durations_of(cost));
    out.chunks_.push_back(std::move(chunk));
  }
  times.transfer.assign(out.chunks_.size() - 1, round_to_ns(law.transfer(c)));
  out.schedule_ =
      TRY(during(schedule::build(name, out.shape_, times, p.discipline), "reading " + job.file));

  const MicroBatchVolume batch = micro_batch_volume(job);
  out.boundary_ = batch.hidden / (p.sequence_parallel ? static_cast<double>(p.tensor) : 1);
  const bool folded = out.shape_.position_of(0) == out.shape_.position_of(out.shape_.stages - 1);
  if (!folded) out.tied_ = volume.tied.value;
  out.notes_ = law.constants().assumed;
  out.find_groups();
  return out;
}

void Workload::find_groups() {
  constexpr RankGroup kLists[] = {RankGroup::kTensor,          RankGroup::kContext,
                                  RankGroup::kExpert,          RankGroup::kGradients,
                                  RankGroup::kExpertGradients, RankGroup::kPipeline};
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
