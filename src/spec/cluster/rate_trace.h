// A rate that changes in steps and starts over at its end, and the exact integral over it.
//
// Between two steps the rate is constant, so the bytes that a link can carry are a piecewise-linear
// function of time, and the instant at which a byte has left is its inverse. Both are solved in
// closed form: no ticks, hence no error that adds up. Cost: O(log steps) per question.
//
//   time_s,rate_mbps          a CSV file; times ascend from 0, rates in 10^6 bits per second
//   0,193                     a rate of 0 is an outage
//   0.5,87.5                  the last step lasts as long as the one before it
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"

namespace tombolo::cluster {

class RateTrace {
 public:
  struct Step {
    SimDuration start;  // since the beginning of the trace
    BytesPerSecond rate;
    bool operator==(const Step&) const = default;
  };

  RateTrace() = default;  // empty: no trace
  // Unusable unless the first start is 0, starts ascend and end before `period`, rates are finite
  // and not negative, and their mean is at least 8 bits per second.
  static Result<RateTrace> make(std::vector<Step> steps, SimDuration period);

  bool empty() const { return steps_.empty(); }
  const std::vector<Step>& steps() const { return steps_; }
  SimDuration period() const { return period_; }
  RateTrace scaled(double factor) const;  // rates times factor, times unchanged

  // The rest needs a trace that is not empty, and instants counted from its beginning.
  BytesPerSecond mean() const;
  BytesPerSecond rate_at(SimDuration instant) const;
  BytesPerSecond highest() const;
  // The next instant with another rate; nothing if it never changes.
  std::optional<SimDuration> next_change(SimDuration instant) const;
  double bytes_between(SimDuration from, SimDuration to) const;
  // When the last of `bytes` has left if the first starts at `start`; to the nearest nanosecond.
  SimDuration finish(SimDuration start, double bytes) const;

  bool operator==(const RateTrace& other) const {
    return steps_ == other.steps_ && period_ == other.period_;
  }

 private:
  size_t step_at(SimDuration phase) const;
  double bytes_until(SimDuration phase) const;  // within one period

  std::vector<Step> steps_;
  std::vector<double> carried_;  // bytes before each step; then those of the whole period
  SimDuration period_;
};

// Reads the CSV text above; `file` is for messages, which blame its line.
Result<RateTrace> parse_rate_trace(std::string_view csv, const std::string& file);
Result<RateTrace> read_rate_trace(const std::string& path);
std::string to_csv(const RateTrace& trace);

}  // namespace tombolo::cluster
