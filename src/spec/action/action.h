// Actions: the words in which schedules, timelines and traces speak of one piece of work.
//
// Text form is the notation of torchtitan's pipeline schedules: stage, kind, microbatch, as in "0F1"
// (stage 0, forward, microbatch 1), "1B0", "0I1", "0W1", "0SEND_F1", "1RECV_F1", "1SEND_B0",
// "0RECV_B0". A rank that holds several stages has actions of each.
// Kinds that belong to no microbatch leave it out: "0REDUCE_GRAD" (of stage 0, among its replicas),
// "0SUM_TIED" (gradients of a matrix that the first and the last stage both hold, sent by stage 0 to
// the last one; no schedule orders it, as it comes before the first update), "0U" (its optimizer
// update), "0E" (evaluation), "0PROMPT" (a layer of a served prompt, while the rank of stage 0
// waited: no part of training, and no schedule orders it either).
//
// The time that a pass's collectives keep the device waiting is shown by the simulator as intervals
// of their own, right after the pass's computation: TP, CP, EP, DP, the names of Megatron's groups.
//
// A node of a Chakra graph, which no Plan knows, is a NODE; its name is stored separately (trace.h).
// Of a collective's chunk in a dimension of a network, "1NODE3" is chunk 3 in dimension 1.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/result.h"

namespace tombolo::action {

enum class ActionKind {
  kForward,          // F
  kBackward,         // B: gradients of inputs and weights
  kBackwardInput,    // I: gradients of inputs only, where the two are separate
  kBackwardWeight,   // W: gradients of weights only, after I
  kRecompute,        // R: forward again, because activations were not kept
  kReduceGradients,  // REDUCE_GRAD: all replicas of the stage sum their weight gradients
  kSumTied,     // SUM_TIED: gradients of a tied embedding, from an end of a pipeline to the other
  kUpdate,      // U: optimizer step
  kEvaluate,    // E: forward on held-out data, outside of an iteration
  kCheckpoint,  // C: writing a checkpoint, outside of an iteration
  kPrompt,      // PROMPT: a layer of a prompt, in a gap of training
  kNode,        // NODE: of a Chakra graph, in a run without a Plan
  kTensorCommunication,   // TP: inside a pass, of a layer's shards
  kContextCommunication,  // CP: keys and values
  kExpertCommunication,   // EP: tokens to their experts and back
  kDataCommunication,     // DP: parameters and gradients of ZeRO 3
  kSendActivation,        // SEND_F: to the next stage
  kReceiveActivation,     // RECV_F
  kSendGradient,          // SEND_B: to the previous stage
  kReceiveGradient,       // RECV_B
};

constexpr auto enum_names(ActionKind) {
  using enum ActionKind;
  return std::to_array<EnumName<ActionKind>>({{kForward, "F"},
                                              {kBackward, "B"},
                                              {kBackwardInput, "I"},
                                              {kBackwardWeight, "W"},
                                              {kRecompute, "R"},
                                              {kReduceGradients, "REDUCE_GRAD"},
                                              {kSumTied, "SUM_TIED"},
                                              {kUpdate, "U"},
                                              {kEvaluate, "E"},
                                              {kCheckpoint, "C"},
                                              {kPrompt, "PROMPT"},
                                              {kNode, "NODE"},
                                              {kTensorCommunication, "TP"},
                                              {kContextCommunication, "CP"},
                                              {kExpertCommunication, "EP"},
                                              {kDataCommunication, "DP"},
                                              {kSendActivation, "SEND_F"},
                                              {kReceiveActivation, "RECV_F"},
                                              {kSendGradient, "SEND_B"},
                                              {kReceiveGradient, "RECV_B"}});
}

struct Action {
  ActionKind kind = ActionKind::kForward;
  int32_t stage = 0;
  int32_t microbatch = -1;  // -1: belongs to no microbatch

  auto operator<=>(const Action&) const = default;
};

// What a schedule does not order: part of a computation that it does order.
constexpr bool is_inside_a_pass(ActionKind kind) {
  return kind >= ActionKind::kTensorCommunication && kind <= ActionKind::kDataCommunication;
}
constexpr bool is_communication(ActionKind kind) { return kind >= ActionKind::kSendActivation; }
constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::kSendActivation || kind == ActionKind::kSendGradient;
}
constexpr bool is_receive(ActionKind kind) { return is_communication(kind) && !is_send(kind); }
// Whether the other end of a message is the next stage, or else the one before.
constexpr bool towards_next(ActionKind kind) {
  return kind == ActionKind::kSendActivation || kind == ActionKind::kReceiveGradient;
}
// The boundary between two stages that a message crosses: number s lies between s and s + 1.
constexpr int32_t boundary_of(const Action& message) {
  return message.stage - (towards_next(message.kind) ? 0 : 1);
}

std::string to_text(const Action& action);
Result<Action> parse_action(std::string_view text);

}  // namespace tombolo::action
