// What papers say, compared with our figures, each with its source.
//
// Curves are not printed as numbers; the text quotes some, and these are the rows. What a text
// quotes and leaves too much open to be computed is a row with the reason.
#pragma once

#include <vector>

#include "evidence/reproduce/reproduce.h"
#include "predict/cost/roofline.h"

namespace tombolo::reproduce {

// Atlas, of choosing datacenters and of parallelism over a WAN.
//
// Algorithm 1 is arithmetic: which numbers of pipelines it finds on the lists of section 6.3 was
// worked out by hand, for the paper prints only throughputs.
//
// Source: Palak et al. 2024, Improving training time and GPU utilization in geo-distributed
// language model training, sections 3, 4.5 and 6.3 to 6.4. docs/laws/datacenter_selection.md.

// How the tables name their source, before ", section ...".
inline constexpr const char* kAtlas =
    "Palak et al. 2024, Improving training time and GPU utilization in geo-distributed language "
    "model training, ";

// A layer of GPT-A (sequences of 4,096, hidden size 4,096) or GPT-B (6,144 and 8,192) on an A100
// with full recomputation, one sequence a microbatch; heads of 128, as the paper leaves them out.
struct AtlasLayer {
  plan::StageCost cost;
  Bytes boundary;  // what one microbatch sends to the next stage
};
AtlasLayer atlas_layer(int64_t sequence, int64_t hidden);

// algorithm-1, figure-2, figure-3, figure-11 and figure-12.
std::vector<Table> atlas_selection();

// figure-6, figure-11-gain and section-6.2: schedules, played.
std::vector<Table> atlas_schedules();

// testbed, utilisation and figure-2-simulated: replicas apart, simulated.
std::vector<Table> atlas_testbed();

// CrossPipe, of pipelines or replicas across two datacenters: figure-9. Of schedules across two and
// four: table-5, table-6, the latter also by family and with equal halves of a backward.
std::vector<Table> crosspipe();
std::vector<Table> crosspipe_schedules();

// DiLoCo's scaling laws, of the bandwidth that a utilisation needs: table-6-10b, table-6-405b and
// table-6-671b. docs/laws/diloco_utilisation.md.
std::vector<Table> diloco();

// Sailor, of iterations that its authors measured: grace-hopper and different-gpus. Its plans are jobs
// (examples/planning/sailor, docs/results/sailor.md).
std::vector<Table> sailor();

// BubbleTea, of Atlas' paper: utilisation, queueing, ttft-by-depth, memory and loading. Placement is
// measured instead, by bench/prefill_bench (docs/results/prefill.md). docs/laws/prefill_windows.md.
std::vector<Table> bubbletea();

// The rail-only paper, of domain size, bandwidth and batch (figures 9 to 11, sections 6.2 to 6.4)
// and of collectives on rails (appendices A and D).
//
// It leaves open what its search may choose and what "gain" divides by. We search with
// fastest_rail_only's defaults and state the reading in each row's name: figure 9 speaks of time
// saved, figure 10 of throughput won, and the other reading misses by up to ten points.
//
// Source: Wang et al., "How to Build Low-cost Networks for Large Language Models (without
// Sacrificing Performance)?", 2023. docs/laws/rail_only_search.md.
std::vector<Table> rail_only_figures();

// ASTRA-sim 2.0, of collectives and of memory pools: table-1-themis, table-3, table-4,
// remote-memory and speed.
//
// Table III and the comparison of wafers with conventional systems follow from the law
// `chunked-all-reduce`, the memory examples from the laws of pools; table IV leaves so much open
// that we state a scenario. The experiment on simulation speed is here for what it simulates; how
// long that takes is measured (docs/results/astra_sim.md).
//
// Source: Won et al. 2023, ASTRA-sim2.0: Modeling Hierarchical Networks and Disaggregated Systems
// for Large-model Training at Scale, sections III and IV. docs/laws/chunked_all_reduce.md and
// docs/laws/remote_memory.md.
std::vector<Table> astra_sim();

inline constexpr const char* kAstraSim = "Won et al. 2023, ASTRA-sim2.0, ";

// Of the same paper training end to end on table I's and table III's systems: wafer-figure-a,
// wafer-figure-b and validation. astra_sim_training.h. docs/laws/hierarchical_groups.md.
std::vector<Table> astra_sim_training();

// The rail-only paper, of traffic between GPUs (section 3).
//
// Its models and splits are those of Megatron-LM: Narayanan et al. 2021, table 1, the last four
// rows, in domains of eight; and GPT-1T on 16 GH200 of 256 GPUs. The paper gives bounds ("over 99
// %", "less than 0.04 %") for all four models at once; where one does not meet a bound, its row
// says so.
std::vector<Table> rail_only_traffic();

// DHelix: operators, baselines, gains, hidden communication, what each kind of overlap is worth.
// dhelix_settings.h says what was fitted to what. docs/laws/strands.md.
std::vector<Table> dhelix();

// DHelix: mixtures of experts.
std::vector<Table> dhelix_experts();

// DHelix: what is sent (table-1), and communication as a share of time.
std::vector<Table> dhelix_communication();

// What NVIDIA measured of the overlap of experts' communication: expert-overlap.
std::vector<Table> megatron_bridge();

// What DHelix is compared with: Intra-batch, and the bidirectional pipeline with two copies of the
// model, whose largest model is section 6.5's.
std::vector<Table> dhelix_baselines();

inline constexpr const char* kDhelix =
    "Wang et al. 2024, Hiding Communication Cost in Distributed LLM Training via Microbatch "
    "Co-execution (DHelix), revision of 2025-02-21, ";

// StellaTrain, of training over slow links: figures 2, 9, 10, 12 and 14, sections 5.1 and 5.3. Most
// of what it prints was measured by training; what follows from its table 2, from its laws or from
// its other figures is computed. docs/laws/tuning.md.
std::vector<Table> stellatrain();

// A claim where it holds, and a miss with its reason where it does not.
Row row_or_miss(Row row, const std::string& reason);

}  // namespace tombolo::reproduce
