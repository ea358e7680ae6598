#include "ui/command/input.h"

#include "base/file.h"
#include "decide/across/exchange_choice.h"
#include "decide/schedule_search/strands_choice.h"
#include "predict/cost/memory_remedy.h"
#include "predict/cost/price_plan.h"
#include "spec/plan/adaptive_batch.h"
#include "spec/plan/exchange_check.h"
#include "spec/plan/job_value.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"
#include "ui/command/caller.h"

namespace tombolo::command {
namespace {

// Replaces what the command line gave in a job or a Plan, which name these sections alike.
template <typename JobOrPlan>
void apply_replacements(const InputOptions& in, JobOrPlan& target) {
  if (in.steps) target.run.steps = *in.steps;
  if (in.seed) target.run.seed = *in.seed;
  if (in.data.empty() && in.tokens.empty()) return;
  plan::Data said = target.data.value_or(plan::Data{});
  if (!in.tokens.empty()) {
    said.text.clear();
    said.share.clear();
    said.tokens = in.tokens;
  } else {
    said = {.text = in.data, .evaluation_fraction = said.evaluation_fraction};
  }
  target.data = said;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& each : notes) note(each);
}

// What does not fit, with changes that were tried, where there are any.
Status with_remedy(const InputOptions& in, Status fits) {
  if (fits) return fits;
  const Result<plan::Job> job = reread_job(in.input);
  std::string remedy = job ? cost::memory_remedy(*job) : "";
  if (!remedy.empty()) fits.error().hint = std::move(remedy);
  return fits;
}

// `job` with what the command line gave, as a Plan: with strands, where it asks for them.
Result<plan::Plan> plan_of(const InputOptions& in, plan::Job job, const plan::Hardware* hardware) {
  apply_replacements(in, job);
  print_notes(job.notes);
  if (job.parallelism.strands && in.without_strands)
    note("[parallelism] strands = true has no effect: --policy chooses the schedule");
  if (!job.parallelism.strands || in.without_strands) return cost::make_plan(job, hardware);
  schedule_search::StrandsChoice choice = TRY(schedule_search::choose_strands(job, hardware));
  note(choice.line);
  return std::move(choice.plan);
}

}  // namespace

Result<plan::Job> reread_job(const std::string& path) {
  return across::with_exchange_chosen(TRY(plan::read_job(path)));
}

Result<plan::Job> read_job(const std::string& path) {
  plan::Job job = TRY(reread_job(path));
  note_lost_strands(job);
  return job;
}

void note_lost_strands(const plan::Job& job) {
  if (job.parallelism.strands) note(schedule_search::kStrandsLost);
}

Result<plan::Job> load_job(const InputOptions& in) {
  plan::Job job = TRY(read_job(in.input));
  apply_replacements(in, job);
  print_notes(job.notes);
  return job;
}

Result<plan::Plan> open_plan(const InputOptions& in) {
  const std::string text = TRY(read_file(in.input));
  plan::Plan plan;
  if (plan::is_plan(text)) {
    if (!in.hardware.empty()) {
      return unusable(
          fmt::format("{}: a Plan has its stage times already; --hardware goes with a job",
                      in.input),
          "the job file this Plan was made from");
    }
    plan = TRY(plan::parse_plan(text, in.input));
    apply_replacements(in, plan);
    print_notes(plan::notes_on_precision(plan));
    print_notes(plan::notes_on_wan(plan.cluster));
  } else {
    if (in.hardware.empty()) {
      plan = TRY(plan_of(in, TRY(reread_job(in.input)), nullptr));
    } else {
      const plan::Hardware hardware = TRY(plan::read_hardware(in.hardware));
      const std::string doing = "using " + in.hardware;
      plan::Job job = TRY(plan::read_job(in.input));
      job = TRY(during(across::with_exchange_chosen(std::move(job), &hardware), doing));
      plan = TRY(during(plan_of(in, std::move(job), &hardware), doing));
    }
  }
  return plan;
}

Result<plan::Plan> load_plan(const InputOptions& in) {
  plan::Plan plan = TRY(open_plan(in));
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  TRY(with_remedy(in, schedule::check_memory(plan, schedule)));
  print_notes(schedule::notes_on_sharing(plan));
  print_notes(plan::notes_on_exchange(plan));
  if (!in.follows_changes) print_notes(plan::notes_on_density(plan));
  if (!in.follows_changes || !plan.batch_changes())
    print_notes(plan::notes_on_adaptive_batch(plan));
  return plan;
}

std::string command_line(const std::string& verb, const InputOptions& in) {
  std::string out = fmt::format("tombolo {} {}", verb, in.input);
  if (!in.hardware.empty()) out += " --hardware " + in.hardware;
  if (!in.data.empty()) out += " --data " + in.data;
  for (const std::string& file : in.tokens) out += " --tokens " + file;
  if (in.steps) out += fmt::format(" --steps {}", *in.steps);
  if (in.seed) out += fmt::format(" --seed {}", *in.seed);
  return out;
}

Result<sim::Simulation> predict(const plan::Plan& plan, const sim::Options& options,
                                std::string command) {
  sim::Simulation simulation = TRY(sim::simulate(plan, options));
  simulation.trace.header.command = std::move(command);
  simulation.trace.header.version = version();
  return simulation;
}

}  // namespace tombolo::command
