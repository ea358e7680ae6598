// How many connections of a link should pull, and with which congestion control: found by trying.
//
// No formula knows: a clean path is filled by one connection, a lossy one by BBR or by many, and
// too many BBR connections over one bottleneck lose packets all the time. So the tuner visits pairs
// ("arms"), measures what the peer's kernel received, and stays with the best:
//
//   visit    8 round trips to settle (12 the first time), 6 to measure; longer while the rate still
//            grows, shorter where it is hopeless (below 0.7 of the best)
//   explore  every congestion control with the connections there are now; then half and twice as
//            many of the best one, and on from there while it pays
//   settle   on the arm of the highest rate. Of those within 2 % of it on the one with the shortest
//            round trip (which is queue: what is urgent waits there), if it is shorter by a fifth;
//            then on the fewest connections.
//   watch    windows of 10 round trips. Three in a row (two that are a quarter below) that are
//            10 % below what was expected, or 8 % below another arm, or a quarter above: the path
//            changed, explore again. An exploration that ends where it began is followed by a
//            pause, which doubles each time, from 10 s to 10 minutes; else the pause is halved.
//
// Only BBR keeps its rate behind losses. So what another had while segments were lost counts 5 %
// less: on a lossy path it is about to fall, on a clean one BBR does as well.
//
// A pure state machine: time comes with the samples, and only time with something to send counts.
// Exploring costs at most a visit per arm of about 14 round trips, mostly 4 to 6 of 10 arms. A
// congestion control that turned out worse than its visit promised (cubic lives on BBR's window for
// a while) is believed less the next time, and not visited below 0.7 of trust; a tenth of what it
// lost is forgiven with every exploration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/units.h"

namespace tombolo::link {

struct LinkChoice {
  uint32_t connections = 1;
  std::string congestion_control;  // empty: whatever the connections have
  bool operator==(const LinkChoice&) const = default;
};
std::string text(const LinkChoice& choice);  // "4 connections, bbr"

class LinkTuner {
 public:
  struct Options {
    std::vector<uint32_t> connections = {1, 2, 4, 8, 16};  // ascending
    // In the order of the first visits. Cubic before BBR: what begins with a small window cannot
    // live on another's.
    std::vector<std::string> congestion_controls = {"cubic", "bbr"};
    uint32_t connections_first = 8;  // the nearest of `connections` is where it begins
  };
  // What all connections together have done, ever.
  struct Sample {
    SimTime at;
    uint64_t delivered = 0;      // bytes
    uint64_t retransmitted = 0;  // segments
    Seconds round_trip;          // mean of those that pull
  };

  explicit LinkTuner(Options options);

  // There has been something to send since the last sample or pause. True: choice() is another one.
  bool sample(const Sample& sample);
  // There is nothing to send; the time until the next sample does not count.
  void pause() { last_.reset(); }

  const LinkChoice& choice() const { return arms_[current_].choice; }
  bool exploring() const { return phase_ != Phase::kWatching; }
  int changes() const { return changes_; }  // of the choice, ever
  // Why this choice, for people: "4 connections, bbr: 912 Mbps. Tried: ...".
  std::string reason() const;

 private:
  static constexpr Seconds kUnknown{1e9};
  enum class Phase { kSettling, kMeasuring, kWatching };
  struct Arm {
    LinkChoice choice;
    bool seen = false;  // in this exploration
    BytesPerSecond rate;
    Seconds round_trip;
    double trust = 1;  // what it kept of what a visit promised
  };
  // A stretch of busy time.
  struct Span {
    Seconds time;
    double bytes = 0;
    uint64_t retransmits = 0;
    double round_trips = 0;  // summed over time
    BytesPerSecond rate() const { return Bytes{bytes} / time; }
  };

  size_t arm(uint32_t connections, const std::string& control) const;
  size_t nearest(uint32_t connections) const;
  Seconds settle_time() const;
  Seconds measure_time() const;
  std::optional<size_t> next_visit() const;
  size_t best() const;
  void visit(size_t arm);
  bool go_on();  // the visit is over
  bool measure();
  bool watch();
  void explore_again(std::string why);
  void judge_the_fallen(BytesPerSecond best);
  BytesPerSecond best_other() const;

  Options options_;
  std::vector<Arm> arms_;
  size_t current_ = 0;
  size_t start_ = 0;  // where this exploration began
  Phase phase_ = Phase::kSettling;
  std::optional<Sample> last_;
  Seconds busy_;     // in all
  Span span_;        // of this visit or window
  Span first_half_;  // of this measurement
  int extensions_ = 0;
  Seconds round_trip_ = kUnknown;  // the shortest of this exploration
  bool first_visit_ = true;
  int low_ = 0, high_ = 0;                   // windows in a row
  Seconds pause_;                            // between explorations
  Seconds explored_at_;                      // busy_ when the last one ended
  std::optional<BytesPerSecond> fell_from_;  // what the arm had that made us explore again
  int changes_ = 0;
  std::string why_again_;
};

}  // namespace tombolo::link
