// [exchange]: how replicas of a stage sum their gradients, or train together, where they lie in several
// datacenters.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fields.h"

namespace tombolo::plan {

enum class ExchangeMode {
  kDense,        // all numbers, as they are, every step
  kSparse,       // the largest blocks of each datacenter's sum, every step; the rest is kept back
  kLocal,        // each datacenter trains on its own, and sends its change every `steps` steps
  kSparseLocal,  // the largest blocks of that change; the rest is kept back
};
constexpr auto enum_names(ExchangeMode) {
  return std::to_array<EnumName<ExchangeMode>>({{ExchangeMode::kDense, "dense"},
                                                {ExchangeMode::kSparse, "sparse"},
                                                {ExchangeMode::kLocal, "local"},
                                                {ExchangeMode::kSparseLocal, "sparse-local"}});
}

// How the numbers of an update are selected: blocks of 16 by their norms, over a whole group; or single
// numbers, the largest of each chunk of 4,096 (SparseLoCo, 2025), or the largest of the whole group (Top-k,
// for comparison).
enum class Select { kBlocks, kChunks, kTopK };
constexpr auto enum_names(Select) {
  return std::to_array<EnumName<Select>>(
      {{Select::kBlocks, "blocks"}, {Select::kChunks, "chunks"}, {Select::kTopK, "top-k"}});
}

// Which numbers a step of the optimizer visits where updates are sparse.
enum class OptimizerVisits {
  kSent,  // those that arrived; the others' moments catch up later (perform/update/sparse.h)
  kAll,   // all, as with dense gradients: what did not arrive is zero
};
constexpr auto enum_names(OptimizerVisits) {
  return std::to_array<EnumName<OptimizerVisits>>(
      {{OptimizerVisits::kSent, "sent"}, {OptimizerVisits::kAll, "all"}});
}

// How numbers of an update travel (perform/compress/quantise.h).
enum class SentValues { kBf16, kInt8, kInt4, kTwoBit, kFp32 };
constexpr auto enum_names(SentValues) {
  return std::to_array<EnumName<SentValues>>({{SentValues::kBf16, "bf16"},
                                              {SentValues::kInt8, "int8"},
                                              {SentValues::kInt4, "int4"},
                                              {SentValues::kTwoBit, "2bit"},
                                              {SentValues::kFp32, "fp32"}});
}

// Which of an iteration's waiting groups of gradients is sent first, and updated first.
enum class ExchangeOrder {
  kDeadline,   // the one that the next forward pass needs first
  kFirstCome,  // the one that was ready first: of the layer that the backward pass reaches first
};
constexpr auto enum_names(ExchangeOrder) {
  return std::to_array<EnumName<ExchangeOrder>>(
      {{ExchangeOrder::kDeadline, "deadline"}, {ExchangeOrder::kFirstCome, "first-come"}});
}

// With staleness 1, which parameters a forward pass uses.
enum class Freshness {
  kTimely,  // the newest that are there
  kFixed,   // always those one update old: a run repeats bit for bit
};
constexpr auto enum_names(Freshness) {
  return std::to_array<EnumName<Freshness>>(
      {{Freshness::kTimely, "timely"}, {Freshness::kFixed, "fixed"}});
}

inline constexpr int64_t kLocalStepsMax = 100'000;

// Densities are chosen to two digits, for people read them.
inline double two_digits_down(double density) {
  const double unit = std::pow(10, std::floor(std::log10(density)) - 1);
  return std::floor(density / unit * (1 + 1e-9)) * unit;
}

// Where a density is chosen: how much of the time that can hide an exchange it may take. The rest is room for
// changes of the link's rate before the next choice. For the prediction's first density, and for a run's
// (steer/tune).
inline constexpr double kExchangeFill = 0.9;

// Ignored where all replicas of a stage are in one datacenter.
struct Exchange {
  ExchangeMode mode = ExchangeMode::kDense;
  // mode = "auto": the mode is chosen before a Plan is made (decide/across/exchange_choice.h). Of the other
  // settings only `steps` and `convergence_profile` may be given.
  bool mode_is_auto = false;
  std::string convergence_profile;  // file of `tombolo tune`: the steps that sparse updates need
  // Groups of gradients (gradient_groups.h) are sent during the last backward pass and updated one
  // by one, and the next forward pass waits only for the groups that it has reached. False: they
  // are sent after that backward pass, and updated when all have arrived.
  bool overlap = true;
  std::optional<ExchangeOrder> order;  // left out: deadline

  // Of sparse updates.
  std::optional<Select> select;  // left out: blocks
  // Share of all numbers that each datacenter sends; left out: 0.01 of the blocks, 64 numbers of each chunk.
  // With a range it is the first iteration's, which the prediction sets where a job says "auto".
  std::optional<double> density;
  // Lowest and highest: the run changes its density between them as the link's rate changes (steer/tune).
  // Empty: it does not.
  std::vector<double> density_range;
  std::optional<SentValues> values;    // of local steps, too; left out: bf16
  std::optional<int64_t> staleness;    // updates that a forward pass may do without; left out: 1
  std::optional<Freshness> freshness;  // left out: timely
  std::optional<OptimizerVisits> optimizer_visits;  // left out: sent

  // Of local steps (schedule/local_steps.h).
  std::optional<int64_t> steps;          // from one outer step of a group to its next; left out: 30
  std::optional<double> outer_rate;      // left out: by the number of datacenters
  std::optional<double> outer_momentum;  // of mode = "local", Nesterov's; left out: 0.9
  std::optional<int64_t> fragments;      // of the groups, one after the other; left out: 1
  std::optional<int64_t> delay;  // steps until an outer step is made; left out: steps / fragments,
                                 // of one fragment 0
  std::optional<double> blend;   // own parameters' share in that step; left out: 0.5 after a
                                 // delay, else 0
  std::optional<double> decay;   // of what is kept back; mode = "sparse-local"; left out: 0.95

  ExchangeOrder order_in_use() const { return order.value_or(ExchangeOrder::kDeadline); }
  bool is_first_come() const { return order_in_use() == ExchangeOrder::kFirstCome; }
  bool is_sparse() const { return mode == ExchangeMode::kSparse; }
  bool is_local() const { return mode == ExchangeMode::kLocal || is_sparse_local(); }
  bool is_sparse_local() const { return mode == ExchangeMode::kSparseLocal; }
  bool keeps_residuals() const { return is_sparse() || is_sparse_local(); }
  int64_t steps_in_use() const { return steps.value_or(30); }
  int64_t fragments_in_use() const { return fragments.value_or(1); }
  int64_t delay_in_use() const {
    const int64_t all = fragments_in_use();
    return delay.value_or(all > 1 ? steps_in_use() / all : 0);
  }
  double blend_in_use() const { return blend.value_or(delay_in_use() > 0 ? 0.5 : 0); }
  double outer_momentum_in_use() const {
    return is_sparse_local() ? 0 : outer_momentum.value_or(0.9);
  }
  double decay_in_use() const { return is_sparse_local() ? decay.value_or(0.95) : 1; }
  Select select_in_use() const { return select.value_or(Select::kBlocks); }
  bool selects_chunks() const { return keeps_residuals() && select == Select::kChunks; }
  bool selects_top_k() const { return keeps_residuals() && select == Select::kTopK; }
  bool visits_all() const { return optimizer_visits == OptimizerVisits::kAll; }
  bool density_changes() const { return density_range.size() == 2; }
  // Of a Plan whose density may change: in the first iteration.
  double density_in_use() const {
    const double first = density.value_or(selects_chunks() ? 64.0 / 4096 : 0.01);
    if (density || !density_changes()) return first;
    return std::max(density_range[0], std::min(first, density_range[1]));
  }
  // The share of an iteration's computation that can hide an exchange: with staleness all of it, else the last
  // backward pass and the next forward pass.
  double hides_exchange(int64_t microbatches) const {
    return staleness_in_use() > 0 ? 1 : 1 / static_cast<double>(std::max<int64_t>(microbatches, 1));
  }
  SentValues values_in_use() const {
    return values.value_or(selects_top_k() ? SentValues::kFp32 : SentValues::kBf16);
  }
  int64_t staleness_in_use() const { return is_sparse() ? staleness.value_or(1) : 0; }
  bool is_fixed() const { return freshness == Freshness::kFixed && staleness_in_use() > 0; }

  bool operator==(const Exchange&) const = default;
};

// One of ExchangeMode, or "auto".
template <class Archive>
void describe_mode(Archive& a, Exchange& exchange) {
  constexpr KeyText text{
      "dense: all gradients, every step; sparse: the largest blocks, the rest is kept back; local: "
      "each datacenter trains alone and the difference crosses every n steps; sparse-local: "
      "the largest blocks of that; auto: the one that is predicted to reach a loss first",
      "\"dense\", \"sparse\", \"local\", \"sparse-local\" or \"auto\""};
  std::string mode(exchange.mode_is_auto ? "auto" : to_name(exchange.mode));
  a.optional("mode", mode, text);
  if constexpr (Archive::kReads) {
    exchange.mode_is_auto = mode == "auto";
    const auto named = from_name<ExchangeMode>(mode);
    if (named) exchange.mode = *named;
    a.check(named || exchange.mode_is_auto, "mode", "is not one of the known names",
            "one of dense, sparse, local, sparse-local, auto");
  }
}

// A number, or "auto": then the run chooses within the range.
template <class Archive>
void describe_density(Archive& a, Exchange& exchange) {
  constexpr KeyText text{
      "share of all numbers that each datacenter sends; \"auto\": the run changes it as the line's "
      "rate "
      "does, within density_range; left out: 0.01 of the blocks, 64 numbers of each chunk",
      "number, or \"auto\""};
  bool is_auto = false;
  if constexpr (Archive::kReads) {
    Value said;
    a.optional("density", said, text);
    const auto* word = said.get<std::string>();
    is_auto = word && *word == "auto";
    if (const auto* number = said.get<double>()) exchange.density = *number;
    if (const auto* whole = said.get<int64_t>()) exchange.density = static_cast<double>(*whole);
    a.check(said.is_null() || is_auto || exchange.density, "density",
            "must be a number or \"auto\"", "density = 0.01, or density = \"auto\"");
  } else {
    a.optional("density", exchange.density, text);
  }
  a.optional(
      "density_range", exchange.density_range,
      "lowest and highest share that density = \"auto\" may choose; left out: [0.002, 0.05]");
  const bool has_range = !exchange.density_range.empty();
  a.check(exchange.keeps_residuals() || !is_auto, "density", "needs mode = \"sparse\"");
  a.check(exchange.keeps_residuals() || !has_range, "density_range", "needs mode = \"sparse\"");
  if (is_auto && !has_range) exchange.density_range = {0.002, 0.05};
  a.check(!has_range || exchange.density_range.size() == 2, "density_range",
          "must be two numbers, the lowest and the highest", "density_range = [0.002, 0.05]");
  if (!exchange.density_changes()) return;
  const double lowest = exchange.density_range[0], highest = exchange.density_range[1];
  a.check(lowest > 0 && lowest < highest && highest <= 1, "density_range",
          "must ascend, above 0 and at most 1", "density_range = [0.002, 0.05]");
  const double first = exchange.density.value_or(lowest);
  a.check(first >= lowest && first <= highest, "density",
          fmt::format("must lie in density_range, from {:g} to {:g}", lowest, highest));
  a.check(
      !exchange.is_sparse_local(), "density",
      "cannot change with mode = \"sparse-local\", whose outer steps come too seldom to tell what "
      "the line carries",
      "density = 0.01, or mode = \"sparse\"");
}

template <class Archive>
void check_sparse(Archive& a, const Exchange& exchange) {
  const bool sparse = exchange.is_sparse();
  const bool blocks = exchange.keeps_residuals();
  a.check(blocks || !exchange.select, "select", "needs mode = \"sparse\" or \"sparse-local\"");
  a.check(blocks || !exchange.density, "density", "needs mode = \"sparse\" or \"sparse-local\"");
  a.check(blocks || exchange.is_local() || !exchange.values, "values",
          "needs mode = \"sparse\", \"local\" or \"sparse-local\"");
  a.check(!exchange.selects_top_k() || !exchange.values, "values",
          "must be left out with select = \"top-k\", whose numbers travel as they are",
          "select = \"top-k\" without values, or another select");
  a.check(!blocks || exchange.values != SentValues::kFp32, "values",
          fmt::format("must not be \"fp32\" with mode = \"{}\", whose rounding is made up for",
                      to_name(exchange.mode)),
          "values = \"bf16\"");
  a.check(sparse || !exchange.optimizer_visits, "optimizer_visits", "needs mode = \"sparse\"");
  a.check(sparse || !exchange.staleness, "staleness", "needs mode = \"sparse\"");
  a.check(sparse || !exchange.freshness, "freshness", "needs mode = \"sparse\"");
  a.check(exchange.density_in_use() > 0 && exchange.density_in_use() <= 1, "density",
          "must be above 0 and at most 1", "density = 0.01");
  a.check(exchange.staleness.value_or(0) == 0 || exchange.staleness == 1, "staleness",
          "must be 0 or 1");
  a.check(!exchange.freshness || exchange.staleness != 0, "freshness",
          "needs staleness = 1: with 0 every pass uses the newest parameters");
  a.check(exchange.mode == ExchangeMode::kDense || exchange.overlap, "overlap",
          fmt::format("must be true with mode = \"{}\", whose updates come group by group",
                      to_name(exchange.mode)));
}

template <class Archive>
void check_local(Archive& a, const Exchange& exchange) {
  const bool local = exchange.is_local();
  for (const auto& [key, there] : {std::pair{"steps", exchange.steps.has_value()},
                                   {"outer_rate", exchange.outer_rate.has_value()},
                                   {"outer_momentum", exchange.outer_momentum.has_value()},
                                   {"fragments", exchange.fragments.has_value()},
                                   {"delay", exchange.delay.has_value()},
                                   {"blend", exchange.blend.has_value()}}) {
    a.check(local || !there, key, "needs mode = \"local\" or \"sparse-local\"");
  }
  const bool sparse = exchange.is_sparse_local();
  a.check(sparse || !exchange.decay, "decay", "needs mode = \"sparse-local\"");
  a.check(!sparse || !exchange.outer_momentum, "outer_momentum",
          "needs mode = \"local\": what sparse updates keep back takes its place");
  a.check(exchange.mode != ExchangeMode::kLocal || exchange.values != SentValues::kTwoBit, "values",
          "must have more than 2 bits with mode = \"local\", which makes up for no rounding",
          "values = \"int4\", or mode = \"sparse-local\"");
  const int64_t steps = exchange.steps_in_use();
  a.check(steps >= 1 && steps <= kLocalStepsMax, "steps",
          fmt::format("must be from 1 to {}", kLocalStepsMax), "steps = 30");
  a.check(exchange.fragments_in_use() >= 1 && exchange.fragments_in_use() <= steps, "fragments",
          fmt::format("must be from 1 to steps = {}", steps));
  a.check(exchange.fragments_in_use() < 1 ||
              (exchange.delay_in_use() >= 0 && exchange.delay_in_use() < steps),
          "delay",
          fmt::format("must be from 0 to {}: the group's next outer step begins then", steps - 1));
  a.check(exchange.outer_rate.value_or(1) > 0, "outer_rate", "must be above 0");
  const double momentum = exchange.outer_momentum.value_or(0);
  a.check(momentum >= 0 && momentum < 1, "outer_momentum", "must be from 0 to below 1");
  a.check(exchange.blend.value_or(0) >= 0 && exchange.blend.value_or(0) < 1, "blend",
          "must be from 0, the others' parameters alone, to below 1");
  const double decay = exchange.decay.value_or(1);
  a.check(decay >= 0 && decay <= 1, "decay", "must be from 0 to 1", "decay = 0.95");
}

template <class Archive>
void check_auto(Archive& a, const Exchange& exchange) {
  Exchange plain;
  plain.mode_is_auto = true;
  plain.steps = exchange.steps;
  plain.convergence_profile = exchange.convergence_profile;
  a.check(exchange == plain, "mode",
          "\"auto\" chooses the other settings of [exchange] too, but for steps and "
          "convergence_profile",
          "leaving them out, or a mode that is named");
  const int64_t steps = exchange.steps_in_use();
  a.check(steps >= 1 && steps <= kLocalStepsMax, "steps",
          fmt::format("must be from 1 to {}", kLocalStepsMax), "steps = 30");
}

template <class Archive>
void describe(Archive& a, Exchange& exchange) {
  describe_mode(a, exchange);
  a.optional("overlap", exchange.overlap,
             "groups of gradients leave during the last backward pass, and the next forward pass "
             "waits only for the groups it has reached");
  a.optional("order", exchange.order,
             "of groups that wait, which one is sent and updated first: that which the next "
             "forward pass needs first, or that which came first; left out: deadline");
  a.optional(
      "select", exchange.select,
      "of sparse updates: whole blocks of 16 numbers, the largest numbers of chunks of 4,096, "
      "or exactly the largest of all; left out: blocks");
  describe_density(a, exchange);
  a.optional("values", exchange.values,
             "how the numbers of an update travel; left out: bf16, or with select = \"top-k\" as "
             "they are");
  a.optional("staleness", exchange.staleness,
             "updates that a forward pass may do without; left out: 1");
  a.optional("freshness", exchange.freshness,
             "with staleness 1, which parameters a forward pass uses: the newest that are there, "
             "or always those one update old; left out: timely");
  a.optional(
      "optimizer_visits", exchange.optimizer_visits,
      "of sparse updates: which numbers a step of the optimizer visits, those that were sent "
      "or all; left out: sent");
  a.optional("steps", exchange.steps,
             "of local modes: from one outer step to the next; left out: 30");
  if (a.has("every")) a.refuse("every", "is called steps", "steps = 30");
  a.optional("outer_rate", exchange.outer_rate,
             "learning rate of outer steps; left out: by the number of datacenters");
  a.optional("outer_momentum", exchange.outer_momentum,
             "Nesterov's, of outer steps; left out: 0.9");
  a.optional(
      "fragments", exchange.fragments,
      "of the groups of gradients, which take their outer steps one after the other; left out: 1");
  a.optional("delay", exchange.delay,
             "steps until an outer step is made; left out: steps / fragments, with one fragment 0");
  a.optional("blend", exchange.blend,
             "share of a datacenter's own parameters after an outer step; left out: 0.5 with a "
             "delay, else 0");
  a.optional("decay", exchange.decay, "of what is kept back, each outer step; left out: 0.95");
  if (Archive::kReads || !exchange.convergence_profile.empty()) {
    a.optional(
        "convergence_profile", exchange.convergence_profile,
        "of mode = \"auto\": file in which tombolo tune says how many samples sparse updates of "
        "this model need; left out: what was measured with another");
  }
  if (exchange.mode_is_auto) return check_auto(a, exchange);
  a.check(exchange.convergence_profile.empty(), "convergence_profile", "needs mode = \"auto\"",
          "mode = \"auto\", or leaving it out");
  check_sparse(a, exchange);
  check_local(a, exchange);
}

}  // namespace tombolo::plan
