// The two strands of a layer: its forward pass and its backward pass as operators.
//
// Of a dense layer with tensor and sequence parallelism, <- waits for, L on a link:
//
//   forward   LN1; AG1<-LN1 L; QKV<-AG1; FA<-QKV; PROJ<-FA; RS1<-PROJ L; BDA1<-RS1; LN2<-BDA1;
//             AG2<-LN2 L; FC1<-AG2; ACT<-FC1; FC2<-ACT; RS2<-FC2 L; BDA2<-RS2
//   backward  bBDA2; bAG2<-bBDA2 L; FC2d<-bAG2; FC2w<-bAG2; bACT<-FC2d; FC1d<-bACT; FC1w<-bACT;
//             bRS2<-FC1d L; bLN2<-bRS2; bBDA1<-bLN2; bAG1<-bBDA1 L; PROJd<-bAG1; PROJw<-bAG1;
//             bFA<-PROJd; QKVd<-bFA; QKVw<-bFA; bRS1<-QKVd L; bLN1<-bRS1
//
// BDA is bias, dropout and addition to the residual; `d` the gradient of an input, `w` of weights.
// These are the 14 and 18 operators of Wang et al. 2024 (DHelix), section 4.2. With context
// parallelism c attention falls into c pieces: FAi waits for FA(i-1) and for the keys and values
// that Pi brings, of which there are c - 1 forward and c backward (keys; keys and their gradients;
// at the end gradients alone). Experts: the router, permutation, two exchanges, group products.
//
// `tombolo train` (LayerShape::as_trained; train/layer_steps.h has the list) gathers tokens of a tensor group before the
// router and sums the group's results after all else, and leaves out of a recomputation what no operator reads: the
// last product, sum and residual of a layer.
//
// Frameworks already hide some of this, and so does one strand alone here: keys travel during
// attention; Megatron-LM gathers an input again during the gradient of the other, and scatters the
// gradient of an input during that of the weights. These operators are asynchronous.
//
// Where the law prices several of these as one, its time is cut: norms and residuals into four
// equal parts, casts to 8 bits between the norms, copies of tokens into both permutations. The sum
// is the law's.
#pragma once

#include "predict/cost/configuration.h"
#include "predict/cost/layer_time.h"
#include "predict/strand/dag.h"

namespace tombolo::strand {

struct LayerShape {
  bool tensor = false;             // tensor parallelism at all
  bool sequence_parallel = false;  // gathers and scatters instead of sums
  int64_t context = 1;             // pieces of attention
  bool exchange = false;           // experts lie on several devices
  // Megatron-LM keeps sequence-parallel inputs of QKV and FC1 scattered, and gathers them again for
  // the gradients of weights: two operators more.
  bool gather_again = false;
  bool as_trained = false;
  bool norm_after = false;   // after the MLP or experts: reads what they made
  bool shared_gate = false;  // on the expert that every token visits: likewise
  Stream tensor_stream = Stream::kLocal;
  Stream context_stream = Stream::kCross;
  Stream expert_stream = Stream::kCross;
};

// Where a layout sends what: groups that stay inside a domain use its links.
LayerShape shape_of(const cost::Configuration& configuration, const cost::GroupPlacement& layout,
                    bool gather_again);

struct LayerStrands {
  Dag forward;
  Dag backward;  // recomputation before it, where there is some
};
// CHECKs that a strand has room for them: operator_counts says.
LayerStrands layer_strands(const LayerShape& shape, const cost::LayerOperators& times);

// How many operators the two strands would have, whatever a strand has room for.
struct OperatorCounts {
  int64_t forward = 0;
  int64_t backward = 0;
};
OperatorCounts operator_counts(const LayerShape& shape, const cost::LayerOperators& times);

}  // namespace tombolo::strand
