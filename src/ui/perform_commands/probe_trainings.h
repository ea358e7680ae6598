// Short trainings of a job with other densities and batches, as a convergence profile wants them
// (steer/tune/convergence_profile.h): each a run of its own, with all ranks on this host.
//
// After each of them FOLDER/trainings.json lists those that are done, so that an interrupted command continues
// where it was: trainings are the same for the same seed.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "perform/observe/progress_tracker.h"
#include "spec/plan/job.h"
#include "steer/tune/loss_curve.h"

namespace tombolo::perform_commands {

struct DoneTraining {
  double density = 1;
  int64_t batch = 1;
  int64_t staleness = 0;
  int64_t steps = 1;
  std::vector<double> losses;
  bool diverged = false;  // after these a loss came that is no number

  bool is(const DoneTraining& other) const;  // losses apart
};

struct DoneTrainings {
  std::string job;  // digest of the job that was trained
  std::vector<DoneTraining> trainings;
};

template <class Archive>
void describe(Archive& a, DoneTraining& done) {
  a.required("density", done.density, "share of the gradients that was sent");
  a.required("batch", done.batch, "samples of a step, of all devices");
  a.check(done.batch >= 1, "batch", "must be at least 1");
  a.required("staleness", done.staleness, "updates that a forward pass could do without");
  a.required("steps", done.steps, "that were asked for");
  a.required("losses", done.losses, "of each step, nats per token");
  a.optional("diverged", done.diverged, "the next loss was no number");
  a.check(!done.losses.empty() || done.diverged, "losses", "must have one of each step");
}

template <class Archive>
void describe(Archive& a, DoneTrainings& done) {
  a.required("job", done.job, "digest of the job that was trained");
  a.required("trainings", done.trainings, "one after the other");
}

class ProbeTrainings {
 public:
  struct Options {
    std::string folder;
    std::string worker;  // program; empty: next to this one
    std::string command, version;
    const std::atomic<bool>* stop = nullptr;
    // on_begin: before a training that is not done yet, with how many were asked for so far. on_progress: during it.
    std::function<void(const DoneTraining&, int64_t number)> on_begin;
    std::function<void(const observe::Progress&)> on_progress;
    std::function<void(const std::string&)> log;  // any thread
  };

  // Creates the folder. Unusable: a job whose ranks compute no loss, or that cannot be performed; a
  // folder with trainings of another job.
  static Result<ProbeTrainings> open(const plan::Job& job, Options options, Threads& threads);

  // In whole steps, as many samples or a few more; of density 1 and staleness 0 with mode = "dense". The learning rate is that of the job, and after the
  // warm-up stays: otherwise it would depend on how long a training is. The errors of run::launch, and an
  // interruption.
  Result<tune::LossCurve> train(double density, int64_t batch, int staleness, double samples);

 private:
  ProbeTrainings(const plan::Job& job, Options options, Threads& threads)
      : job_(job), options_(std::move(options)), threads_(threads) {}

  std::string path() const { return options_.folder + "/trainings.json"; }
  plan::Job job_for(const DoneTraining& wanted) const;
  Status perform(DoneTraining& training);

  plan::Job job_;
  Options options_;
  Threads& threads_;
  DoneTrainings done_;
  int64_t asked_ = 0;
};

}  // namespace tombolo::perform_commands
