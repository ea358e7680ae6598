// [exchange]: how replicas of a stage sum their gradients where they lie in several datacenters.
#pragma once

#include <cstdint>
#include <optional>

#include "base/fields.h"

namespace tombolo::plan {

enum class ExchangeMode {
  kDense,   // all numbers, as they are, every step
  kSparse,  // of each datacenter's sum its largest blocks, every step; the rest is kept back
};
constexpr auto enum_names(ExchangeMode) {
  return std::to_array<EnumName<ExchangeMode>>(
      {{ExchangeMode::kDense, "dense"}, {ExchangeMode::kSparse, "sparse"}});
}

// How numbers of a sparse update travel (perform/compress/quantise.h).
enum class SentValues { kBf16, kInt8, kInt4, kTwoBit };
constexpr auto enum_names(SentValues) {
  return std::to_array<EnumName<SentValues>>({{SentValues::kBf16, "bf16"},
                                              {SentValues::kInt8, "int8"},
                                              {SentValues::kInt4, "int4"},
                                              {SentValues::kTwoBit, "2bit"}});
}

// With staleness 1, which parameters a forward pass uses.
enum class Freshness {
  kTimely,  // the newest that are there
  kFixed,   // those before the update before: a run repeats bit for bit
};
constexpr auto enum_names(Freshness) {
  return std::to_array<EnumName<Freshness>>(
      {{Freshness::kTimely, "timely"}, {Freshness::kFixed, "fixed"}});
}

// Where all replicas of a stage share a datacenter, nothing of it plays a part.
struct Exchange {
  ExchangeMode mode = ExchangeMode::kDense;
  // Groups of gradients (gradient_groups.h) leave during the last backward pass, are updated one by
  // one, and the next forward pass waits for the groups that it has come to. False: they leave
  // after it, and are updated when all are there.
  bool overlap = true;

  // Of sparse updates.
  std::optional<double> density;       // blocks that each datacenter sends, of all; left out: 0.01
  std::optional<SentValues> values;    // left out: bf16
  std::optional<int64_t> staleness;    // updates that a forward pass may do without; left out: 1
  std::optional<Freshness> freshness;  // left out: timely

  bool is_sparse() const { return mode == ExchangeMode::kSparse; }
  double density_in_use() const { return density.value_or(0.01); }
  SentValues values_in_use() const { return values.value_or(SentValues::kBf16); }
  int64_t staleness_in_use() const { return is_sparse() ? staleness.value_or(1) : 0; }
  bool is_fixed() const { return freshness == Freshness::kFixed && staleness_in_use() > 0; }

  bool operator==(const Exchange&) const = default;
};

template <class Archive>
void describe(Archive& a, Exchange& exchange) {
  a.optional("mode", exchange.mode);
  a.optional("overlap", exchange.overlap);
  a.optional("density", exchange.density);
  a.optional("values", exchange.values);
  a.optional("staleness", exchange.staleness);
  a.optional("freshness", exchange.freshness);
  const bool sparse = exchange.is_sparse();
  a.check(sparse || !exchange.density, "density", "needs mode = \"sparse\"");
  a.check(sparse || !exchange.values, "values", "needs mode = \"sparse\"");
  a.check(sparse || !exchange.staleness, "staleness", "needs mode = \"sparse\"");
  a.check(sparse || !exchange.freshness, "freshness", "needs mode = \"sparse\"");
  a.check(exchange.density_in_use() > 0 && exchange.density_in_use() <= 1, "density",
          "must be above 0 and at most 1", "density = 0.01");
  a.check(exchange.staleness.value_or(0) == 0 || exchange.staleness == 1, "staleness",
          "must be 0 or 1");
  a.check(!exchange.freshness || exchange.staleness != 0, "freshness",
          "needs staleness = 1: with 0 every pass uses the newest parameters");
  a.check(!sparse || exchange.overlap, "overlap",
          "must be true with mode = \"sparse\", whose updates come group by group");
}

}  // namespace tombolo::plan
