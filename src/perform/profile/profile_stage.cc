#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/quantiles.h"
#include "base/random.h"
#include "perform/kernels/emulated_kernels.h"
#include "perform/profile/profile.h"
#include "perform/stage/perform.h"

namespace tombolo::profile {
namespace {

// Normal numbers in the Plan's precision. Their top 16 bits are bfloat16 already; a half has five
// bits of exponent with bias 15 instead of eight with bias 127.
kernels::Payload random_payload(int64_t bytes, plan::Precision precision, Random random) {
  kernels::Payload out(static_cast<size_t>(bytes));
  const size_t element = precision == plan::Precision::kFp32 ? 4 : 2;
  for (size_t at = 0; at + element <= out.size(); at += element) {
    // Away from zero, so that the exponent fits a half: |x| in [0.5, 2).
    const auto value =
        static_cast<float>((0.5 + 1.5 * random.uniform()) * (random.uniform() < 0.5 ? -1 : 1));
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    uint16_t half = static_cast<uint16_t>(bits >> 16);
    if (precision == plan::Precision::kFp16) {
      const uint32_t exponent = ((bits >> 23) & 0xff) - 127 + 15;
      half = static_cast<uint16_t>((bits >> 31 << 15) | (exponent << 10) | ((bits >> 13) & 0x3ff));
    }
    std::memcpy(out.data() + at, element == 4 ? static_cast<void*>(&bits) : &half, element);
  }
  return out;
}

// Durations of one kind of computation.
class Samples {
 public:
  void add(SimDuration span) { spans_.push_back(seconds(span).value); }
  int64_t count() const { return static_cast<int64_t>(spans_.size()); }
  Seconds quantile(double share) const {
    return spans_.empty() ? 0_s : Seconds{tombolo::quantile(spans_, share)};
  }
  Seconds median() const { return quantile(0.5); }
  Seconds spread() const { return quantile(0.75) - quantile(0.25); }

 private:
  std::vector<double> spans_;  // seconds
};

// One stage alone: what its neighbours would send is made up beforehand.
class StageProfiler {
 public:
  StageProfiler(const plan::Plan& plan, int32_t stage, kernels::Kernels& kernels, Clock& clock)
      : plan_(plan),
        stage_(stage),
        recomputes_(schedule::shape_of(plan).recompute[stage]),
        emulated_(plan.device_of(plan.rank_of(stage, 0)).kind == cluster::DeviceKind::kEmulated),
        kernels_(kernels),
        clock_(clock) {
    const Random random = Random(plan.run.seed).stream(fmt::format("profile/stage-{}", stage));
    const int64_t bytes = kernels::payload_bytes(plan);
    if (has_previous() && !emulated_) {
      input_ = random_payload(bytes, plan.training.precision, random.stream("input"));
    }
    if (has_next() && !emulated_) {
      gradient_ = random_payload(bytes, plan.training.precision, random.stream("gradient"));
      scale_down();
    }
  }

  Result<StageProfile> run(Seconds budget);

 private:
  bool has_previous() const { return stage_ > 0; }
  bool has_next() const { return stage_ + 1 < static_cast<int32_t>(plan_.stages.size()); }
  // Gradients as large as activations would make the weights explode within a few updates.
  void scale_down();
  kernels::Payload input(int64_t iteration, int64_t microbatch) const;
  kernels::Payload gradient(int64_t iteration, int64_t microbatch) const;
  // Backwards whole, or in halves.
  Status iterate(int64_t iteration, bool halves, bool measured);
  Status go_back(int64_t microbatch, kernels::Payload gradient, bool halves, bool measured);
  std::optional<Seconds> backward_weight() const;
  template <typename Work>
  Status timed(Samples& samples, bool measured, const Work& work);

  const plan::Plan& plan_;
  const int32_t stage_;
  const bool recomputes_;
  const bool emulated_;
  kernels::Kernels& kernels_;
  Clock& clock_;
  kernels::Payload input_, gradient_;
  Samples forward_, backward_, recompute_, update_;
  Samples backward_input_, backward_weight_;
};

void StageProfiler::scale_down() {
  const plan::Precision precision = plan_.training.precision;
  if (precision != plan::Precision::kFp32 && precision != plan::Precision::kBf16) return;
  // A bfloat16 is the upper half of a float.
  const size_t element = precision == plan::Precision::kFp32 ? 4 : 2;
  for (size_t at = 0; at + element <= gradient_.size(); at += element) {
    std::byte bytes[4] = {};
    std::memcpy(bytes + 4 - element, gradient_.data() + at, element);
    float value = 0;
    std::memcpy(&value, bytes, 4);
    value *= 1e-4f;
    std::memcpy(bytes, &value, 4);
    std::memcpy(gradient_.data() + at, bytes + 4 - element, element);
  }
}

// Emulated kernels know what they must get.
kernels::Payload StageProfiler::input(int64_t iteration, int64_t microbatch) const {
  if (!emulated_ || !has_previous()) return input_;
  return kernels::pattern(kernels::payload_bytes(plan_), iteration, microbatch, stage_ - 1, false);
}

kernels::Payload StageProfiler::gradient(int64_t iteration, int64_t microbatch) const {
  if (!emulated_ || !has_next()) return gradient_;
  return kernels::pattern(kernels::payload_bytes(plan_), iteration, microbatch, stage_, true);
}

template <typename Work>
Status StageProfiler::timed(Samples& samples, bool measured, const Work& work) {
  const SimTime start = clock_.now();
  TRY(work());
  if (measured) samples.add(clock_.now() - start);
  return {};
}

Status StageProfiler::go_back(int64_t m, kernels::Payload gradient, bool halves, bool measured) {
  if (!halves) {
    return timed(backward_, measured,
                 [&] { return kernels_.backward(stage_, m, std::move(gradient)); });
  }
  TRY(timed(backward_input_, measured,
            [&] { return kernels_.backward_input(stage_, m, std::move(gradient)); }));
  return timed(backward_weight_, measured, [&] { return kernels_.backward_weight(stage_, m); });
}

// As a share of a whole backward, so that what only halves cost does not make the input's shorter.
std::optional<Seconds> StageProfiler::backward_weight() const {
  const Seconds weight = backward_weight_.median(), both = backward_input_.median() + weight;
  if (both <= 0_s) return std::nullopt;
  return backward_.median() * (weight / both);
}

Status StageProfiler::iterate(int64_t iteration, bool halves, bool measured) {
  TRY(kernels_.begin_iteration(iteration));
  for (int64_t m = 0; m < plan_.microbatches(); ++m) {
    kernels::Payload in = input(iteration, m);
    kernels::Payload out_gradient = gradient(iteration, m);
    TRY(timed(forward_, measured, [&] { return kernels_.forward(stage_, m, std::move(in)); }));
    if (recomputes_)
      TRY(timed(recompute_, measured, [&] { return kernels_.recompute(stage_, m); }));
    TRY(go_back(m, std::move(out_gradient), halves, measured));
  }
  return timed(update_, measured, [&] { return kernels_.update(stage_); });
}

Result<StageProfile> StageProfiler::run(Seconds budget) {
  TRY(iterate(1, false, false));
  TRY(iterate(2, true, false));
  const SimTime end = clock_.now() + round_to_ns(budget);
  for (int64_t i = 3; i <= 4 || clock_.now() < end; ++i) TRY(iterate(i, i % 2 == 0, true));
  return StageProfile{
      .stage = stage_,
      .cost = {.forward = forward_.median(),
               .backward = backward_.median(),
               .recompute = recompute_.median(),
               .update = update_.median(),
               .backward_weight = backward_weight()},
      .spread = {forward_.spread(), backward_.spread(), recompute_.spread(), update_.spread()},
      .samples = forward_.count()};
}

}  // namespace

Result<StageProfile> profile_stage(const plan::Plan& plan, int32_t stage, kernels::Kernels& kernels,
                                   Clock& clock, Seconds budget) {
  CHECK(stage >= 0 && static_cast<size_t>(stage) < plan.stages.size(), "stage {} of {}", stage,
        plan.stages.size());
  return during(StageProfiler(plan, stage, kernels, clock).run(budget),
                fmt::format("profiling stage {}", stage));
}

}  // namespace tombolo::profile
