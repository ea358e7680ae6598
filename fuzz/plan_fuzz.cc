// Plans and jobs: any bytes give a Plan (a Job) or a message; a Plan or a Job that was read is
// written and read back equal, and a Job that was read becomes a Plan or a message.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "plan/job.h"
#include "plan/job_file.h"
#include "plan/open_job.h"
#include "plan/plan_file.h"

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
            back->training == job.training && back->parallelism == job.parallelism,
        "changed on the way through\n{}", toml);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = tombolo::plan::parse_plan(text, "input.json");
  CHECK(plan || !plan.error().message.empty(), "refused without a word");
  if (plan) check_round_trip(*plan);

  const auto job = tombolo::plan::parse_job(text, "input.toml");
  CHECK(job || !job.error().message.empty(), "refused without a word");
  if (job && !job->stage_times) check_round_trip(*job);
  // A job that fixes everything is one that leaves things open, too.
  const auto open = tombolo::plan::parse_open_job(text, "input.toml");
  CHECK(open || !open.error().message.empty(), "refused without a word");
  CHECK(open || !job, "{}", open.error().text());
  // A small job becomes a Plan; a large one would only show how much memory there is.
  if (job && job->parallelism.pipeline <= 64 && (!job->model || job->model->layers <= 1024)) {
    const auto made = tombolo::plan::make_plan(*job);
    if (made) check_round_trip(*made);
  }
  return 0;
}
