#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "evidence/reproduce/dhelix_settings.h"
#include "evidence/reproduce/papers.h"
#include "predict/strand/exposure.h"
#include "predict/strand/gain_spread.h"
#include "predict/strand/ideal_search.h"
#include "predict/strand/layer_strands.h"
#include "predict/strand/round_robin.h"

namespace tombolo::reproduce {
namespace {

using strand::Exposure;
using strand::SegmentPlan;
using strand::StrandPair;
using strand::Stream;

// The operators of section 4.2, and what there is to search.
Table operators() {
  Table table{"dhelix/section-4.2-operators",
              std::string(kDhelix) +
                  "section 4.2, for 14 and 18; orders and ideals counted by a second program",
              "exact",
              {}};
  struct Counts {
    int64_t context;
    double operators[2], orders[2], ideals[2];
  };
  for (const Counts& published :
       {Counts{1, {14, 18}, {1, 5'824}, {15, 106}}, Counts{2, {16, 21}, {2, 24'320}, {18, 138}},
        Counts{4, {20, 25}, {14, 206'080}, {27, 186}}}) {
    const strand::LayerStrands layer = strand::layer_strands(
        {.tensor = true, .sequence_parallel = true, .context = published.context}, {});
    for (const bool backward : {false, true}) {
      const strand::Dag& dag = backward ? layer.backward : layer.forward;
      const std::string name =
          fmt::format("{}, cp{}, ", backward ? "backward" : "forward", published.context);
      table.rows.push_back({name + "operators", static_cast<double>(dag.size()),
                            published.operators[backward], "operators", 0});
      table.rows.push_back(
          {name + "orders", strand::order_count(dag), published.orders[backward], "orders", 0});
      table.rows.push_back({name + "ideals", static_cast<double>(strand::order_ideals(dag).size()),
                            published.ideals[backward], "ideals", 0});
      for (size_t i = table.rows.size() - 3; i < table.rows.size(); ++i) {
        if (published.context == 1 && table.rows[i].unit == "operators") continue;  // 14 and 18
        table.rows[i].second = "counted by a second program; the paper prints 14 and 18";
      }
    }
  }
  return table;
}

Table baselines() {
  Table table{
      "dhelix/baselines",
      std::string(kDhelix) + "bars of Megatron-LM in figures 11 to 15",
      "what the constants were fitted to, and nothing else was: 21 bars, 7 numbers; rms 3.6 %",
      {}};
  for (const DhelixSetting& s : dhelix_settings()) {
    const DhelixLayer layer = dhelix_layer(s);
    table.rows.push_back({s.label(), layer.tflops(strand::sequential_seconds(layer.pair)),
                          s.baseline, "TFLOPS", 0.12});
  }
  return table;
}

// With that share of figure 4's effectiveness between the strands.
StrandPair with_overlap(const StrandPair& pair, double share) {
  StrandPair out = pair;
  const size_t forwards = pair.forward().size();
  for (size_t f = 0; f < forwards; ++f) {
    for (size_t b = forwards; b < pair.size(); ++b) {
      const double effectiveness = 2 - 1 / pair.pace(f, b);  // both have the same pace
      out.set_pace(f, b, strand::pace_of_effectiveness(share * effectiveness, 0));
    }
  }
  return out;
}

// The share with which it gains as much as is published.
double overlap_for(const DhelixLayer& layer, double barrier, double gain) {
  double low = 0, high = 1;
  while (high - low > 0.005) {
    const double share = (low + high) / 2;
    const StrandPair pair = with_overlap(layer.pair, share);
    (layer.gain(strand::search_segments(pair, {.barrier = barrier}).seconds) < gain ? low : high) =
        share;
  }
  return (low + high) / 2;
}

// `seconds`: of our plan of a layer.
std::string why_not_gained(const DhelixSetting& s, const DhelixLayer& layer, double seconds,
                           double barrier) {
  const double theirs = s.baseline * s.gain, ours = layer.tflops(seconds);
  if (std::abs(ours / theirs - 1) < 0.05) {
    const double baseline = layer.tflops(strand::sequential_seconds(layer.pair));
    return fmt::format(
        "what differs is the baseline: {:.1f} TFLOPS for {:.1f}; DHelix itself has {:.1f} for "
        "{:.1f}",
        baseline, s.baseline, ours, theirs);
  }
  if (s.gain < layer.gain(seconds)) {
    return fmt::format(
        "DHelix gains less than its figure 4 allows: the published gain is that of {:.0f} % "
        "of figure 4's overlap",
        100 * overlap_for(layer, barrier, s.gain));
  }
  const double links = std::max(layer.pair.stream_seconds(Stream::kLocal),
                                layer.pair.stream_seconds(Stream::kCross));
  return fmt::format(
      "no plan is shorter than its links: ours gain no more than {:.2f}, so theirs were "
      "faster than fitted",
      layer.gain(links));
}

// Plans as DHelix performs them: segments with barriers.
Table gains(const char* name, double barrier) {
  Table table{name,
              std::string(kDhelix) +
                  fmt::format("figures 11 to 15, with barriers of {:.0f} us", 1e6 * barrier),
              "overlap from its figure 4, times fitted to baselines only: 8 % of the gain",
              {}};
  for (const DhelixSetting& s : dhelix_settings()) {
    const DhelixLayer layer = dhelix_layer(s);
    const SegmentPlan plan = strand::search_segments(layer.pair, {.barrier = barrier});
    Row row{s.label(), layer.gain(plan.seconds), s.gain, "x", 0.08};
    if (!row.ok()) row.not_reproduced = why_not_gained(s, layer, plan.seconds, barrier);
    table.rows.push_back(row);
  }
  return table;
}

struct Hidden {
  double plan = 0, in_turn = 0;
};

Hidden hidden_on_a40() {
  Hidden sum;
  double settings = 0;
  for (const DhelixSetting& s : dhelix_settings()) {
    if (s.cluster != DhelixCluster::kA40 || s.context > 1) continue;
    const StrandPair pair = dhelix_layer(s).pair;
    const double compute = pair.stream_seconds(Stream::kCompute);
    const auto share = [&](double seconds) {
      return 1 - (seconds - compute) / pair.communication();
    };
    sum.plan += share(strand::search_segments(pair, {.barrier = kDhelixBarrier}).seconds);
    sum.in_turn += share(strand::in_turn_seconds(pair));
    settings += 1;
  }
  return {sum.plan / settings, sum.in_turn / settings};
}

Table hidden() {
  Table table{
      "dhelix/hidden",
      std::string(kDhelix) + "section 6.2.1 (A40 without context parallelism) and table 7",
      "ten points of 83; a share of communication counts what is hidden after the slow-down "
      "of computation",
      {}};
  const Hidden a40 = hidden_on_a40();
  table.rows.push_back({"A40, DHelix", 100 * a40.plan, 83, "%", 10.0 / 83});
  table.rows.push_back(
      row_or_miss({"A40, Wavelet+", 100 * a40.in_turn, 39.9, "%", 0.1},
                  "two strands in turn without barriers; Wavelet+ synchronises, and how "
                  "often is not said"));
  const struct {
    const char* label;
    double hidden, slowdown, launch;
  } published[] = {{"H100 405B-L6", 57.87, 32.48, 9.65},
                   {"H100 405B-L12", 66.73, 23.01, 10.26},
                   {"H100 405B-L20", 51.72, 29.45, 18.83}};
  for (const auto& row : published) {
    const StrandPair pair = dhelix_layer(dhelix_setting(row.label)).pair;
    const SegmentPlan plan = strand::search_segments(pair, {.barrier = kDhelixBarrier});
    std::vector<strand::OperatorRun> runs;
    strand::replay(pair, plan, kDhelixBarrier, &runs);
    const Exposure e = strand::exposure_of(pair, runs, plan.seconds);
    const double all = e.communication_total() / 100;
    const std::string name = row.label;
    const double launches = row.launch * all / static_cast<double>(plan.segments.size());
    const std::string why = fmt::format(
        "its launches take {:.0f} us of each of our segments, where 20 were committed, and its "
        "computation slows down by {:.1f} times as much as figure 4 says",
        1e6 * launches, row.slowdown * all / e.slowdown);
    table.rows.push_back(row_or_miss(
        {name + ", hidden", e.exposed() > 0 ? 100 * e.hidden_share() : 0, row.hidden, "%", 0.15},
        why));
    table.rows.push_back(
        row_or_miss({name + ", slow-down", e.slowdown / all, row.slowdown, "%", 0.2}, why));
    table.rows.push_back(
        row_or_miss({name + ", launches", e.standing / all, row.launch, "%", 0.2}, why));
  }
  return table;
}

// Which operators of different strands may run concurrently in a step of figure 15.
struct Allowed {
  bool local = false, cross = false, links = false, move_weights = false;
};

double ablated(const StrandPair& pair, const Allowed& allowed) {
  StrandPair out = pair;
  const size_t forwards = pair.forward().size();
  for (size_t f = 0; f < forwards; ++f) {
    for (size_t b = forwards; b < pair.size(); ++b) {
      const Stream one = pair[f].stream, other = pair[b].stream;
      const bool compute = one == Stream::kCompute || other == Stream::kCompute;
      const bool local = one == Stream::kLocal || other == Stream::kLocal;
      const bool may = !compute ? allowed.links : local ? allowed.local : allowed.cross;
      if (!may) out.set_pace(f, b, strand::pace_of_effectiveness(0, 0));
    }
  }
  if (!allowed.move_weights) {
    out.set_order(strand::framework_order(pair.forward()),
                  strand::framework_order(pair.backward()));
  }
  return strand::search_segments(out, {.barrier = kDhelixBarrier}).seconds;
}

Table ablation() {
  Table table{"dhelix/figure-15",
              std::string(kDhelix) + "figure 15: what is overlapped, one kind after the other",
              "time saved by each step; 15 % of what is printed",
              {}};
  const std::pair<const char*, Allowed> steps[] = {
      {"+ TP", {true}},
      {"+ CP", {true, true}},
      {"+ links during links", {true, true, true}},
      {"+ gradients of weights move", {true, true, true, true}}};
  const std::pair<const char*, std::array<double, 4>> published[] = {
      {"A40 Llama-39B cp2", {11.18, 33.72, 33.72, 38.73}},
      {"A40 Llama-39B cp4", {5.37, 19.77, 26.84, 27.97}}};
  for (const auto& [label, percents] : published) {
    const DhelixLayer layer = dhelix_layer(dhelix_setting(label));
    const double share = overlap_for(layer, kDhelixBarrier, 1 + percents.back() / 100);
    const StrandPair weaker = with_overlap(layer.pair, share);
    const auto percent = [&](const StrandPair& pair, size_t step) {
      return 100 * (layer.gain(ablated(pair, steps[step].second)) - 1);
    };
    for (size_t step = 0; step < std::size(steps); ++step) {
      table.rows.push_back(row_or_miss(
          {fmt::format("{} {}", label, steps[step].first), percent(layer.pair, step),
           percents[step], "%", 0.15},
          fmt::format(
              "DHelix gains less than its figure 4 allows: with {:.0f} % of figure 4's overlap, "
              "which makes the last step as printed, this one is {:.1f} %",
              100 * share, percent(weaker, step))));
    }
  }
  return table;
}

Table wavelet() {
  Table table{"dhelix/wavelet-plus",
              std::string(kDhelix) + "figures 11 to 13, Wavelet+",
              "two strands in turn, in their own order and without barriers; lock step is slower "
              "than the baseline, so this is its upper end: 15 %",
              {}};
  for (const DhelixSetting& s : dhelix_settings()) {
    if (s.wavelet == 0) continue;
    const DhelixLayer layer = dhelix_layer(s);
    table.rows.push_back(row_or_miss(
        {s.label(), layer.gain(strand::in_turn_seconds(layer.pair)), s.wavelet, "x", 0.15},
        "how often Wavelet+ synchronises is not said"));
  }
  return table;
}

}  // namespace

std::vector<Table> dhelix() {
  std::vector<Table> tables{operators(),
                            baselines(),
                            gains("dhelix/gains", kDhelixBarrier),
                            gains("dhelix/gains-100us", 100e-6),
                            gains("dhelix/gains-200us", 200e-6),
                            hidden(),
                            ablation(),
                            wavelet()};
  for (Table& table : dhelix_experts()) tables.push_back(std::move(table));
  for (Table& table : dhelix_communication()) tables.push_back(std::move(table));
  for (Table& table : dhelix_baselines()) tables.push_back(std::move(table));
  return tables;
}

}  // namespace tombolo::reproduce
