#include "base/check.h"
#include "evidence/reproduce/dhelix_settings.h"
#include "evidence/reproduce/papers.h"
#include "predict/cost/layer_time.h"
#include "predict/strand/gain_spread.h"
#include "predict/strand/ideal_search.h"
#include "predict/strand/layer_strands.h"
#include "predict/strand/round_robin.h"
#include "predict/strand/stream_search.h"

namespace tombolo::reproduce {
namespace {

using strand::StrandPair;

// A layer with experts as two strands, on machines of one of DHelix's clusters.
StrandPair expert_layer(const model::Model& m, DhelixCluster cluster, int64_t data,
                        int64_t expert) {
  const cluster::Datacenter site = dhelix_site(cluster);
  const cost::Constants constants = dhelix_constants(cluster);
  const cost::LayerPricer pricer(m, site, constants, 2, false);
  const cost::Configuration c{{.data = data, .expert = expert}, 1};
  const cost::GroupPlacement layout = cost::lay_out(c, site.scale_up.domain);
  const strand::LayerStrands strands =
      strand::layer_strands(strand::shape_of(c, layout, false), pricer.operators(c, layout, true));
  return {strands.forward, strands.backward, strand::published_overlap(site.device.name).table};
}

model::Model phi() {
  model::Model m = *model::preset("phi3.5-moe");
  m.sequence = 3072;
  return m;
}

// Gains of a layer: without the head, and without what an expert's capacity pads.
Table mixtures() {
  Table table{
      "dhelix/experts",
      std::string(kDhelix) + "table 6 (Phi-31B, A40) and figure 13b (Phi-42B, A800), ep8",
      "of a layer with barriers of 20 us; how far tokens are padded to a capacity of 6 or 8 "
      "is not said: 15 %",
      {}};
  const struct {
    const char* name;
    DhelixCluster cluster;
    double dhelix, wavelet, share;
  } published[] = {{"Phi-31B, A40", DhelixCluster::kA40, 1.27, 1.05, 34.3},
                   {"Phi-42B, A800", DhelixCluster::kA800, 1.15, 1.04, 0}};
  for (const auto& row : published) {
    const StrandPair pair = expert_layer(phi(), row.cluster, 16, 8);
    const double alone = strand::sequential_seconds(pair);
    const double plan = strand::search_segments(pair, {.barrier = kDhelixBarrier}).seconds;
    const std::string name = row.name;
    const char* why = "padded experts compute several times as much";
    table.rows.push_back(
        row_or_miss({name + ", DHelix", alone / plan, row.dhelix, "x", 0.15}, why));
    table.rows.push_back(row_or_miss(
        {name + ", Wavelet+", alone / strand::in_turn_seconds(pair), row.wavelet, "x", 0.15}, why));
    if (row.share == 0) continue;
    table.rows.push_back(row_or_miss(
        {name + ", communication", 100 * pair.communication() / alone, row.share, "%", 0.15}, why));
  }
  return table;
}

// NVIDIA's own measurement of overlapped experts: forward with backward, events, a fixed order.
Table nvidia() {
  Table table{"megatron-bridge/expert-overlap",
              "NVIDIA-NeMo/Megatron-Bridge, skills/mbridge-perf-expert-parallel-overlap, May 2026: "
              "Qwen3 30B-A3B on 16 H100, ep16, 41.25 s without, 31.31 s with overlap, 31.20 s with "
              "gradients of weights put off",
              "sequence and microbatch are not said (4,096 and 1 here), nor what an iteration has "
              "besides layers: 15 %",
              {}};
  const StrandPair pair =
      expert_layer(*model::preset("qwen3-30b-a3b"), DhelixCluster::kH100, 16, 16);
  StrandPair fixed = pair;
  fixed.set_order(strand::framework_order(pair.forward()),
                  strand::framework_order(pair.backward()));
  const auto seconds = [](const StrandPair& each) {
    const strand::SegmentPlan plan = strand::search_segments(each, {.barrier = 0});
    return strand::search_streams(each, plan, 20'000).seconds;
  };
  const double alone = strand::sequential_seconds(pair), in_order = seconds(fixed);
  table.rows.push_back(row_or_miss({"overlap", alone / in_order, 41.25 / 31.31, "x", 0.15},
                                   "the batch of the measurement is not said"));
  table.rows.push_back(row_or_miss(
      {"gradients of weights put off, over it", in_order / seconds(pair), 31.31 / 31.20, "x", 0.05},
      "the batch of the measurement is not said"));
  return table;
}

}  // namespace

std::vector<Table> dhelix_experts() { return {mixtures()}; }

std::vector<Table> megatron_bridge() { return {nvidia()}; }

}  // namespace tombolo::reproduce
