// The forwarding thread: carries packets between the TUN devices of the hosts as the WAN would.
//
// Each host has a TUN device, through which the kernel hands over what the host sends. One thread
// reads them all, lets every frame pass its link in virtual time (wan.h), sleeps until the next one
// is due and writes it to the destination's device. Both ends are ordinary kernel TCP.
//
// Cheap because frames are large: with offloads enabled the kernel hands over up to 64 KiB of TCP
// at once, about 44 segments of 1500 bytes, and takes them in the same way. Queues and losses act
// on single segments nevertheless: packet.h cuts a frame around what was dropped.
//
// The counters say how late the thread was against virtual time. Lateness does not slow a
// link down nor add up, but a figure measured while it was large means little.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/wanem/scenario.h"

namespace tombolo::wanem {

// One host. The descriptor stays the caller's and must outlive the Forwarder.
struct Port {
  int tun_fd = -1;       // non-blocking; IFF_TUN | IFF_NO_PI | IFF_VNET_HDR
  uint32_t address = 0;  // IPv4, in host byte order
  int datacenter = 0;    // index in Scenario::datacenters
  std::string name;      // "oregon-0", for counters and messages
};

// Tells a TUN device to hand over and accept TCP/IPv4 frames of up to 64 KiB with checksums left
// to the receiver. Call once after TUNSETIFF.
Status enable_offloads(int tun_fd);

struct ForwarderOptions {
  int realtime_priority = 0;  // 1 to 99: SCHED_FIFO where allowed; 0: an ordinary thread
  uint64_t seed = 1;          // of losses and jitter
};

// What one direction between two hosts has seen. Segments are those of frames from the kernel;
// every one is delivered, dropped or still on its way.
struct LinkCounters {
  std::string from, to;  // names of hosts
  uint64_t frames = 0;   // as the kernel handed them over
  uint64_t segments = 0;
  uint64_t bytes = 0;               // of IP packets, headers included
  uint64_t segments_delivered = 0;  // written to the destination's device
  uint64_t bytes_delivered = 0;
  uint64_t dropped_by_queue = 0;  // segments
  uint64_t dropped_by_loss = 0;
  uint64_t writes_failed = 0;  // frames that the destination's device refused: it is down or gone
  SimDuration lateness_p50, lateness_p99,
      lateness_max;  // of deliveries; within 13 % above the true

  std::string brief() const;  // one line
};

// What the thread as a whole has seen.
struct ForwarderReport {
  bool realtime = false;          // whether SCHED_FIFO was asked for and granted
  Seconds cpu;                    // of the thread, the kernel's work on its behalf included
  uint64_t frames_foreign = 0;    // not IPv4, or to no host: dropped
  uint64_t frames_broken = 0;     // headers that contradict their length: dropped
  std::vector<std::string> lost;  // ports whose device is gone

  std::string brief() const;
};

class Forwarder {
 public:
  // Unusable if a port or the scenario is not valid.
  static Result<std::unique_ptr<Forwarder>> start(std::vector<Port> ports, const Scenario& scenario,
                                                  const ForwarderOptions& options);
  virtual ~Forwarder() = default;  // stops the thread; what is on its way is lost

  // New conditions, on the same datacenters, for frames that come from now on; those on their way
  // arrive as they would have. A direction that is left out has no link. In force when it returns.
  virtual Status reload(const Scenario& scenario) = 0;

  // Of the directions that carried anything, in the order of ports.
  virtual std::vector<LinkCounters> counters() const = 0;
  virtual ForwarderReport report() const = 0;
};

}  // namespace tombolo::wanem
