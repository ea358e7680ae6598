#include "perform/kernels/messenger.h"

#include <algorithm>

#include "base/check.h"
#include "perform/kernels/emulated_kernels.h"
#include "perform/link/relay.h"
#include "spec/schedule/schedule.h"

namespace tombolo::kernels {
namespace {

constexpr uint64_t kPipeline = 0, kReplicas = 1, kEvaluation = 2;
constexpr uint64_t kClassShift = 30;  // room for kStagesMax x kGroupsMax groups below it

Error about_a_peer(Error error) {
  error.code = ErrorCode::kLostPeer;
  return error;
}

}  // namespace

Status EndpointMessenger::send(int32_t peer, link::Tag tag, link::Payload payload) {
  return endpoint_.send(peer, tag, std::move(payload), urgency_of(tag, order_))
      .map_error(about_a_peer);
}

Result<Messenger::Came> EndpointMessenger::receive_any(std::span<const Awaited> wanted) {
  return endpoint_.receive_any(wanted, kNever).map_error(about_a_peer);
}

uint64_t pipeline_tensor(const action::Action& message) {
  using action::ActionKind;
  const bool towards_next =
      message.kind == ActionKind::kSendActivation || message.kind == ActionKind::kReceiveGradient;
  const auto boundary = static_cast<uint64_t>(message.stage - (towards_next ? 0 : 1));
  const auto within = static_cast<uint64_t>(schedule::message_tag(message));
  CHECK(within < kTensorsPerBoundary && boundary < kStagesMax, "{} has no number",
        action::to_text(message));
  return boundary * kTensorsPerBoundary + within;
}

uint64_t group_tensor(int32_t stage, int32_t group, int64_t round) {
  const auto s = static_cast<uint64_t>(stage), g = static_cast<uint64_t>(group);
  CHECK(s < kStagesMax && g < kGroupsMax && static_cast<uint64_t>(round) < kRoundsMax,
        "round {} of group {} of stage {} has no number", round, group, stage);
  return kGroupTensor + ((s * kGroupsMax + g) * kRoundsMax + static_cast<uint64_t>(round));
}

// The iteration in the upper 32 bits, the class in two bits below it, then which group of
// parameters. Equal ones go in the order in which they were handed over.
link::Urgency urgency_of(link::Tag tag, plan::ExchangeOrder order) {
  if (link::is_share(tag)) tag = link::whole_tag(tag);
  const uint64_t of_class = tag.tensor >= kReplicaTensor      ? kReplicas
                            : tag.tensor >= kEvaluationTensor ? kEvaluation
                                                              : kPipeline;
  const bool of_group = tag.tensor >= kGroupTensor && tag.tensor < kWakeTensor;
  const bool first_come = order == plan::ExchangeOrder::kFirstCome;
  const uint64_t group = first_come ? 0 : (tag.tensor - kGroupTensor) / kRoundsMax;
  const uint64_t need = of_group ? 1 + group : 0;
  return std::min<uint64_t>(tag.iteration, UINT32_MAX) << 32 | of_class << kClassShift | need;
}

const char* class_of(link::Urgency urgency) {
  if (urgency == kPromptUrgency) return "prompts";
  const uint64_t of_class = (urgency & UINT32_MAX) >> kClassShift;
  return of_class == kReplicas ? "gradients" : of_class == kEvaluation ? "evaluation" : "pipeline";
}

link::LinkShape shape_between(const plan::Plan& plan, int32_t from, int32_t to, bool emulated_wan) {
  const plan::Channel channel = plan::channel_between(plan, from, to);
  link::LinkShape shape;
  if (channel.wan) {
    const cluster::WanLink* link =
        plan.cluster.link(plan.datacenter_of(from).name, plan.datacenter_of(to).name);
    shape.connections =
        static_cast<uint32_t>(std::min<int64_t>(link->connections, link::kConnectionsMax));
    if (emulated_wan) {
      shape.slow_network = true;
      const std::string& control = link->congestion_control;
      shape.tune_connections = link->connections_tuned;
      shape.tune_congestion_control =
          control == "auto" || (control.empty() && link->connections_tuned);
      if (!shape.tune_congestion_control) shape.congestion_control = control;
      return shape;
    }
  }
  shape.delay = round_to_ns(channel.latency);
  if (!channel.occupancy) {
    shape.rate = channel.rate / plan.run.byte_scale;
  } else if (channel.occupancy->value > 0) {
    shape.rate = Bytes{static_cast<double>(payload_bytes(plan))} / *channel.occupancy;
  }
  return shape;
}

SimTime arrival_due(const link::Received& message, const link::LinkShape& shape) {
  if (!shape.rate) return message.delivered;
  const Bytes size{static_cast<double>(message.payload.size())};
  return message.sent_start + shape.delay + round_to_ns(size / *shape.rate);
}

}  // namespace tombolo::kernels
