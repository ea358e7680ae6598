// What compressed gradients and the size of a batch cost in convergence: how many times as many samples
// a training needs to a loss that sends a share d of its gradients and takes a batch of x, compared with
// one that neither compresses nor is late. It is the 1 + g of StellaTrain's time to an accuracy, whose
// ideal is "extra epochs"; the paper takes the relative increase of the loss for g. Ours is read off the
// reference's loss curve (loss_curve.h).
//
// Probe trainings are expensive, so a Gaussian process models the logarithm of the factor between
// them, and says where the next one is most informative: at a density drawn at random, the batch with the
// largest expected decrease, alternately of samples and of steps. On a fast line an iteration
// grows with its batch, so that samples count, and on a slow one steps. So all densities are
// explored, and at each the batches that may be chosen.
//
//   ConvergenceProfile profile = TRY(fit_profile(train_briefly, {.batch_min = 4, .batch_max = 1024},
//                                                30, random.stream("probes")));
//   write_file("profile.json", profile.text());
//
// Source: Lim et al. 2024 (StellaTrain), section 4.3 and algorithm 1; expected improvement: Jones,
// Schonlau, Welch, Efficient Global Optimization of Expensive Black-Box Functions, J. Global
// Optimization 13, 1998, equation 15. docs/laws/tuning.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "spec/plan/exchange_settings.h"
#include "steer/tune/gaussian_process.h"
#include "steer/tune/loss_curve.h"
#include "steer/tune/probed_training.h"

namespace tombolo::tune {

inline constexpr size_t kProbesMax = 500;  // a fit takes minutes then
inline constexpr int64_t kBatchMax = 1'000'000'000'000;
inline constexpr double kSamplesFactorMax = 1e6;

struct ConvergenceProbe {
  double density = 1;  // share of the gradients that is sent
  int64_t batch = 1;   // samples of a step, of all devices
  double samples_factor = 1;
};

struct ProbeBounds {
  int64_t batch_min = 1, batch_max = 1;
  int64_t batch_step = 1;      // every batch is batch_min plus a whole number of these steps
  double density_min = 0.001;  // densities are drawn from here to 1
  std::optional<plan::Select> select;      // left out: blocks
  std::optional<ProbedTraining> training;  // of older files it is not known

  plan::Select select_in_use() const { return select.value_or(plan::Select::kBlocks); }
  int64_t batches() const { return (batch_max - batch_min) / batch_step + 1; }
  int64_t batch(int64_t index) const { return batch_min + index * batch_step; }
};

// How this job differs from the training of a profile, as a note; nothing if they are alike, or it is not known.
std::optional<std::string> note_on_training(const ProbeBounds& bounds, const std::string& file,
                                            const plan::Job& job);

// What a profile's file says.
struct ProbeRecord {
  ProbeBounds bounds;
  KernelKind kernel = KernelKind::kMatern52;
  std::vector<ConvergenceProbe> probes;
};

template <class Archive>
void describe(Archive& a, ConvergenceProbe& probe) {
  a.required("density", probe.density, "share of the gradients that was sent");
  a.check(probe.density > 0 && probe.density <= 1, "density", "must be above 0 and at most 1");
  a.required("batch", probe.batch, "samples of a step, of all devices");
  a.check(probe.batch >= 1, "batch", "must be at least 1");
  a.required("samples_factor", probe.samples_factor,
             "samples that it takes to a loss, over those without compression and staleness");
  a.check(probe.samples_factor > 0 && probe.samples_factor <= kSamplesFactorMax, "samples_factor",
          "must be above 0 and at most 1e6");
}

template <class Archive>
void describe(Archive& a, ProbeBounds& bounds) {
  a.required("batch_min", bounds.batch_min, "smallest batch of all devices");
  a.check(bounds.batch_min >= 1, "batch_min", "must be at least 1");
  a.required("batch_max", bounds.batch_max, "largest batch of all devices");
  a.check(bounds.batch_max >= bounds.batch_min && bounds.batch_max <= kBatchMax, "batch_max",
          "must be at least batch_min, and at most 1e12");
  a.optional("batch_step", bounds.batch_step, "from one batch to the next");
  a.check(bounds.batch_step >= 1 && bounds.batch_step <= kBatchMax, "batch_step",
          "must be from 1 to 1e12");
  a.optional("density_min", bounds.density_min, "smallest share that is sent");
  a.check(bounds.density_min > 0 && bounds.density_min <= 1, "density_min",
          "must be above 0 and at most 1");
  a.optional("select", bounds.select, "what of an update was sent; left out: blocks");
  a.optional("training", bounds.training, "what was trained");
}

template <class Archive>
void describe(Archive& a, ProbeRecord& record) {
  a.required("bounds", record.bounds, "what was probed");
  a.optional("kernel", record.kernel, "how alike neighbours are");
  a.required("probes", record.probes, "one training each");
  a.check(!record.probes.empty() && record.probes.size() <= kProbesMax, "probes",
          "must have at least one and at most 500");
}

// A profile's file without what follows from it.
Result<ProbeRecord> parse_probes(std::string_view json, const std::string& file);

class ConvergenceProfile {
 public:
  // Fits the process to the probes. Unusable: what a file would be refused for.
  static Result<ConvergenceProfile> of(ProbeRecord record);
  static Result<ConvergenceProfile> parse(std::string_view json, const std::string& file);
  std::string text() const;  // JSON that reads back equal: the probes, from which the rest follows

  Belief log_samples_factor(double density, double batch) const;  // natural logarithm
  double samples_factor(double density, double batch) const;      // of the mean logarithm
  const ProbeRecord& record() const { return record_; }

 private:
  ConvergenceProfile(ProbeRecord record, GaussianProcess process)
      : record_(std::move(record)), process_(std::move(process)) {}

  ProbeRecord record_;
  GaussianProcess process_;
};

// By how much a belief is expected to be below `best`, counting 0 where it is above.
double expected_improvement(const Belief& belief, double best);

enum class Wanted { kFewSamples, kFewSteps };

// The batch with the largest expected improvement at this density, over the least factor (or factor
// over batch, where steps count) that the process believes of any batch there; if none improves, the
// batch that is known least. Of more than a thousand batches, evenly spaced ones are compared.
// O(batches probes^2).
int64_t next_probe(const ConvergenceProfile& profile, double density, Wanted wanted);

// A short training with a density, a batch and staleness 0 or 1, which sees that many samples or, in
// whole steps, a few more. Of the smoothing see loss_curve.h.
struct ProbeTraining {
  std::function<Result<LossCurve>(double density, int64_t batch, int staleness, double samples)>
      train;
  double samples = 1;
  double tau = 0.1;  // of the smoothing, as a share of these samples
};

// Algorithm 1: a reference with neither compression nor staleness, half-way between the bounds, of
// twice the samples, so that probes may turn out better; and `probes` with a density that is drawn,
// evenly in its logarithm, and staleness 1. The first few batches are drawn, as there is nothing yet to
// expect something of. A probe that diverges counts as one that came no further than the reference's
// first step. Unusable: bounds that cannot be, no probe, a reference whose loss does not fall; and what
// `train` fails with.
Result<ConvergenceProfile> fit_profile(const ProbeTraining& training, const ProbeBounds& bounds,
                                       int probes, Random random);

}  // namespace tombolo::tune
