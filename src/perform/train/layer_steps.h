// A layer's passes as operators, by name: which there are, and what each waits for.
//
// Those of Wang et al. 2024 (DHelix), section 4.2, as `tombolo strand` plans them (predict/strand/layer_strands.h, which
// no performer includes; a test compares the two):
//
//   forward   LN1; AG1; QKV; FA; PROJ; RS1; BDA1; LN2; AG2; FC1; ACT; FC2; RS2; BDA2, each after the one before
//   backward  bBDA2; bAG2; FC2d; bACT; FC1d; bRS2; bLN2; bBDA1; bAG1; PROJd; bFA; QKVd; bRS1; bLN1, likewise,
//             and FC2w, FC1w, PROJw, QKVw: gradients of weights, as soon as what they multiply is there
//
// AG and RS are collectives of a tensor group with sequence parallelism. Without it RS is a sum, named AR, and there
// are no AG, of which the backward passes are sums instead: bAR2 and bAR1 in the places of bRS2 and bRS1.
//
// A mixture of experts has, in the place of FC1, ACT and FC2:
//
//   forward   ROUTER; PERMUTE; A2A1; EFC1; EACT; EFC2; A2A2; UNPERMUTE
//   backward  bUNPERMUTE; bA2A2; EFC2d; bEACT; EFC1d; bA2A1; bPERMUTE; ROUTERd, and EFC2w, EFC1w, ROUTERw
//
// and, where every token visits one more expert, SFC1; SACT; SFC2 and their backward passes in parallel to all of these.
// A2A are exchanges with other ranks, where these have some of the experts.
//
// Activations that are computed a second time are operators of the backward pass, before the others: rLN1, rQKV and so
// on, without those at the end whose outputs are not read again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tombolo::train {

enum class LayerOperator : uint8_t {
  kLn1,  // what attention reads, normalised
  kAg1,
  kQkv,
  kFa,  // norms of heads, rotation, attention; with context parallelism its collectives too
  kProj,
  kRs1,
  kBda1,  // bias, norm after attention, residual
  kLn2,
  kAg2,
  kFc1,  // up and gate
  kAct,
  kFc2,
  kRouter,
  kPermute,  // which token goes where, and copies of tokens in the order of experts
  kA2a1,
  kExpertFc1,
  kExpertAct,
  kExpertFc2,
  kA2a2,
  kUnpermute,  // weighted sums
  kSharedFc1,  // up, gate, and the gate on the whole expert
  kSharedAct,
  kSharedFc2,
  kRs2,
  kBda2,
  // backward
  kBackBda2,
  kBackAg2,
  kFc2Input,
  kFc2Weights,
  kBackAct,
  kAgainAg2,
  kFc1Input,
  kFc1Weights,
  kBackUnpermute,
  kBackA2a2,
  kExpertFc2Input,
  kExpertFc2Weights,
  kBackExpertAct,
  kExpertFc1Input,
  kExpertFc1Weights,
  kBackA2a1,
  kBackPermute,
  kRouterInput,
  kRouterWeights,
  kSharedFc2Input,
  kSharedFc2Weights,
  kBackSharedAct,
  kSharedFc1Input,
  kSharedFc1Weights,
  kBackRs2,
  kBackLn2,
  kBackBda1,
  kBackAg1,
  kProjInput,
  kProjWeights,
  kBackFa,
  kAgainAg1,
  kQkvInput,
  kQkvWeights,
  kBackRs1,
  kBackLn1
};

// What a tensor group does around products.
enum class Meeting : uint8_t {
  kNone,  // a group of one
  kSums,
  kRows  // sequence parallelism
};

// Which operators a layer has.
struct LayerForm {
  Meeting meeting = Meeting::kNone;
  // Inputs of QKV and FC1 are kept scattered, and gathered once more for the gradients of their weights (gAG1, gAG2),
  // as Megatron-LM does. With rows alone.
  bool gather_again = false;
  bool experts = false;
  bool exchange = false;     // of experts: other ranks have some
  bool shared = false;       // an expert that every token visits
  bool shared_gate = false;  // with a gate on it
  bool norm_after = false;   // after the MLP or experts: reads what they made
  bool again = false;        // activations are computed a second time
};

struct LayerStep {
  LayerOperator op;
  std::string name;
  std::vector<size_t> after = {};  // earlier ones of the same pass
  bool communicates = false;
  bool async = false;   // frameworks compute gradients of weights during it
  bool across = false;  // between ranks, where it communicates
};

std::vector<LayerStep> forward_steps(const LayerForm& form);
std::vector<LayerStep> backward_steps(const LayerForm& form);

}  // namespace tombolo::train
