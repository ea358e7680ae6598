// All directed links between the hosts of a scenario, as one state machine in virtual time.
//
//   offer -> queue and rate of the host pair -> queue and rate that all pairs of the two
//   datacenters share (where path_rate is given) -> loss -> delay and jitter, order kept -> arrive
//
// No clock, no sockets: the owner passes instants, and they do not go back. What leaves the first
// stage enters the second in the order of virtual instants, so the result depends on when frames
// were offered, and not on when or how often the owner asked for arrivals.
//
// Laws: docs/laws/wan_link.md. Cost: O(log links) per piece of a frame.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "lab/wanem/impairment.h"
#include "lab/wanem/scenario.h"
#include "lab/wanem/serialiser.h"

namespace tombolo::wanem {

class Wan {
 public:
  struct Host {
    std::string name;  // names the streams of chance of its links
    int datacenter = 0;
  };
  enum class Fate { kDroppedByQueue, kDroppedByLoss };
  using OnDrop = std::function<void(int from, int to, const Cargo&, Fate)>;
  struct Arrival {
    int from, to;  // hosts
    Cargo cargo;
    SimTime due;
  };

  // CHECKs the scenario. Rate traces begin at `start`.
  Wan(std::vector<Host> hosts, const Scenario& scenario, SimTime start, uint64_t seed,
      OnDrop on_drop);
  ~Wan();

  bool connects(int from, int to) const;  // hosts, of datacenters between which there is a link
  // How much one TCP connection between the two hosts may have in flight; nothing: no bound.
  std::optional<Bytes> tcp_window(int from, int to) const;
  // Every segment of the cargo will arrive or be dropped. CHECKs that the hosts are connected.
  void offer(SimTime now, int from, int to, const Cargo& cargo);
  // The next piece due at or before `now`, in the order of due instants.
  std::optional<Arrival> arrive(SimTime now);
  // The earliest instant at which arrive() may have something; nothing while the WAN is empty.
  std::optional<SimTime> next() const;
  // New conditions for what is offered from `now` on. What is inside arrives as it would have,
  // except that it passes a shared rate still ahead at the new rate; and nothing overtakes it.
  void reload(SimTime now, const Scenario& scenario);

  uint64_t segments_inside() const;

 private:
  struct Path;
  struct Link;
  struct Event {
    SimTime at;
    int link;
    bool operator>(const Event& o) const { return at != o.at ? at > o.at : link > o.link; }
  };
  using Events = std::priority_queue<Event, std::vector<Event>, std::greater<>>;

  Path& path(int from, int to) const;
  Link& link(int index);
  void shape(SimTime now, Link& link);
  void settle(SimTime now);
  Cargo admit(SimTime now, Link& link, const Serialiser& stage, Cargo cargo);
  void pass_first_stage(SimTime now, Link& link, Cargo cargo);
  void pass_last_stage(SimTime now, Link& link, Serialiser& stage, Cargo cargo);

  std::vector<Host> hosts_;
  int datacenters_ = 0;
  SimTime start_;
  SimTime now_;  // the latest instant
  Random random_;
  uint64_t generation_ = 0;  // of the scenario: draws its own losses
  OnDrop on_drop_;
  std::vector<std::unique_ptr<Path>> paths_;  // [from * datacenters_ + to], null: none
  std::vector<std::unique_ptr<Link>> links_;  // [from * hosts + to], made when first used
  Events leaving_;                            // of each link's head before the shared stage
  Events arriving_;                           // of each link's head in the delay line
};

}  // namespace tombolo::wanem
