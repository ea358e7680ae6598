// Plans and jobs: any bytes give a Plan (a Job) or a message; a Plan or a Job that was read is
// written and read back equal, and a Job that was read becomes a Plan or a message. A small Plan is
// simulated, as its schedule says or as one that it carries, or refused.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/plan/job.h"
#include "spec/plan/open_job.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"

namespace {

void check_round_trip(const tombolo::plan::Plan& plan) {
  const std::string json = tombolo::plan::to_json_text(plan);
  const auto back = tombolo::plan::parse_plan(json, "again.json");
  CHECK(back, "{}", back.error().text());
  CHECK(*back == plan, "changed on the way through {}", json);
  CHECK(tombolo::plan::to_json_text(*back) == json, "written differently the second time: {}",
        json);
}

void check_round_trip(const tombolo::plan::Job& job) {
  const std::string toml = tombolo::plan::to_toml_text(job, "again.toml", "");
  const auto back = tombolo::plan::parse_job(toml, "again.toml");
  CHECK(back, "{}\n{}", back.error().text(), toml);
  CHECK(back->model == job.model && back->cluster == job.cluster &&
            back->training == job.training && back->parallelism == job.parallelism &&
            back->exchange == job.exchange,
        "changed on the way through\n{}", toml);
}

// What a Plan is predicted to be is so, too, if it carries its schedule in text.
void check_schedule(tombolo::plan::Plan plan) {
  const int64_t actions = static_cast<int64_t>(plan.stages.size()) * plan.parallelism.data;
  if (actions > 64 || plan.microbatches() > 64) return;
  const auto simulation = tombolo::sim::simulate(plan);
  CHECK(simulation || !simulation.error().message.empty(), "refused without a word");
  if (!simulation) return;
  const auto schedule = tombolo::schedule::build(plan);
  CHECK(schedule, "{}", schedule.error().text());
  const auto given = tombolo::schedule::to_given(*schedule);
  const auto back = tombolo::schedule::from_given(given, tombolo::schedule::shape_of(plan));
  CHECK(back && *back == *schedule, "changed on the way through text");
  if (plan.given) return;
  plan.given = given;
  check_round_trip(plan);
  const auto again = tombolo::sim::simulate(plan);
  CHECK(again && again->iteration == simulation->iteration, "predicted differently as given");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = tombolo::plan::parse_plan(text, "input.json");
  CHECK(plan || !plan.error().message.empty(), "refused without a word");
  if (plan) check_round_trip(*plan);
  if (plan) check_schedule(*plan);

  const auto job = tombolo::plan::parse_job(text, "input.toml");
  CHECK(job || !job.error().message.empty(), "refused without a word");
  if (job && !job->stage_times) check_round_trip(*job);
  // A job that fixes everything is one that leaves things open, too.
  const auto open = tombolo::plan::parse_open_job(text, "input.toml");
  CHECK(open || !open.error().message.empty(), "refused without a word");
  CHECK(open || !job, "{}", open.error().text());
  // A small job becomes a Plan; a large one would only show how much memory there is.
  if (job && job->parallelism.pipeline <= 64 && (!job->model || job->model->layers <= 1024)) {
    const auto made = tombolo::cost::make_plan(*job);
    if (made) check_round_trip(*made);
    if (made) check_schedule(*made);
  }
  return 0;
}
