#include "decide/sweep/sweep_answer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>

#include "decide/across/exchange_choice.h"
#include "decide/geo/mixed.h"
#include "decide/geo/select_job.h"
#include "decide/schedule_search/best_schedule.h"
#include "decide/schedule_search/strands_choice.h"
#include "decide/search/best_plan.h"
#include "predict/cost/iteration.h"
#include "predict/cost/price_plan.h"
#include "predict/cost/worth.h"
#include "predict/estimate/estimate.h"
#include "predict/ledger/plan_ledger.h"
#include "predict/sim/simulate.h"
#include "spec/plan/adaptive_batch.h"
#include "spec/plan/exchange_check.h"
#include "spec/plan/open_job.h"
#include "spec/schedule/schedule.h"

namespace tombolo::sweep {
namespace {

// The figures that all questions have.
struct Figures {
  int64_t devices = 0;
  Seconds iteration;
  int64_t sequences = 0;          // per iteration
  std::optional<int64_t> tokens;  // of a sequence
  std::optional<Dollars> cost;    // of an iteration
  std::optional<double> mfu;
  std::optional<Bytes> memory;
};

Value or_null(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? Value(*number) : Value();
}

std::vector<Value> to_row(const Figures& f) {
  std::optional<double> sequences_per_s, tokens_per_s, per_million;
  const auto sequences = static_cast<double>(f.sequences);
  if (f.iteration.value > 0) sequences_per_s = sequences / f.iteration.value;
  if (f.tokens) {
    const double tokens = sequences * static_cast<double>(*f.tokens);
    if (f.iteration.value > 0) tokens_per_s = tokens / f.iteration.value;
    if (f.cost) per_million = f.cost->value / tokens * 1e6;
  }
  return {Value(f.devices),
          Value(f.iteration.value),
          or_null(sequences_per_s),
          or_null(tokens_per_s),
          or_null(f.cost ? std::optional(f.cost->value) : std::nullopt),
          or_null(per_million),
          or_null(f.mfu),
          or_null(f.memory ? std::optional(f.memory->value) : std::nullopt)};
}

// "oregon 2, paris 1".
class Places {
 public:
  void add(const std::string& name, int64_t count) {
    if (count == 0) return;
    for (auto& [known, sum] : list_) {
      if (known == name) {
        sum += count;
        return;
      }
    }
    list_.emplace_back(name, count);
  }
  std::string text() const {
    std::string out;
    for (const auto& [name, count] : list_) {
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, count);
    }
    return out;
  }

 private:
  std::vector<std::pair<std::string, int64_t>> list_;
};

// ---- the questions ----

// The best schedule, and the baseline. One thread: configurations already run in parallel.
Result<SweepAnswer> answer_best_schedule(const plan::Plan& plan) {
  const schedule_search::BestSchedule best =
      TRY(schedule_search::best_schedule(plan, {.threads = 1}));
  SweepAnswer answer = TRY(answer_by_simulation(best.plan));
  std::vector<Value>& row = answer.figures;
  const schedule_search::ScheduleCandidate* baseline = best.baseline();
  const auto gain = [](const schedule_search::ScheduleCandidate* fast,
                       const schedule_search::ScheduleCandidate* slow) {
    return fast && slow ? Value(schedule_search::time_saved(*fast->iteration, *slow->iteration))
                        : Value();
  };
  row.emplace_back(best.winner().name);
  row.emplace_back(baseline ? Value(baseline->name) : Value());
  row.emplace_back(baseline ? Value(seconds(*baseline->iteration).value) : Value());
  row.push_back(gain(&best.winner(), baseline));
  row.push_back(gain(best.unsplit(), best.unsplit_baseline()));
  row.emplace_back(seconds(best.bound.value).value);
  return answer;
}

void append(std::vector<std::string>& notes, std::vector<std::string> more) {
  std::move(more.begin(), more.end(), std::back_inserter(notes));
}

// What a Plan says and its simulation does not count.
std::vector<std::string> notes_on_plan(const plan::Plan& plan) {
  std::vector<std::string> notes = schedule::notes_on_sharing(plan);
  append(notes, plan::notes_on_exchange(plan));
  append(notes, plan::notes_on_density(plan));
  append(notes, plan::notes_on_adaptive_batch(plan));
  if (std::string note = ledger::note_on_tied_ends(plan); !note.empty())
    notes.push_back(std::move(note));
  return notes;
}

Result<plan::Job> explicit_job(const Value& value, const std::string& file) {
  return across::with_exchange_chosen(TRY(plan::job_from_value(value, file)), nullptr, 1);
}

Result<SweepAnswer> answer_simulate(const Value& value, const std::string& file,
                                    const SweepQuestion& question) {
  const plan::Job job = TRY(explicit_job(value, file));
  plan::Plan plan = job.parallelism.strands ? TRY(schedule_search::choose_strands(job)).plan
                                            : TRY(cost::make_plan(job));
  if (!question.policy.empty() && question.policy != "best") {
    plan = TRY(schedule_search::with_schedule(plan, TRY(layout::find_schedule(question.policy))));
  }
  SweepAnswer answer =
      TRY(question.policy == "best" ? answer_best_schedule(plan) : answer_by_simulation(plan));
  answer.notes = job.notes;
  append(answer.notes, notes_on_plan(plan));
  return answer;
}

Result<SweepAnswer> answer_estimate(const Value& value, const std::string& file,
                                    const SweepQuestion& question) {
  const plan::Job job = TRY(explicit_job(value, file));
  const estimate::Estimate e = TRY(estimate::estimate(job, question.law));
  if (e.devices > e.devices_in_cluster) {
    return infeasible(fmt::format("the split needs {} devices, the cluster has {}", e.devices,
                                  e.devices_in_cluster));
  }
  if (!e.fits()) {
    return infeasible(fmt::format("needs {} of {} per device", brief(e.memory.total()),
                                  brief(e.memory_of_device)));
  }
  Figures f{.devices = e.devices,
            .iteration = e.iteration,
            .sequences = job.training.global_batch,
            .tokens = job.model->sequence,
            .cost = e.price,
            .mfu = e.mfu,
            .memory = e.memory.total()};
  return SweepAnswer{to_row(f), e.notes};
}

std::vector<Value> with_plan_columns(std::vector<Value> row, const layout::Degrees& d,
                                     int64_t micro_batch, model::Recompute recompute,
                                     std::string datacenters) {
  for (const int64_t number :
       {d.tensor, d.pipeline, d.data, d.context, d.expert, d.virtual_stages, d.zero, micro_batch}) {
    row.emplace_back(number);
  }
  row.emplace_back(std::string(to_name(recompute)));
  row.emplace_back(std::move(datacenters));
  return row;
}

Result<SweepAnswer> answer_plan(const plan::OpenJob& open, const SweepQuestion& question) {
  const cluster::Cluster& cluster = open.job.cluster;
  const search::BestPlan found = TRY(search::best_plan(open, {.law = question.law,
                                                              .objective = question.objective,
                                                              .top = 1,
                                                              .with_band = false,
                                                              .finals = {.candidates = 1},
                                                              .limits = {},
                                                              .progress = {}}));
  const search::RankedPlan& best = found.top.front();
  const cost::Configuration& c = best.candidate.configuration;
  Figures f{.devices = c.devices(),
            .iteration = best.iteration(),
            .sequences = open.job.training.global_batch,
            .tokens = open.job.model->sequence,
            .cost = best.price,
            .mfu = best.mfu,
            .memory = best.candidate.memory};
  return SweepAnswer{
      with_plan_columns(to_row(f), c, c.micro_batch, c.recompute,
                        fmt::format("{} {}", cluster.datacenters[0].name, c.devices())),
      found.notes};
}

// Over several datacenters; the columns of a single one that have no meaning here are 1.
Result<SweepAnswer> answer_mixed_plan(const plan::OpenJob& open, const SweepQuestion& question) {
  if (question.law != cost::Law::kTombolo) {
    return unusable(fmt::format("--law {}: only the law tombolo prices stages of different "
                                "datacenters",
                                to_name(question.law)),
                    "--law tombolo");
  }
  const geo::MixedResult found = TRY(geo::search_mixed(
      open, {.objective = question.objective, .top = 1, .finals = {.candidates = 1}}));
  const geo::MixedPlan& best = found.top.front();
  Bytes memory;
  Places places;
  layout::Degrees degrees = geo::with_plan(open.job, best).parallelism;
  for (const geo::MixedStage& stage : best.stages) {
    memory = std::max(memory, stage.memory.total());
    places.add(stage.datacenter, stage.tensor * best.data);
    degrees.tensor = std::max(degrees.tensor, stage.tensor);
  }
  Figures f{.devices = best.devices,
            .iteration = best.iteration(),
            .sequences = open.job.training.global_batch,
            .tokens = open.job.model->sequence,
            .cost = best.cost(),
            .mfu = best.mfu,
            .memory = memory};
  return SweepAnswer{
      with_plan_columns(to_row(f), degrees, best.micro_batch, best.recompute, places.text()),
      found.notes};
}

// How long cells take, each shape once per thread: configurations that differ in prices or in GPUs
// have most of their cells in common, and a cell of 60 stages takes a millisecond.
class CellTimes {
 public:
  Seconds of(const std::string& law, const geo::DpCell& cell,
             const std::function<Seconds(const geo::DpCell&)>& time) {
    std::vector<double> shape{static_cast<double>(cell.pipelines),
                              static_cast<double>(cell.microbatches)};
    for (const geo::CellPart& part : cell.parts) {
      shape.insert(shape.end(),
                   {static_cast<double>(part.stages), part.forward.value, part.backward.value});
    }
    for (const geo::CellLink& link : cell.links) {
      shape.insert(shape.end(), {link.occupancy.value, link.latency.value});
    }
    if (known_.size() > kShapesMax) known_.clear();
    const auto [at, is_new] = known_.try_emplace({law, std::move(shape)});
    if (is_new) at->second = time(cell);
    return at->second;
  }

 private:
  static constexpr size_t kShapesMax = 100'000;  // some 30 MB
  std::map<std::pair<std::string, std::vector<double>>, Seconds> known_;
};

Result<SweepAnswer> answer_select(const Value& value, const std::string& file) {
  const plan::OpenJob open = TRY(plan::open_job_from_value(value, file));
  geo::SelectionJob job = TRY(geo::selection_of(open));
  job.setting.look_beyond = false;
  thread_local CellTimes times;
  job.setting.cell_time = [law = job.pipeline_law, time = job.setting.cell_time](
                              const geo::DpCell& cell) { return times.of(law, cell, time); };
  const geo::SelectionResult found = TRY(geo::select_datacenters(job.setting));
  const geo::SelectionRow& chosen = found.rows[found.chosen];
  Places places;
  for (size_t i = 0; i < job.setting.sites.size(); ++i) {
    places.add(job.setting.sites[i].name, chosen.partitions[i]);
  }
  Figures f{.devices = chosen.used_gpus,
            .iteration = chosen.total(),
            .sequences = chosen.all_microbatches * job.micro_batch,
            .tokens = {},
            .cost = {},
            .mfu = {},
            .memory = {}};
  if (open.job.model) f.tokens = open.job.model->sequence;
  if (job.priced) f.cost = chosen.cost;
  std::vector<Value> row = to_row(f);
  for (const int64_t number : {chosen.cells, chosen.pipelines, chosen.unused_gpus}) {
    row.emplace_back(number);
  }
  row.emplace_back(places.text());
  return SweepAnswer{std::move(row), std::move(job.notes)};
}

}  // namespace

std::vector<std::string> sweep_columns(const SweepQuestion& question) {
  const SweepAsk ask = question.ask;
  std::vector<std::string> columns{"devices",      "iteration_s", "sequences_per_s",
                                   "tokens_per_s", "cost_usd",    "cost_per_million_tokens_usd",
                                   "mfu",          "memory_bytes"};
  const auto add = [&](std::initializer_list<const char*> more) {
    columns.insert(columns.end(), more.begin(), more.end());
  };
  if (ask == SweepAsk::kPlan) {
    add({"tensor", "pipeline", "data", "context", "expert", "virtual_stages", "zero", "micro_batch",
         "recompute", "devices_per_datacenter"});
  } else if (ask == SweepAsk::kSelect) {
    add({"cells", "pipelines", "unused_devices", "partitions_per_datacenter"});
  } else if (ask == SweepAsk::kSimulate && question.policy == "best") {
    add({"winner", "baseline", "baseline_s", "gain", "gain_without_split", "lower_bound_s"});
  }
  return columns;
}

Result<SweepAnswer> answer_by_simulation(const plan::Plan& plan) {
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  TRY(schedule::check_memory(plan, schedule));
  const sim::Simulation simulation = TRY(sim::simulate(plan, {.alike = sim::Alike::kOnce}));
  const Seconds iteration = seconds(simulation.iteration);
  const cost::Worth worth = cost::worth_of(plan, iteration);
  Figures f{.devices = plan.devices(),
            .iteration = iteration,
            .sequences = plan.training.global_batch,
            .tokens = {},
            .cost = worth.cost.total(),
            .mfu = worth.mfu,
            .memory = {}};
  if (plan.has_model()) {
    f.tokens = plan.model.sequence;
    f.memory = cost::memory_peak(plan, simulation.peak_memory).bytes;
  }
  return SweepAnswer{to_row(f), {}};
}

namespace {

Result<SweepAnswer> answer_by_command(const Value& job, const std::string& file,
                                      const SweepQuestion& question) {
  switch (question.ask) {
    case SweepAsk::kSimulate:
      return answer_simulate(job, file, question);
    case SweepAsk::kEstimate:
      return answer_estimate(job, file, question);
    case SweepAsk::kPlan: {
      const plan::OpenJob open = TRY(plan::open_job_from_value(job, file));
      const bool several = open.job.cluster.datacenters.size() > 1;
      return several ? answer_mixed_plan(open, question) : answer_plan(open, question);
    }
    case SweepAsk::kSelect:
      return answer_select(job, file);
  }
  return failed("no such question");
}

bool asks_for_strands(const Value& job) {
  const Value* parallelism = job.find("parallelism");
  const Value* strands = parallelism ? parallelism->find("strands") : nullptr;
  const bool* asked = strands ? strands->get<bool>() : nullptr;
  return asked && *asked;
}

}  // namespace

Result<SweepAnswer> answer_sweep(const Value& job, const std::string& file,
                                 const SweepQuestion& question) {
  SweepAnswer answer = TRY(answer_by_command(job, file, question));
  if (question.ask != SweepAsk::kSimulate && asks_for_strands(job))
    answer.notes.emplace_back(schedule_search::kStrandsLost);
  return answer;
}

}  // namespace tombolo::sweep
