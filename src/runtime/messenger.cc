#include "runtime/messenger.h"

#include "runtime/emulated_kernels.h"

namespace tombolo::runtime {
namespace {

Error about_a_peer(Error error) {
  error.code = ErrorCode::kLostPeer;
  return error;
}

}  // namespace

Status EndpointMessenger::send(int32_t peer, transport::Tag tag, transport::Payload payload) {
  return endpoint_.send(peer, tag, std::move(payload)).map_error(about_a_peer);
}

Result<transport::Received> EndpointMessenger::receive(int32_t peer, transport::Tag tag) {
  return endpoint_.receive(peer, tag, kNever).map_error(about_a_peer);
}

transport::LinkShape shape_between(const plan::Plan& plan, int32_t from, int32_t to,
                                   bool emulated_wan) {
  const plan::Channel channel = plan::channel_between(plan, from, to);
  if (channel.wan && emulated_wan) return {.slow_network = true};
  transport::LinkShape shape{.delay = round_to_ns(channel.latency)};
  if (!channel.occupancy) {
    shape.rate = channel.rate / plan.run.byte_scale;
  } else if (channel.occupancy->value > 0) {
    shape.rate = Bytes{static_cast<double>(payload_bytes(plan))} / *channel.occupancy;
  }
  return shape;
}

SimTime arrival_due(const transport::Received& message, const transport::LinkShape& shape) {
  if (!shape.rate) return message.delivered;
  const Bytes size{static_cast<double>(message.payload.size())};
  return message.sent_start + shape.delay + round_to_ns(size / *shape.rate);
}

}  // namespace tombolo::runtime
