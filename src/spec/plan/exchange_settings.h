// [exchange]: how replicas of a stage sum their gradients where they lie in several datacenters.
#pragma once

#include <optional>

#include "base/fields.h"

namespace tombolo::plan {

enum class ExchangeMode {
  kDense,  // all numbers, as they are, every step
};
constexpr auto enum_names(ExchangeMode) {
  return std::to_array<EnumName<ExchangeMode>>({{ExchangeMode::kDense, "dense"}});
}

// Where all replicas of a stage share a datacenter, nothing of it plays a part.
struct Exchange {
  ExchangeMode mode = ExchangeMode::kDense;
  // Groups of gradients (gradient_groups.h) leave during the last backward pass, are updated one by
  // one, and the next forward pass waits for the groups that it has come to. False: they leave
  // after it, and are updated when all are there.
  bool overlap = true;

  bool operator==(const Exchange&) const = default;
};

template <class Archive>
void describe(Archive& a, Exchange& exchange) {
  a.optional("mode", exchange.mode);
  a.optional("overlap", exchange.overlap);
}

}  // namespace tombolo::plan
