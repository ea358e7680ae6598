// Messenger: how a rank's bytes reach the others. Over an Endpoint, or in a test over anything
// else.
#pragma once

#include "plan/plan.h"
#include "transport/endpoint.h"

namespace tombolo::runtime {

// No deadline: a receive ends when the message comes or the peer is lost.
inline constexpr SimTime kNever{INT64_MAX};

// Tensor numbers from here on belong to Kernels, for what replicas say to each other; the runtime's
// own, of micro-batches and evaluation, lie below.
inline constexpr uint64_t kReplicaTensor = uint64_t{1} << 42;

class Messenger {
 public:
  virtual ~Messenger() = default;
  virtual Status send(int32_t peer, transport::Tag tag, transport::Payload payload) = 0;
  virtual Result<transport::Received> receive(int32_t peer, transport::Tag tag) = 0;
};

// The errors of an Endpoint are about peers, whatever their wording: all become kLostPeer, so that
// the launcher can tell a rank's own trouble from that of its neighbours.
class EndpointMessenger : public Messenger {
 public:
  explicit EndpointMessenger(transport::Endpoint& endpoint) : endpoint_(endpoint) {}
  Status send(int32_t peer, transport::Tag tag, transport::Payload payload) override;
  Result<transport::Received> receive(int32_t peer, transport::Tag tag) override;

 private:
  transport::Endpoint& endpoint_;
};

// The shape that makes loopback feel like the Plan's channel: its rate divided by run.byte_scale,
// as the payloads are, its delay as it is. Where [stage_times] gives an
// occupancy instead of a rate, the rate is what makes a payload of payload_bytes(plan) last that
// long.
//
// emulated_wan: this is an emulated island (cluster/islands.h), where a WAN channel is a real TCP
// connection over the emulator, and gets no shape on top. Inside a datacenter nothing changes.
transport::LinkShape shape_between(const plan::Plan& plan, int32_t from, int32_t to,
                                   bool emulated_wan = false);

// When a message was to be there on a link of this shape: on a paced link so long after its first
// byte left as the law says, elsewhere when it came.
SimTime arrival_due(const transport::Received& message, const transport::LinkShape& shape);

}  // namespace tombolo::runtime
