#include "predict/strand/pair_offer.h"

#include <algorithm>

#include "predict/strand/plan_strands.h"

namespace tombolo::strand {
namespace {

// When the last operator of a strand ends.
Seconds end_of(const StrandAnswer& answer, bool forward) {
  double end = 0;
  for (const OperatorRun& run : answer.runs) {
    if ((run.op < answer.pair.forward().size()) == forward) end = std::max(end, run.end);
  }
  return Seconds{end};
}

// Why no layer speaks for all, or nothing.
std::string unlike_layers(const plan::Job& job) {
  if (job.model && job.model->experts && job.model->has_dense_layers()) {
    return "layers with and without experts take different times when they run together";
  }
  if (job.model && job.model->linear_attention) {
    return "layers with and without linear attention take different times when they run together";
  }
  const cluster::Datacenter& first = job.cluster.datacenters.front();
  for (const cluster::Datacenter& other : job.cluster.datacenters) {
    if (other.device == first.device && other.scale_up == first.scale_up &&
        other.scale_out == first.scale_out) {
      continue;
    }
    return fmt::format("layers in {} and {} take different times when they run together",
                       first.name, other.name);
  }
  return "";
}

// Parts of attention (FA0, FA1, between which other ranks' keys arrive) are one operator in a run.
std::string performed_name(const std::string& name) {
  for (const std::string_view whole : {"FA", "bFA"}) {
    if (name.starts_with(whole)) return std::string(whole);
  }
  return name;
}

// Names in the order in which they begin, on each stream as it was planned.
std::vector<std::string> order_in(const StrandAnswer& answer) {
  std::vector<OperatorRun> runs = answer.runs;
  std::ranges::stable_sort(runs, {}, &OperatorRun::start);
  std::vector<std::string> names;
  for (const OperatorRun& run : runs) {
    std::string name = performed_name(answer.pair[run.op].name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

Result<PairOffer> offer_pairs(const plan::Job& job) {
  if (std::string why_not = unlike_layers(job); !why_not.empty()) {
    return PairOffer{.why_not = std::move(why_not)};
  }
  plan::Job kept = job;
  kept.training.recompute = model::Recompute::kNone;
  StrandOptions options;
  options.profile = TRY(profile_of(job));
  Result<StrandAnswer> answer = plan_strands(kept, options);
  if (!answer && answer.error().code == ErrorCode::kInfeasible) {
    return PairOffer{.why_not = answer.error().message};
  }
  if (!answer) return fail(answer.error());
  PairOffer offer{.gain = answer->gain, .memory_more = answer->memory_more};
  offer.why_not = answer->refused;
  if (!offer.why_not.empty()) return offer;
  offer.layer = plan::LayerPair{.apart = Seconds{answer->by_stack},
                                .together = Seconds{answer->paired},
                                .forward_end = end_of(*answer, true),
                                .backward_end = end_of(*answer, false),
                                .order = order_in(*answer),
                                .measured = options.profile.has_value()};
  return offer;
}

Result<std::optional<Profile>> profile_of(const plan::Job& job) {
  const std::string& file = job.parallelism.strands_profile;
  if (file.empty()) return std::nullopt;
  return std::optional(TRY(during(read_profile(file), job.file + ": parallelism.strands_profile")));
}

bool may_offer(const plan::Job& job, plan::CostSource source) {
  return source == plan::CostSource::kTombolo || !job.parallelism.strands_profile.empty();
}

}  // namespace tombolo::strand
