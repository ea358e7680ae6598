#include "ui/perform_commands/probe_trainings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "decide/across/tuned_exchange.h"
#include "perform/run/launcher.h"
#include "predict/cost/price_plan.h"
#include "spec/cluster/islands.h"
#include "spec/schedule/schedule.h"

namespace tombolo::perform_commands {
namespace {

// How a loss falls does not hang on the lines, which are fast here, nor on what came in time: every pass
// uses parameters that are one update old.
plan::Job for_probing(plan::Job job) {
  for (cluster::WanLink& each : job.cluster.wan) {
    each.node_pair_limit = 100_Gbps;
    each.path_limit.reset();
    each.one_way_latency = 100_us;
    each.tcp_window.reset();
    each.rate_trace.clear();
  }
  job.checkpoint.reset();
  job.prefill.reset();
  job.run.evaluate_every = 0;
  job.run.compare_replicas_every = 0;
  job.optimizer.learning_rate_min = job.optimizer.learning_rate;
  job.optimizer.rule = plan::RateRule::kConstant;
  job.optimizer.decay_steps.reset();
  return job;
}

Status check_learns(const plan::Plan& plan, const std::string& file) {
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const cluster::Device& device = plan.device_of(static_cast<int32_t>(rank));
    if (device.kind != cluster::DeviceKind::kEmulated) continue;
    return unusable(
        fmt::format("{}: device = \"{}\" computes no loss to tune by", file, device.name),
        "device = \"cpu\"; or --profile FILE with the profile of a run that does");
  }
  return {};
}

}  // namespace

bool DoneTraining::is(const DoneTraining& other) const {
  return density == other.density && batch == other.batch && staleness == other.staleness &&
         steps == other.steps;
}

Result<ProbeTrainings> ProbeTrainings::open(const plan::Job& job, Options options,
                                            Threads& threads) {
  ProbeTrainings trainings(for_probing(job), std::move(options), threads);
  const plan::Plan plan =
      TRY(cost::make_plan(trainings.job_for({.batch = job.training.global_batch})));
  TRY(check_learns(plan, job.file));
  TRY(run::check_performable(plan));
  TRY(make_directories(trainings.options_.folder));
  plan::Job all = trainings.job_;
  all.run.steps = 1;
  trainings.done_.job = digest(plan::to_toml_text(all, trainings.path(), ""));
  const std::string path = trainings.path();
  if (!std::filesystem::exists(path)) return trainings;
  DoneTrainings before =
      TRY(read_fields<DoneTrainings>(TRY(parse_json(TRY(read_file(path)), path)), path));
  if (before.job != trainings.done_.job) {
    return unusable(fmt::format("{}: has trainings of another job", path),
                    "another --out, or removing that file");
  }
  trainings.done_ = std::move(before);
  return trainings;
}

plan::Job ProbeTrainings::job_for(const DoneTraining& wanted) const {
  plan::Job job = across::with_setting(job_, wanted.density, wanted.batch);
  if (wanted.density == 1 && wanted.staleness == 0)
    job.exchange.emplace();  // all gradients, as they are
  if (job.exchange->is_sparse()) {
    job.exchange->staleness = wanted.staleness;
    job.exchange->freshness = plan::Freshness::kFixed;
  }
  job.run.steps = wanted.steps;
  return job;
}

Status ProbeTrainings::perform(DoneTraining& training) {
  const plan::Plan plan = TRY(cost::make_plan(job_for(training)));
  TRY(schedule::check_memory(plan, TRY(schedule::build(plan))));
  run::LaunchOptions launch;
  launch.output = options_.folder + "/training";
  launch.islands = TRY(cluster::islands_of_environment());
  launch.worker_program = options_.worker;
  launch.command = options_.command;
  launch.version = options_.version;
  launch.stop = options_.stop;
  launch.log = options_.log;
  launch.on_progress = [&](const observe::Progress& progress) {
    if (options_.on_progress) options_.on_progress(progress);
    if (training.diverged) return;
    if (progress.loss && std::isfinite(*progress.loss) && *progress.loss > 0) {
      training.losses.push_back(*progress.loss);
    } else {
      training.diverged = true;
    }
  };
  TRY(run::launch(plan, launch, threads_));
  return {};
}

Result<tune::LossCurve> ProbeTrainings::train(double density, int64_t batch, int staleness,
                                              double samples) {
  DoneTraining training{.density = density, .batch = batch, .staleness = staleness};
  training.steps = std::max<int64_t>(std::llround(std::ceil(samples / real(batch))), 1);
  ++asked_;
  const auto found = std::find_if(done_.trainings.begin(), done_.trainings.end(),
                                  [&](const DoneTraining& each) { return each.is(training); });
  if (found != done_.trainings.end()) {
    training = *found;
  } else {
    if (options_.on_begin) options_.on_begin(training, asked_);
    TRY(perform(training));
    done_.trainings.push_back(training);
    TRY(write_file(path(), to_json(write_fields(done_)) + "\n"));
  }
  tune::LossCurve curve{.batch = batch, .losses = training.losses};
  if (training.diverged) curve.losses.push_back(std::numeric_limits<double>::quiet_NaN());
  return curve;
}

}  // namespace tombolo::perform_commands
