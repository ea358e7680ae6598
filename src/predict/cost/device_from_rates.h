// A CPU as the law `roofline` wants it, from a short measurement instead of the catalog.
#pragma once

#include <span>
#include <string>

#include "spec/cluster/cluster.h"
#include "spec/plan/device_rates.h"

namespace tombolo::cost {

// `ranks`: of one or several ranks that measured at once, as the ranks of a run load a machine.
//
//   peak                  the fastest product, or what a layer reached where that is more, as when
//                         the machine was disturbed while it measured products
//   memory_bandwidth      the streaming pass; median of the ranks
//   efficiency            so that the law gives a layer the time it took outside attention
//   attention_efficiency  so that the law gives its attention the time it took
//
// The last two are medians over the layers of all ranks. So they are shares of whole stages, as
// those of the catalog: element-wise operators and allocations are in them. All are rounded to four
// digits. CHECKs that `ranks` is not empty.
cluster::Device device_from_rates(std::span<const plan::DeviceRates> ranks,
                                  const std::string& name);

// In the precision of the layers; median of the ranks, in four digits.
FlopsPerSecond fastest_product(std::span<const plan::DeviceRates> ranks);

// The efficiencies that one measured layer implies on its own, at this peak.
struct LayerEfficiency {
  double outside_attention = 0;
  double attention = 0;
};
LayerEfficiency efficiency_of(const plan::MeasuredLayer& layer, FlopsPerSecond peak,
                              plan::Precision precision);

}  // namespace tombolo::cost
