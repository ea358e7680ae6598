#include "predict/cost/device_from_rates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/quantiles.h"
#include "predict/cost/layer_time.h"

namespace tombolo::cost {
namespace {

FlopsPerSecond fastest_of(const plan::DeviceRates& rank) {
  FlopsPerSecond best;
  for (const plan::MeasuredProduct& product : rank.products) {
    if (product.precision == rank.precision) best = std::max(best, product.rate);
  }
  CHECK(best.value > 0, "no product in {}", to_name(rank.precision));
  return best;
}

// No measurement knows more.
double four_digits(double value) {
  CHECK(value > 0, "a rate of {}", value);
  const double last = std::pow(10.0, std::floor(std::log10(value)) - 3);
  return last >= 1 ? std::round(value / last) * last : std::round(value * (1 / last)) / (1 / last);
}

}  // namespace

FlopsPerSecond fastest_product(std::span<const plan::DeviceRates> ranks) {
  std::vector<double> peaks;
  for (const plan::DeviceRates& rank : ranks) peaks.push_back(fastest_of(rank).value);
  return FlopsPerSecond{four_digits(median(peaks))};
}

// The law's times are inversely proportional to both efficiencies, so one price at 1 is enough.
LayerEfficiency efficiency_of(const plan::MeasuredLayer& layer, FlopsPerSecond peak,
                              plan::Precision precision) {
  CHECK(peak.value > 0, "a peak of {}", peak.value);
  cluster::Datacenter here;
  here.name = "here";
  here.device = {.name = "cpu",
                 .kind = cluster::DeviceKind::kCpu,
                 .peak = peak,
                 .memory = 1_GiB,
                 .memory_bandwidth = BytesPerSecond{std::numeric_limits<double>::infinity()},
                 .efficiency = 1,
                 .attention_efficiency = 1};
  const Result<Constants> constants = find_constants(here, "tombolo");
  CHECK(constants.has_value(), "{}", constants.error().text());
  const LayerPricer pricer(layer.model, here, *constants, plan::element_bytes(precision), false);
  const Configuration one{{}, layer.micro_batch, layer.micro_batch};
  const LayerTime time = pricer.layer(one, lay_out(one, 1), false);
  const double attention = time.forward.attention + time.backward.attention;
  const double all = time.forward.compute + time.backward.compute;
  return {.outside_attention = (all - attention) / (layer.whole - layer.attention).value,
          .attention = attention / layer.attention.value};
}

cluster::Device device_from_rates(std::span<const plan::DeviceRates> ranks,
                                  const std::string& name) {
  CHECK(!ranks.empty(), "no rank measured {}", name);
  std::vector<double> streams, outside, attention;
  for (const plan::DeviceRates& rank : ranks) streams.push_back(rank.stream.value);
  const FlopsPerSecond of_products = fastest_product(ranks);
  for (const plan::DeviceRates& rank : ranks) {
    for (const plan::MeasuredLayer& layer : rank.layers) {
      const LayerEfficiency its = efficiency_of(layer, of_products, rank.precision);
      outside.push_back(its.outside_attention);
      attention.push_back(its.attention);
    }
  }
  // Times follow from peak x efficiency: a higher peak with smaller shares says the same of them.
  const double reached = std::max({1.0, median(outside), median(attention)});
  return {.name = name,
          .kind = cluster::DeviceKind::kCpu,
          .peak = FlopsPerSecond{four_digits(of_products.value * reached)},
          .memory = ranks.front().memory,
          .memory_bandwidth = BytesPerSecond{four_digits(median(streams))},
          .efficiency = four_digits(median(outside) / reached),
          .attention_efficiency = four_digits(median(attention) / reached)};
}

}  // namespace tombolo::cost
