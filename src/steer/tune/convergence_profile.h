// What compressed gradients and the size of a batch cost in convergence: StellaTrain's g(r, x), the
// relative increase of the loss after a short training with rate r and a total batch of x, compared
// with one that neither compresses nor is late.
//
// Probe trainings are dear, so that a Gaussian process stands for g between them, and says where
// the next one tells most: at a rate that is drawn, the batch of which the largest decrease of the
// loss is expected. So all rates are explored, and at each the batches that may be chosen.
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
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "steer/tune/gaussian_process.h"

namespace tombolo::tune {

inline constexpr size_t kProbesMax = 500;  // a fit takes minutes then
inline constexpr int64_t kBatchMax = 1'000'000'000'000;
inline constexpr double kLossIncreaseMax = 1e6;

struct ConvergenceProbe {
  double rate = 0;    // of gradients that are not sent: 0.99 sends one of a hundred
  int64_t batch = 1;  // of all devices together
  double loss_increase = 0;
};

struct ProbeBounds {
  int64_t batch_min = 1, batch_max = 1;
  double rate_max = 0.999;  // rates are drawn from 0 to here
};

// What a profile's file says.
struct ProbeRecord {
  ProbeBounds bounds;
  KernelKind kernel = KernelKind::kMatern52;
  std::vector<ConvergenceProbe> probes;
};

template <class Archive>
void describe(Archive& a, ConvergenceProbe& probe) {
  a.required("rate", probe.rate, "share of the gradients that was not sent");
  a.check(probe.rate >= 0 && probe.rate < 1, "rate", "must be at least 0 and below 1");
  a.required("batch", probe.batch, "samples of a step, of all devices");
  a.check(probe.batch >= 1, "batch", "must be at least 1");
  a.required("loss_increase", probe.loss_increase,
             "loss over that without compression and staleness, less 1");
  a.check(probe.loss_increase > -1 && probe.loss_increase <= kLossIncreaseMax, "loss_increase",
          "must be above -1 and at most 1e6");
}

template <class Archive>
void describe(Archive& a, ProbeBounds& bounds) {
  a.required("batch_min", bounds.batch_min, "smallest batch of all devices");
  a.check(bounds.batch_min >= 1, "batch_min", "must be at least 1");
  a.required("batch_max", bounds.batch_max, "largest batch of all devices");
  a.check(bounds.batch_max >= bounds.batch_min && bounds.batch_max <= kBatchMax, "batch_max",
          "must be at least batch_min, and at most 1e12");
  a.optional("rate_max", bounds.rate_max, "largest share that is not sent");
  a.check(bounds.rate_max >= 0 && bounds.rate_max < 1, "rate_max",
          "must be at least 0 and below 1");
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

  Belief loss_increase(double rate, double batch) const;
  const ProbeRecord& record() const { return record_; }

 private:
  ConvergenceProfile(ProbeRecord record, GaussianProcess process)
      : record_(std::move(record)), process_(std::move(process)) {}

  ProbeRecord record_;
  GaussianProcess process_;
};

// By how much a belief is expected to be below `best`, counting 0 where it is above.
double expected_improvement(const Belief& belief, double best);

// The batch with the largest expected improvement at this rate, over the least loss that is believed
// of any batch there; of none where nothing improves, the batch that is known least. Of more than a
// thousand batches, evenly spaced ones are compared. O(batches probes^2).
int64_t next_probe(const ConvergenceProfile& profile, double rate);

// The loss after a short training with a rate, a batch and staleness 0 or 1.
using ProbeTraining = std::function<Result<double>(double rate, int64_t batch, int staleness)>;

// Algorithm 1: one training with neither compression nor staleness, half-way between the bounds, and
// `probes` with both. The first few batches are drawn, as there is nothing yet to expect something
// of. Unusable: bounds that cannot be, no probe, a loss that is not positive and finite; and what
// `train` fails with.
Result<ConvergenceProfile> fit_profile(const ProbeTraining& train, const ProbeBounds& bounds,
                                       int probes, Random random);

}  // namespace tombolo::tune
