// Policies: which rank computes what in which order. Published laws by name, with their source.
//
// A policy orders computations (F, R, B, or I and W) of one pipeline, an order per position; what
// must be sent and received follows from them (passes.h). It sees the shape, and how long things
// take; most need the shape only. A new policy is one function here and one row in spec/layout/schedules.inc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "spec/schedule/player.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule {

// All forwards, then all backwards, both in microbatch order.
//
// With f per forward, b per backward, P stages, M microbatches, n WAN boundaries that a
// microbatch occupies for w: T = [P f + n w + (M-1) max(f,w)] + [P b + n w + (M-1) max(b,w)]
// (max only if n > 0). The paper draws backwards in reverse; with equal stage times any common
// order takes as long, and this one frees the first microbatch first. Every stage holds all M
// microbatches at its peak. docs/laws/gpipe.md.
// Source: Huang et al., "GPipe", NeurIPS 2019, figure 2c.
std::vector<RankActions> gpipe(const PipelineShape& shape, const Times& times);

// Warm-up with as many forwards as stages follow, then one forward and one backward in turn, then
// the remaining backwards.
//
// T = (M+P-1)(f+b) where transfers are free. Stage s holds at most min(M, P-s) microbatches.
// docs/laws/one_forward_one_backward.md.
// Source: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021
// (PipeDream-Flush), as in Megatron-LM.
std::vector<RankActions> one_forward_one_backward(const PipelineShape& shape, const Times& times);

// 1F1B over v chunks per rank, in groups of P microbatches: the group passes chunk after chunk.
//
// T = (M v + P-1)(f+b)/v, i.e. the bubble is (P-1)/v of f+b, for M a multiple of P; v times the
// messages. Rank r holds at most 2 (P-1-r) + (v-1) P + 1 chunks. docs/laws/interleaved.md.
// Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", SC 2021, section 2.2.2.
std::vector<RankActions> interleaved(const PipelineShape& shape, const Times& times);

// By rules in time: a backward whose gradient is there goes first, then a recomputation that ends
// no earlier than its gradient is due (just in time, and then nothing until that backward), then
// forwards. No limit on forwards: stages keep the inputs of all M microbatches where they
// recompute. docs/laws/varuna.md.
// Source: Athlur et al., "Varuna: Scalable, Low-cost Training of Massive Deep Learning Models",
// EuroSys 2022, section 3.2.
Rules varuna_rules(const PipelineShape& shape, const Times& times, layout::Discipline discipline);

// A DP-cell at a time, its pipelines sharing the WAN in time: the cell's discipline (player.h), and
// recomputation just in time at lower priority than forwards. With `released` it makes figure 6 of
// the paper: 36 slots, where Varuna takes 38. docs/laws/atlas.md.
// Source: Palak et al., "Improving training time and GPU utilization in geo-distributed language
// model training" (Atlas), 2024, section 4.4.
Rules atlas_rules(const PipelineShape& shape, const Times& times, layout::Discipline discipline);

// 1F1B with backwards in halves: weights' halves fill what 1F1B leaves idle.
//
// The bubble is (P-1)(f+I-W), a third of 1F1B's where f = I = W. Every stage holds at most P
// microbatches, as 1F1B's first. docs/laws/zero_bubble.md.
// Source: Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.
std::vector<RankActions> zb_h1(const PipelineShape& shape, const Times& times);

// The model folded once: no rank idles between its first forward and its last weight half where
// f = I = W and M >= 2P-1. At most 2P chunks, i.e. P microbatches, per rank; 2P-2 boundaries.
// docs/laws/zero_bubble.md.
// Source: Qi, Wan, Nie, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS 2024.
std::vector<RankActions> zb_v(const PipelineShape& shape, const Times& times);

// The model folded once, and the forward of microbatch i + P paired with the backward of i on every
// rank: DHelix' W, whose pairs a plan of operators may overlap. With f and b of a rank's layers the
// bubble is (P-1) max(f, b) for M >= P. docs/laws/w_shape.md.
// Source: Wang et al., "Hiding Communication Cost in Distributed LLM Training via Microbatch
// Co-execution" (DHelix), 2024, section 4.1 and figure 8.
// With pairs of F&B each: T = 2 (M - 1) F&B + 2 P (f + b), here in times of a chunk, M >= 2P.
std::vector<RankActions> w_shape(const PipelineShape& shape, const Times& times);
std::vector<std::vector<Pair>> w_shape_pairs(const PipelineShape& shape);

// The model folded once; forwards of one chunk paired with backwards of the other, weights' halves
// put off at the end. The published bubble is (P-1)(F&B + B - 3 W) in times of a chunk, F&B that of
// a pair; with pairs one after the other it is (P-1)(f + i - w) for f >= i >= w. At most 2P + 1
// chunks. docs/laws/dualpipe_v.md. Source: DeepSeek-AI, "DualPipe", github.com/deepseek-ai/DualPipe
// (dualpipev.py), 2025.
std::vector<RankActions> dualpipe_v(const PipelineShape& shape, const Times& times);
std::vector<std::vector<Pair>> dualpipe_v_pairs(const PipelineShape& shape);

// How the schedule of one row of spec/layout/schedules.inc is made.
struct Policy {
  // One of the two: an order per position, or rules for the player, which needs to know times.
  std::vector<RankActions> (*order_compute)(const PipelineShape& shape,
                                            const Times& times) = nullptr;
  // Of an order per position: which neighbours the law co-executes, where the shape has pairs.
  std::vector<std::vector<Pair>> (*pairs)(const PipelineShape& shape) = nullptr;
  Rules (*rules)(const PipelineShape& shape, const Times& times,
                 layout::Discipline discipline) = nullptr;
};
const Policy& policy_of(layout::ScheduleKind kind);

// Appends B of a microbatch, and R before it where the stage recomputes: R waits for the gradient
// like B does, as torch's checkpointing runs the forward again inside the backward.
void append_backward(const PipelineShape& shape, int32_t stage, int32_t microbatch,
                     RankActions& order);

// Appends a forward and a backward that a policy pairs. Where the shape has pairs a recomputation
// comes before both, and they are added to `pairs`; else behind the forward.
void append_pair(const PipelineShape& shape, const action::Action& forward, int32_t backward_stage,
                 int32_t microbatch, RankActions& order, std::vector<Pair>& pairs);

// Appends I of a microbatch, and R before it where the stage recomputes.
void append_backward_input(const PipelineShape& shape, int32_t stage, int32_t microbatch,
                           RankActions& order);

}  // namespace tombolo::schedule
