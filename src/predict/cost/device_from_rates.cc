#include "predict/cost/device_from_rates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/quantiles.h"
#include "predict/cost/layer_time.h"

namespace tombolo::cost {
namespace {

FlopsPerSecond fastest(const plan::DeviceRates& rank) {
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

Result<cluster::Device> device_from_rates(std::span<const plan::DeviceRates> ranks,
                                          const std::string& name) {
  CHECK(!ranks.empty(), "no rank measured {}", name);
  std::vector<double> peaks, streams, outside, attention;
  for (const plan::DeviceRates& rank : ranks) {
    peaks.push_back(fastest(rank).value);
    streams.push_back(rank.stream.value);
  }
  const FlopsPerSecond peak{four_digits(median(peaks))};
  for (const plan::DeviceRates& rank : ranks) {
    for (const plan::MeasuredLayer& layer : rank.layers) {
      const LayerEfficiency its = efficiency_of(layer, peak, rank.precision);
      outside.push_back(its.outside_attention);
      attention.push_back(its.attention);
    }
  }
  const cluster::Device device{.name = name,
                               .kind = cluster::DeviceKind::kCpu,
                               .peak = peak,
                               .memory = ranks.front().memory,
                               .memory_bandwidth = BytesPerSecond{four_digits(median(streams))},
                               .efficiency = four_digits(median(outside)),
                               .attention_efficiency = four_digits(median(attention))};
  for (const double share : {device.efficiency, device.attention_efficiency}) {
    if (share <= 1) continue;
    return failed(fmt::format("a layer took less than its products at {}: {:.2f} of that rate",
                              brief(device.peak), share),
                  "measuring again while the machine does nothing else");
  }
  return device;
}

}  // namespace tombolo::cost
