#include "steer/tune/probed_training.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/units.h"
#include "spec/model/model.h"

namespace tombolo::tune {

namespace {

double first_moment(const plan::Optimizer& optimizer) {
  switch (optimizer.name_in_use()) {
    case plan::OptimizerName::kSgd:
      return optimizer.momentum.value_or(0.9);
    case plan::OptimizerName::kMuon:
      return optimizer.momentum.value_or(0.95);
    case plan::OptimizerName::kAdamW:
      break;
  }
  return optimizer.beta1;
}

}  // namespace

ProbedTraining probed_training(const plan::Job& job) {
  CHECK(job.model, "{}: a profile of a job without a model", job.file);
  return {.parameters = model::parameters(*job.model),
          .sequence = job.model->sequence,
          .optimizer = job.optimizer.name_in_use(),
          .learning_rate = job.optimizer.learning_rate,
          .first_moment = first_moment(job.optimizer)};
}

std::vector<std::string> differences(const ProbedTraining& probed, const plan::Job& job) {
  if (!job.model) return {};
  const ProbedTraining here = probed_training(job);
  std::vector<std::string> out;
  const auto differ = [&](const char* what, const std::string& its, const std::string& own) {
    if (its != own) out.push_back(fmt::format("{} {}, and the job has {}", what, its, own));
  };
  differ("parameters", grouped(probed.parameters), grouped(here.parameters));
  differ("sequence", grouped(probed.sequence), grouped(here.sequence));
  differ("optimizer", std::string(to_name(probed.optimizer)), std::string(to_name(here.optimizer)));
  differ("learning_rate", fmt::format("{:g}", probed.learning_rate),
         fmt::format("{:g}", here.learning_rate));
  differ("first_moment", fmt::format("{:g}", probed.first_moment),
         fmt::format("{:g}", here.first_moment));
  return out;
}

}  // namespace tombolo::tune
