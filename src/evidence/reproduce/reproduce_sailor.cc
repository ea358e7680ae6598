// Iterations of OPT-350M that Sailor's authors measured, and ours from their profiles of its layers.
//
// The paper prints mean errors of its own simulator on these runs (6 % on Grace Hopper, 4.5 % on
// different GPUs); runs and profiles are in its repository. An iteration here is 1F1B of stages that
// take what their layers take, messages that leave while the next pass computes, a ring all-reduce
// of the largest stage, and the update. Of replicas on different GPUs the slowest counts.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "evidence/reproduce/papers.h"
#include "predict/cost/collective.h"
#include "spec/schedule/schedule.h"

namespace tombolo::reproduce {
namespace {

// Seconds of a microbatch, forward and backward, by one tensor-parallel group; update of a layer.
struct OptProfile {
  struct Layer {
    double forward, backward;
  } embedding, first, other, head;
  double update;
};

// Grace Hopper, four GPUs, microbatches of 1, 2, 4 and 8.
constexpr OptProfile kHopper1{
    {967e-6, 2e-6}, {1500e-6, 1938e-6}, {1500e-6, 1719e-6}, {2405e-6, 1663e-6}, 447e-6};
constexpr OptProfile kHopper2{
    {456e-6, 2e-6}, {1700e-6, 1821e-6}, {1700e-6, 1846e-6}, {1632e-6, 1493e-6}, 429e-6};
constexpr OptProfile kHopper4{
    {630e-6, 2e-6}, {1800e-6, 3312e-6}, {1700e-6, 3320e-6}, {2424e-6, 2579e-6}, 472e-6};
constexpr OptProfile kHopper8{
    {922e-6, 1e-6}, {3021e-6, 6469e-6}, {2683e-6, 6470e-6}, {4014e-6, 5944e-6}, 479e-6};
// Microbatches of 2 by two and by eight GPUs of a node.
constexpr OptProfile kTwo3090{
    {1105e-6, 2e-6}, {5826e-6, 13045e-6}, {5598e-6, 13036e-6}, {10105e-6, 14792e-6}, 2577e-6};
constexpr OptProfile kTwoTitan{
    {4768e-6, 2e-6}, {16731e-6, 28472e-6}, {16691e-6, 29242e-6}, {19002e-6, 33385e-6}, 4271e-6};
constexpr OptProfile k3090{
    {18533e-6, 2e-6}, {37899e-6, 39596e-6}, {37522e-6, 39646e-6}, {2892e-6, 22585e-6}, 868e-6};
constexpr OptProfile kTitan{
    {6495e-6, 2e-6}, {13870e-6, 17190e-6}, {13889e-6, 17410e-6}, {5318e-6, 13428e-6}, 1443e-6};
constexpr OptProfile k2080{
    {7675e-6, 2e-6}, {16544e-6, 19975e-6}, {16606e-6, 20125e-6}, {6210e-6, 14632e-6}, 1469e-6};

constexpr int kLayers = 26;  // with embedding and head
constexpr double kEmbeddingFloats = 53'608'448, kLayerFloats = 12'596'224, kHeadFloats = 51'513'344;
constexpr double kBytesOfFloat = 4;
constexpr Bytes kActivation{2048 * 1024 * kBytesOfFloat};  // of one sequence

const OptProfile::Layer& layer_of(const OptProfile& profile, int layer) {
  if (layer == 0) return profile.embedding;
  if (layer == kLayers - 1) return profile.head;
  return layer == 1 ? profile.first : profile.other;
}

// Stages as runs of layers, and for each its replicas' profiles.
struct OptRun {
  const char* name;
  std::vector<int> layers;
  std::vector<std::vector<OptProfile>> stages;
  int replicas, microbatch, batch;
  double measured;
  const char* miss = "";  // why ours is not claimed
};

// Where every stage has as many replicas of one kind.
OptRun alike(const char* name, std::vector<int> layers, int replicas, int microbatch, int batch,
             double measured) {
  const OptProfile& profile = microbatch == 1   ? kHopper1
                              : microbatch == 2 ? kHopper2
                              : microbatch == 4 ? kHopper4
                                                : kHopper8;
  std::vector<std::vector<OptProfile>> stages(layers.size(), {profile});
  return {name, std::move(layers), std::move(stages), replicas, microbatch, batch, measured};
}

// Between nodes: what a pair has, and by how many equal parts of the model it is shared.
struct OptNetwork {
  BytesPerSecond rate;
  double shards;  // that send side by side, each over a card of its own
};

double sailor_iteration(const OptRun& run, const OptNetwork& network) {
  schedule::PipelineShape shape{.stages = static_cast<int32_t>(run.layers.size()),
                                .microbatches = run.batch / run.microbatch / run.replicas};
  schedule::Times times;
  Seconds update, reduce;
  int first = 0;
  for (size_t stage = 0; stage < run.layers.size(); ++stage) {
    Seconds forward, backward;
    for (const OptProfile& profile : run.stages[stage]) {
      Seconds f, b;
      for (int layer = first; layer < first + run.layers[stage]; ++layer) {
        f += Seconds{layer_of(profile, layer).forward};
        b += Seconds{layer_of(profile, layer).backward};
      }
      if (f + b > forward + backward) std::tie(forward, backward) = std::pair(f, b);
      update = std::max(update, Seconds{profile.update});
    }
    times.stages.push_back({round_to_ns(forward), round_to_ns(backward), {}, {}});
    const int last = first + run.layers[stage];
    const int plain = run.layers[stage] - (first == 0) - (last == kLayers);
    const double floats = plain * kLayerFloats + (first == 0 ? kEmbeddingFloats : 0) +
                          (last == kLayers ? kHeadFloats : 0);
    reduce = std::max(reduce, cost::ring_all_reduce({Bytes{floats * kBytesOfFloat / network.shards},
                                                     run.replicas, network.rate, 5_us}));
    first = last;
  }
  CHECK(first == kLayers, "{}: {} layers", run.name, first);
  times.transfer.assign(run.layers.size() - 1,
                        round_to_ns(kActivation * run.microbatch / network.rate));
  const auto schedule = schedule::build(layout::ScheduleKind::k1F1B, shape, times);
  CHECK(schedule, "{}", schedule.error().text());
  return (seconds(schedule::makespan_of(*schedule, shape, times)) + reduce + update).value;
}

Table sailor_table(const char* name, const char* where, const char* band, double widest,
                   const OptNetwork& network, const std::vector<OptRun>& runs) {
  Table table{name,
              "Strati et al. 2025, Sailor: Automating Distributed Training over Dynamic, "
              "Heterogeneous, and Geo-distributed Clusters, runs behind " +
                  std::string(where) + ", in its repository at sosp25_ae: OPT-350M, fp32",
              band,
              {}};
  for (const OptRun& run : runs) {
    table.rows.push_back(
        {run.name, sailor_iteration(run, network), run.measured, "s", widest, run.miss});
  }
  return table;
}

Table grace_hopper() {
  const std::vector<int> one{26}, two{12, 14}, four{5, 7, 7, 7};
  return sailor_table(
      "sailor/grace-hopper", "figure 5b (GH200, tensor 4)",
      "17 %; ours are off by 8.7 % on average, Sailor's simulator by 6 % (the paper)", 0.17,
      {22.9_GBps, 4},
      {alike("1 node, microbatch 1, batch 1", one, 1, 1, 1, 0.07359),
       alike("1 node, microbatch 1, batch 32", one, 1, 1, 32, 2.28123),
       alike("2 nodes, 2 stages, microbatch 8, batch 32", two, 1, 8, 32, 0.65705),
       alike("2 nodes, data 2, microbatch 2, batch 32", one, 2, 2, 32, 0.8048),
       alike("4 nodes, 4 stages, microbatch 1, batch 64", four, 1, 1, 64, 1.60196),
       alike("4 nodes, 2 stages, data 2, microbatch 1, batch 64", two, 2, 1, 64, 1.44523),
       alike("4 nodes, data 4, microbatch 4, batch 128", one, 4, 4, 128, 1.23516),
       alike("8 nodes, 4 stages, data 2, microbatch 8, batch 512", four, 2, 8, 512, 2.69795),
       alike("8 nodes, 2 stages, data 4, microbatch 8, batch 512", two, 4, 8, 512, 2.2988),
       alike("16 nodes, 4 stages, data 4, microbatch 8, batch 1024", four, 4, 8, 1024, 2.72578),
       alike("16 nodes, 2 stages, data 8, microbatch 8, batch 1024", two, 8, 8, 1024, 2.31116),
       alike("16 nodes, data 16, microbatch 8, batch 1024", one, 16, 8, 1024, 1.92557),
       alike("32 nodes, 4 stages, data 8, microbatch 8, batch 1024", four, 8, 8, 1024, 1.47485),
       alike("32 nodes, 2 stages, data 16, microbatch 8, batch 1024", two, 16, 8, 1024, 1.22476),
       alike("32 nodes, data 32, microbatch 8, batch 1024", one, 32, 8, 1024, 1.02594)});
}

Table different_gpus() {
  const std::vector<int> one{26}, two{12, 14}, three{8, 9, 9}, four{5, 7, 7, 7};
  const char* in_turn =
      "messages of 0.15 s hide behind passes here; two added to each microbatch of the slowest "
      "stage "
      "would make up the gap, to 6 %";
  const char* copied = "the repository has time, all-reduce and memory of the run on 3 nodes here";
  return sailor_table(
      "sailor/different-gpus", "figure 6 (RTX 3090, RTX 2080 and Titan RTX, 8 to a node, tensor 8)",
      "5 % where messages are few", 0.05, {115_MBps, 1},
      {{"2 nodes, tensor 2, 2 stages",
        two,
        {{kTwo3090}, {kTwoTitan}},
        1,
        2,
        256,
        119.83914,
        in_turn},
       {"2 nodes, tensor 2, data 2", one, {{kTwoTitan, kTwo3090}}, 2, 2, 256, 91.78},
       {"3 nodes, 3 stages", three, {{k3090}, {k2080}, {kTitan}}, 1, 2, 144, 59.45533, in_turn},
       {"4 nodes, 4 stages",
        four,
        {{k3090}, {k2080}, {kTitan}, {k2080}},
        1,
        2,
        256,
        83.76622,
        in_turn},
       {"4 nodes, 2 stages, data 2", two, {{k3090, k2080}, {kTitan, k2080}}, 2, 2, 256, 66.06712},
       {"4 nodes, data 4", one, {{k3090, k2080, kTitan, k2080}}, 4, 2, 256, 83.45238},
       {"6 nodes, 3 stages, data 2",
        three,
        {{k3090, k2080}, {k2080, kTitan}, {k2080, kTitan}},
        2,
        2,
        288,
        59.45533,
        copied},
       {"6 nodes, 2 stages, data 3", two, {{k3090, k2080}, {kTitan, k2080}}, 3, 2, 288, 54.2392},
       {"6 nodes, data 6", one, {{k3090, k2080, kTitan}}, 6, 2, 288, 70.78508}});
}

}  // namespace

std::vector<Table> sailor() { return {grace_hopper(), different_gpus()}; }

}  // namespace tombolo::reproduce
