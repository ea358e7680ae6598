// The training with which a convergence profile was measured: how many samples compression costs depends on the
// model and its optimizer, so a profile of another training says little.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "spec/plan/job.h"

namespace tombolo::tune {

struct ProbedTraining {
  int64_t parameters = 0;  // of the model
  int64_t sequence = 0;    // tokens of a sample
  plan::OptimizerName optimizer = plan::OptimizerName::kAdamW;
  double learning_rate = 0;
  double first_moment = 0;  // beta1 of AdamW, momentum of the others

  bool operator==(const ProbedTraining&) const = default;
};

template <class Archive>
void describe(Archive& a, ProbedTraining& training) {
  a.required("parameters", training.parameters, "of the model");
  a.check(training.parameters >= 1, "parameters", "must be at least 1");
  a.required("sequence", training.sequence, "tokens of a sample");
  a.check(training.sequence >= 1, "sequence", "must be at least 1");
  a.required("optimizer", training.optimizer, "its name");
  a.required("learning_rate", training.learning_rate, "after the warm-up");
  a.required("first_moment", training.first_moment, "beta1 of AdamW, momentum of the others");
}

// The job has a model.
ProbedTraining probed_training(const plan::Job& job);

// "parameters 12,582,912, and the job has 8,030,261,248", and so on; empty: the job trains the same.
std::vector<std::string> differences(const ProbedTraining& probed, const plan::Job& job);

}  // namespace tombolo::tune
