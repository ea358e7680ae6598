#include "decide/across/steps_factor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace tombolo::across {
namespace {

using plan::Exchange;

// L = scale x N^exponent, nats per token, by datacenters: 1 is data parallelism.
struct LossLaw {
  int64_t datacenters;
  double scale;
  double exponent;
  double loss(double parameters) const { return scale * std::pow(parameters, exponent); }
};
constexpr std::array<LossLaw, 4> kLossLaws{
    {{1, 18.129, -0.0953}, {2, 18.768, -0.0969}, {4, 19.762, -0.0992}, {8, 21.051, -0.1018}}};
constexpr int64_t kStepsFitted = 30;
constexpr double kFewest = 35e6, kMost = 10e9;  // parameters that were trained

StepsFactor of_local(const Exchange& exchange, int64_t datacenters, int64_t parameters) {
  const int64_t within = std::min(datacenters, kLossLaws.back().datacenters);
  const double size = std::clamp(static_cast<double>(parameters), kFewest, kMost);
  StepsFactor out{.factor = diloco_steps(within, size), .source = "law diloco-steps"};
  if (exchange.steps_in_use() != kStepsFitted) {
    out.beyond = fmt::format("{} steps between outer steps, where {} were fitted",
                             exchange.steps_in_use(), kStepsFitted);
  } else if (within != datacenters) {
    out.beyond = fmt::format("{} datacenters, where up to {} were fitted", datacenters, within);
  } else if (size != static_cast<double>(parameters)) {
    out.beyond = "a size of the model that was not fitted: 35 million to 10 billion parameters";
  }
  return out;
}

// Steps to the loss that 300 dense ones reach.
StepsFactor measured(double steps, const Exchange& exchange, bool is_measured) {
  return {.factor = steps / 300,
          .source = "measured with 0.9 M parameters",
          .beyond = is_measured ? std::string()
                                : fmt::format("this {} with {} steps between outer steps",
                                              to_name(exchange.mode), exchange.steps_in_use())};
}

}  // namespace

double diloco_steps(int64_t datacenters, double parameters) {
  CHECK(datacenters >= 1 && datacenters <= kLossLaws.back().datacenters && parameters >= 1,
        "{} datacenters, {} parameters", datacenters, parameters);
  const auto above = std::find_if(kLossLaws.begin(), kLossLaws.end(), [&](const LossLaw& law) {
    return law.datacenters >= datacenters;
  });
  double loss = above->loss(parameters);
  if (above->datacenters != datacenters) {
    const auto below = above - 1;
    const double share =
        std::log2(static_cast<double>(datacenters) / static_cast<double>(below->datacenters));
    loss = below->loss(parameters) * (1 - share) + loss * share;
  }
  const LossLaw& plain = kLossLaws.front();
  const double equal = std::pow(loss / plain.scale, 1 / plain.exponent);  // N' of L_1(N') = loss
  return std::max(1.0, parameters / equal);
}

StepsFactor steps_factor(const Exchange& exchange, int64_t datacenters, int64_t parameters) {
  CHECK(datacenters >= 1 && parameters >= 1, "{} datacenters, {} parameters", datacenters,
        parameters);
  if (exchange.selects_top_k()) {
    Exchange of_chunks = exchange;
    of_chunks.select = plan::Select::kChunks;
    StepsFactor out = steps_factor(of_chunks, datacenters, parameters);
    out.beyond = "the largest numbers of all, where those of chunks were measured";
    return out;
  }
  const bool chunks = exchange.selects_chunks();
  switch (exchange.mode) {
    case plan::ExchangeMode::kDense:
      return {};
    case plan::ExchangeMode::kLocal:
      return of_local(exchange, datacenters, parameters);
    case plan::ExchangeMode::kSparse:
      if (chunks) return measured(381, exchange, true);
      return measured(exchange.density_in_use() < 0.05 ? 603 : 421, exchange, true);
    case plan::ExchangeMode::kSparseLocal:
      if (!chunks) return measured(526, exchange, exchange.steps_in_use() == 10);
      return exchange.steps_in_use() <= 10 ? measured(400, exchange, exchange.steps_in_use() == 10)
                                           : measured(469, exchange, exchange.steps_in_use() == 30);
  }
  return {};
}

StepsFactor steps_factor(const Exchange& exchange, int64_t datacenters, int64_t parameters,
                         const tune::ConvergenceProfile& profile, int64_t batch) {
  const tune::ProbeBounds& bounds = profile.record().bounds;
  if (!exchange.is_sparse() || exchange.select_in_use() != bounds.select_in_use())
    return steps_factor(exchange, datacenters, parameters);
  const double density = exchange.density_in_use(), samples = static_cast<double>(batch);
  const double all = profile.samples_factor(1, samples);
  StepsFactor out{.factor = std::max(1.0, profile.samples_factor(density, samples) / all),
                  .source = "measured by tombolo tune"};
  if (density < bounds.density_min) {
    out.beyond = fmt::format("a density below {:g}, the least that was tried", bounds.density_min);
  } else if (batch < bounds.batch_min || batch > bounds.batch_max) {
    out.beyond =
        fmt::format("a batch that was not tried: {} to {}", bounds.batch_min, bounds.batch_max);
  }
  return out;
}

}  // namespace tombolo::across
