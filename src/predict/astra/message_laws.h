// Our laws of messages, by name: `analytical`, `congestion` (ASTRA-sim's two) and `fluid`.
#pragma once

#include <cstdint>
#include <memory>

#include "base/fields.h"
#include "predict/astra/astra_classes.h"
#include "predict/astra/message_law.h"

namespace tombolo::astra {

enum class NetworkLaw : uint8_t { kAnalytical, kCongestion, kFluid };
constexpr auto enum_names(NetworkLaw) {
  return std::to_array<EnumName<NetworkLaw>>({{NetworkLaw::kAnalytical, "analytical"},
                                              {NetworkLaw::kCongestion, "congestion"},
                                              {NetworkLaw::kFluid, "fluid"}});
}

// through_all: under `analytical` every dimension in which two NPUs differ counts, and not the first
// alone. classes: of ranks of which one each is simulated, or null; for `analytical` and `fluid`.
// Topology, classes and run outlive the law.
std::unique_ptr<MessageLaw> make_message_law(NetworkLaw law, const network::Topology& topology,
                                             bool through_all, const RankClasses* classes,
                                             MessageRun& run);

}  // namespace tombolo::astra
