#include "decide/search/best_plan.h"

#include <algorithm>

#include "decide/search/search.h"

namespace tombolo::search {
namespace {

using cost::Configuration;

SearchOptions search_options(const plan::OpenJob& open, const BestPlanOptions& options) {
  const cluster::Datacenter& datacenter = open.job.cluster.datacenters[0];
  return {.objective = options.objective,
          .top = options.finals.searched(options.top),
          .threads = options.threads,
          .prune = options.prune,
          .memory = datacenter.device.memory,
          .price = datacenter.price,
          .progress = options.progress,
          .stop = options.stop};
}

RankedPlan ranked(const plan::OpenJob& open, const Pricer& pricer, const Candidate& candidate) {
  const Configuration& c = candidate.configuration;
  RankedPlan plan;
  plan.candidate = candidate;
  plan.job = with_configuration(open.job, c);
  plan.parts = pricer.parts(c);
  plan.idle_devices = open.job.cluster.devices() - c.devices();
  return plan;
}

// Those that were found, as far as they can be simulated by what the simulator says.
FinalCounts hold_finals_of(const SearchOptions& how, const BestPlanOptions& options,
                           std::vector<RankedPlan>& plans) {
  if (options.law != cost::Law::kTombolo || options.finals.candidates == 0) return {};
  std::vector<plan::Job> jobs;
  for (const RankedPlan& plan : plans) jobs.push_back(plan.job);
  const auto score = [&](const RankedPlan& plan) {
    return score_of(how, plan.candidate.configuration, plan.iteration());
  };
  return hold_finals(
      simulate_finals(options.finals, jobs, options.threads), plans,
      [](const RankedPlan& plan) { return plan.candidate.time; },
      [&](const RankedPlan& a, const RankedPlan& b) { return score(a) < score(b); });
}

// What is shown of a plan in addition to its time.
Result<estimate::Estimate> describe(const BestPlanOptions& options, bool with_band,
                                    RankedPlan& plan) {
  estimate::Estimate detail = TRY(estimate::estimate(plan.job, options.law, with_band));
  const double longer = plan.iteration() / plan.candidate.time;
  plan.tokens_per_second =
      real(plan.candidate.configuration.global_batch * plan.job.model->sequence) /
      plan.iteration().value;
  plan.mfu = detail.mfu.value_or(0) / longer;
  if (detail.price) plan.price = *detail.price * longer;
  return detail;
}

// The next degree of tensor parallelism beyond a space that ends at the domain.
std::optional<int64_t> tensor_beyond(const plan::OpenJob& open, const BestPlanOptions& options,
                                     const SearchSpace& space) {
  if (open.fixed.tensor || options.limits.tensor_max > 0) return std::nullopt;
  SpaceLimits wide = options.limits;
  wide.tensor_max = space.devices;
  const Result<SearchSpace> all = make_space(open, options.law, wide);
  if (!all) return std::nullopt;
  for (const int64_t tensor : all->on(Axis::kTensor)) {
    if (tensor > space.domain) return tensor;
  }
  return std::nullopt;
}

// What would make something fit: a choice of the job left open, more devices, both, or larger ones.
std::string what_would_fit(const plan::OpenJob& open, const BestPlanOptions& options,
                           const Candidate& closest) {
  const auto fits = [&](const plan::OpenJob& other) {
    const Result<SearchSpace> space = make_space(other, options.law, options.limits);
    const Result<std::unique_ptr<Pricer>> pricer = make_pricer(other.job, options.law);
    if (!space || !pricer) return false;
    const SearchOptions how = search_options(other, options);
    const std::optional<Candidate> least = least_memory(*space, **pricer, how);
    return least && least->memory <= how.memory;
  };
  std::vector<std::pair<std::string, plan::OpenJob>> relaxed{{"", open}};
  const auto leave_open = [&](const char* name, auto plan::Choices::*choice) {
    if (!(open.fixed.*choice)) return;
    plan::OpenJob other = open;
    (other.fixed.*choice).reset();
    relaxed.emplace_back(fmt::format("{} = \"auto\"", name), std::move(other));
  };
  leave_open("micro_batch", &plan::Choices::micro_batch);
  leave_open("recompute", &plan::Choices::recompute);
  leave_open("zero", &plan::Choices::zero);
  leave_open("sequence_parallel", &plan::Choices::sequence_parallel);
  leave_open("tensor", &plan::Choices::tensor);
  leave_open("pipeline", &plan::Choices::pipeline);
  leave_open("context", &plan::Choices::context);
  leave_open("data", &plan::Choices::data);
  if (open.job.prefill) {
    relaxed.emplace_back("a job without [prefill]", open);
    relaxed.back().second.job.prefill.reset();
  }
  const std::string memory = fmt::format("devices with {}", brief(closest.memory));
  for (int64_t times = 1; times <= 64; times *= 2) {
    for (auto [name, other] : relaxed) {
      other.job.cluster.datacenters[0].nodes *= times;
      if (!fits(other)) continue;
      if (times == 1) return name;
      return fmt::format("{}{}{} devices, on which something fits, or {}", name,
                         name.empty() ? "" : " and ", other.job.cluster.devices(), memory);
    }
  }
  return memory;
}

tl::unexpected<Error> nothing_fits(const plan::OpenJob& open, const BestPlanOptions& options,
                                   const SearchSpace& space,
                                   const std::optional<Candidate>& closest) {
  if (!closest) {
    return infeasible(
        fmt::format("{}: no parallelism divides {} layers, {} heads and a batch of {} over {} "
                    "devices as [parallelism] asks",
                    open.job.file, space.layers, open.job.model->heads, space.global_batch,
                    space.devices),
        "fewer fixed numbers, or a global_batch with more divisors");
  }
  const cluster::Datacenter& datacenter = open.job.cluster.datacenters[0];
  return infeasible(
      fmt::format("{}: nothing fits into {}: the closest needs {} of {}, {} too much\n  {}",
                  open.job.file, datacenter.device.name, brief(closest->memory),
                  brief(datacenter.device.memory),
                  brief(closest->memory - datacenter.device.memory),
                  configuration_text(closest->configuration)),
      what_would_fit(open, options, *closest));
}

constexpr const char* kSearchedSchedules = "1F1B and interleaved 1F1B";

// Than a search tries.
bool is_other_schedule(layout::ScheduleKind asked, bool tries_virtual_stages) {
  return asked != layout::default_schedule(1) &&
         (!tries_virtual_stages || asked != layout::default_schedule(2));
}

}  // namespace

std::string configuration_text(const Configuration& c) {
  std::string text = fmt::format("tensor {}, pipeline {}, data {}", c.tensor, c.pipeline, c.data);
  if (c.context > 1) text += fmt::format(", context {}", c.context);
  if (c.expert > 1) text += fmt::format(", expert {}", c.expert);
  if (c.virtual_stages > 1) text += fmt::format(", virtual stages {}", c.virtual_stages);
  if (c.zero > 0) text += fmt::format(", zero {}", c.zero);
  if (c.sequence_parallel) text += ", sequence parallel";
  if (c.recompute != model::Recompute::kNone) {
    text += fmt::format(", recompute {}", to_name(c.recompute));
  }
  return text + fmt::format("; {} microbatches of {}", c.microbatches(), c.micro_batch);
}

std::string note_on_schedule(layout::ScheduleKind asked, const std::string& searched) {
  return fmt::format(
      "parallelism.schedule = \"{}\" has no effect: the search knows {}; tombolo simulate --policy "
      "{} predicts it",
      name_of(asked), searched, name_of(asked));
}

std::vector<std::string> notes_on_wan_keys(const layout::Parallelism& asked, std::string_view why) {
  std::vector<std::string> keys;
  if (asked.sharing) keys.push_back(fmt::format("sharing = \"{}\"", to_name(*asked.sharing)));
  if (asked.cell) keys.push_back(fmt::format("cell = {}", *asked.cell));
  if (asked.discipline != layout::Parallelism{}.discipline)
    keys.push_back(fmt::format("discipline = \"{}\"", to_name(asked.discipline)));
  std::vector<std::string> notes;
  for (const std::string& key : keys)
    notes.push_back(fmt::format("parallelism.{} has no effect: {}", key, why));
  return notes;
}

std::vector<std::string> notes_over_datacenters(const layout::Parallelism& asked,
                                                bool tries_virtual_stages) {
  std::vector<std::string> notes = notes_on_wan_keys(
      asked, "in a search every pipeline sends separately; tombolo simulate takes it");
  if (is_other_schedule(asked.schedule, tries_virtual_stages))
    notes.push_back(note_on_schedule(asked.schedule, tries_virtual_stages
                                                         ? kSearchedSchedules
                                                         : "1F1B alone over several datacenters"));
  std::vector<std::string> keys;
  if (!asked.datacenter_per_stage.empty()) keys.push_back("datacenter_per_stage");
  if (!asked.layers_per_stage.empty()) keys.push_back("layers_per_stage");
  if (!asked.tensor_per_stage.empty()) keys.push_back("tensor_per_stage");
  const bool one = keys.size() == 1;
  if (!keys.empty())
    notes.push_back(fmt::format(
        "parallelism.{} {} no effect: the search places stages itself; tombolo simulate takes {}",
        fmt::join(keys, ", "), one ? "has" : "have", one ? "it" : "them"));
  return notes;
}

Result<BestPlan> best_plan(const plan::OpenJob& open, const BestPlanOptions& options) {
  SearchSpace space = TRY(make_space(open, options.law, options.limits));
  const std::unique_ptr<Pricer> pricer = TRY(make_pricer(open.job, options.law));
  BestPlan found;
  if (!open.fixed.recompute && !pricer->selective_recompute_differs()) {
    std::erase(space.on(Axis::kRecompute), static_cast<int64_t>(model::Recompute::kSelective));
    found.notes.emplace_back(kSelectiveIsNotTried);
  }
  const layout::ScheduleKind asked = open.job.parallelism.schedule;
  if (is_other_schedule(asked, /*tries_virtual_stages*/ true) &&
      !traits_of(asked).has(layout::kAllForwardsFirst))
    found.notes.push_back(note_on_schedule(asked, kSearchedSchedules));
  layout::Parallelism shared = open.job.parallelism;
  shared.sharing.reset();  // the law's own note is of it
  for (std::string& note : notes_on_wan_keys(shared, "no pipeline crosses the WAN"))
    found.notes.push_back(std::move(note));
  const SearchOptions how = search_options(open, options);
  const SearchResult result = search(space, *pricer, how);
  if (result.top.empty()) return nothing_fits(open, options, space, result.closest);

  found.stopped = result.stopped;
  if (result.stopped && !result.top.empty())
    found.gap = std::max(0.0, 1 - result.left / result.top.front().score);
  for (const Candidate& candidate : result.top) {
    found.top.push_back(ranked(open, *pricer, candidate));
  }
  found.finals = hold_finals_of(how, options, found.top);
  std::vector<Candidate> simulated;
  for (const RankedPlan& plan : found.top) {
    if (!plan.simulated) continue;
    simulated.push_back(plan.candidate);
    simulated.back().time = *plan.simulated;
    simulated.back().score = score_of(how, plan.candidate.configuration, *plan.simulated);
  }
  found.why_not = why_not(space, *pricer, how, result.families,
                          {found.top.front().candidate, std::move(simulated)},
                          tensor_beyond(open, options, space));
  found.top.resize(std::min(found.top.size(), static_cast<size_t>(options.top)));
  for (RankedPlan& plan : found.top) {
    const bool first = &plan == &found.top.front();
    const estimate::Estimate detail = TRY(describe(options, options.with_band && first, plan));
    if (!first) continue;
    found.band = detail.band;
    found.notes.insert(found.notes.begin(), detail.notes.begin(), detail.notes.end());
  }
  if (asked == layout::default_schedule(2) && open.fixed.virtual_stages.value_or(1) == 1 &&
      found.top.front().candidate.configuration.virtual_stages == 1) {
    found.notes.push_back(fmt::format(
        "parallelism.schedule = \"{}\" has no effect: the best plan has no virtual stages; "
        "virtual_stages = 2 asks for some",
        name_of(asked)));
  }
  found.counts = result.counts;
  found.memory_of_device = how.memory;
  found.limits = limits_text(options.limits, space.domain);
  return found;
}

Result<std::vector<plan::Job>> best_of_each_shape(const plan::OpenJob& open,
                                                  const BestPlanOptions& options) {
  const SearchSpace space = TRY(make_space(open, options.law, options.limits));
  const std::unique_ptr<Pricer> pricer = TRY(make_pricer(open.job, options.law));
  SearchOptions how = search_options(open, options);
  how.top = 1;
  how.families = false;
  how.progress = nullptr;
  std::vector<Candidate> best;
  for (const int64_t tensor : space.on(Axis::kTensor)) {
    const SearchSpace of_tensor = restricted(space, Axis::kTensor, tensor);
    for (const int64_t pipeline : space.on(Axis::kPipeline)) {
      const SearchSpace of_both = restricted(of_tensor, Axis::kPipeline, pipeline);
      for (const int64_t size : space.on(Axis::kMicrobatch)) {
        const SearchResult found =
            search(restricted(of_both, Axis::kMicrobatch, size), *pricer, how);
        best.insert(best.end(), found.top.begin(), found.top.end());
      }
    }
  }
  std::sort(best.begin(), best.end(), better);
  std::vector<plan::Job> jobs;
  for (const Candidate& each : best)
    jobs.push_back(with_configuration(open.job, each.configuration));
  return jobs;
}

}  // namespace tombolo::search
