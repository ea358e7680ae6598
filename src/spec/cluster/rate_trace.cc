#include "spec/cluster/rate_trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/file.h"

namespace tombolo::cluster {
namespace {

constexpr double kMbps = 125e3;  // bytes per second
constexpr double kDays = 30 * 86400.0;

double bytes_in(BytesPerSecond rate, SimDuration time) { return rate.value * seconds(time).value; }

}  // namespace

Result<RateTrace> RateTrace::make(std::vector<Step> steps, SimDuration period) {
  if (steps.empty()) return unusable("a rate trace without steps");
  if (steps[0].start.ns != 0) return unusable("the first step of a rate trace must start at 0");
  RateTrace trace;
  trace.period_ = period;
  trace.carried_.push_back(0);
  for (size_t i = 0; i < steps.size(); ++i) {
    const SimDuration end = i + 1 < steps.size() ? steps[i + 1].start : period;
    if (end <= steps[i].start) return unusable("the times of a rate trace must ascend");
    if (!std::isfinite(steps[i].rate.value) || steps[i].rate.value < 0) {
      return unusable(fmt::format("step {} of a rate trace has a rate that cannot be", i));
    }
    trace.carried_.push_back(trace.carried_.back() + bytes_in(steps[i].rate, end - steps[i].start));
  }
  // Also keeps every finish() within the nanoseconds that an integer can count.
  if (trace.carried_.back() < seconds(period).value) {
    return unusable("less than 8 bits per second flow on average in this rate trace");
  }
  trace.steps_ = std::move(steps);
  return trace;
}

BytesPerSecond RateTrace::mean() const {
  CHECK(!empty(), "the mean of no rate");
  return Bytes{carried_.back()} / seconds(period_);
}

RateTrace RateTrace::scaled(double factor) const {
  CHECK(factor >= 0 && std::isfinite(factor), "rates times {}", factor);
  RateTrace out = *this;
  for (Step& step : out.steps_) step.rate = step.rate * factor;
  for (double& bytes : out.carried_) bytes *= factor;
  return out;
}

size_t RateTrace::step_at(SimDuration phase) const {
  const auto after = std::upper_bound(steps_.begin(), steps_.end(), phase,
                                      [](SimDuration p, const Step& s) { return p < s.start; });
  return static_cast<size_t>(after - steps_.begin()) - 1;
}

double RateTrace::bytes_until(SimDuration phase) const {
  const size_t i = step_at(phase);
  return carried_[i] + bytes_in(steps_[i].rate, phase - steps_[i].start);
}

BytesPerSecond RateTrace::rate_at(SimDuration instant) const {
  CHECK(!empty() && instant.ns >= 0, "no rate at {} ns", instant.ns);
  return steps_[step_at({instant.ns % period_.ns})].rate;
}

BytesPerSecond RateTrace::highest() const {
  CHECK(!empty(), "the highest of no rate");
  BytesPerSecond out;
  for (const Step& step : steps_) out = std::max(out, step.rate);
  return out;
}

std::optional<SimDuration> RateTrace::next_change(SimDuration instant) const {
  const BytesPerSecond now = rate_at(instant);
  const size_t here = step_at({instant.ns % period_.ns});
  int64_t begin = instant.ns - instant.ns % period_.ns;  // of the period that the step lies in
  for (size_t i = 1; i <= steps_.size(); ++i) {
    const size_t next = (here + i) % steps_.size();
    if (next == 0) begin += period_.ns;
    if (steps_[next].rate != now) return SimDuration{begin + steps_[next].start.ns};
  }
  return std::nullopt;
}

double RateTrace::bytes_between(SimDuration from, SimDuration to) const {
  CHECK(!empty() && from.ns >= 0 && to >= from, "no span from {} to {} ns", from.ns, to.ns);
  const int64_t periods = to.ns / period_.ns - from.ns / period_.ns;
  return static_cast<double>(periods) * carried_.back() + bytes_until({to.ns % period_.ns}) -
         bytes_until({from.ns % period_.ns});
}

SimDuration RateTrace::finish(SimDuration start, double bytes) const {
  CHECK(!empty() && start.ns >= 0 && bytes >= 0, "no finish from {} ns", start.ns);
  if (bytes == 0) return start;
  const int64_t phase = start.ns % period_.ns;
  // How much the trace has carried since the beginning of this period once `bytes` have left.
  double target = bytes_until({phase}) + bytes;
  // The first instant at which that much is carried: an outage that follows does not count.
  const double periods = std::max(0.0, std::ceil(target / carried_.back()) - 1);
  target = std::min(target - periods * carried_.back(), carried_.back());
  const auto reached = std::lower_bound(carried_.begin() + 1, carried_.end(), target);
  const auto i = static_cast<size_t>(reached - carried_.begin()) - 1;
  const double within = target > carried_[i] ? (target - carried_[i]) / steps_[i].rate.value : 0;
  const SimDuration end{start.ns - phase + static_cast<int64_t>(periods) * period_.ns +
                        steps_[i].start.ns + round_to_ns(Seconds{within}).ns};
  return std::max(end, start);
}

Result<RateTrace> parse_rate_trace(std::string_view csv, const std::string& file) {
  std::vector<RateTrace::Step> steps;
  int line_number = 0;
  const auto wrong = [&](std::string_view what, std::string hint) {
    return unusable(fmt::format("{}:{}: {}", file, line_number, what), std::move(hint));
  };
  while (!csv.empty()) {
    ++line_number;
    const size_t end = std::min(csv.find('\n'), csv.size());
    std::string_view line = csv.substr(0, end);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line_number == 1) {
      if (line != "time_s,rate_mbps")
        return wrong("not the header of a rate trace", "time_s,rate_mbps");
      continue;
    }
    if (line.empty()) continue;
    double values[2] = {};
    const size_t comma = std::min(line.find(','), line.size());
    const std::string_view fields[2] = {line.substr(0, comma),
                                        line.substr(std::min(comma + 1, line.size()))};
    for (int i = 0; i < 2; ++i) {
      const char* last = fields[i].data() + fields[i].size();
      const auto [at, error] = std::from_chars(fields[i].data(), last, values[i]);
      if (error != std::errc() || at != last || !std::isfinite(values[i]))
        return wrong(fmt::format("\"{}\" is not a time and a rate", line), "0.5,193");
    }
    if (values[0] < 0 || values[0] > kDays)
      return wrong(fmt::format("time_s = {}: must lie between 0 and 30 days", values[0]), "");
    if (values[1] < 0 || values[1] > 1e7)
      return wrong(fmt::format("rate_mbps = {}: must lie between 0 and 10000000", values[1]), "");
    const SimDuration start = round_to_ns(Seconds{values[0]});
    if (steps.empty() && start.ns != 0)
      return wrong("the first time must be 0", "0," + std::string(fields[1]));
    if (!steps.empty() && start <= steps.back().start)
      return wrong(fmt::format("time_s = {}: times must ascend", values[0]), "");
    steps.push_back({start, BytesPerSecond{values[1] * kMbps}});
  }
  if (steps.empty()) return unusable(file + ": no line with a time and a rate", "0,193");
  // A single line is a constant rate; its period does not matter.
  const size_t n = steps.size();
  const SimDuration last =
      n > 1 ? steps[n - 1].start - steps[n - 2].start : SimDuration{1'000'000'000};
  const SimDuration period = steps.back().start + last;
  return during(RateTrace::make(std::move(steps), period), "reading " + file);
}

Result<RateTrace> read_rate_trace(const std::string& path) {
  return parse_rate_trace(TRY(read_file(path, int64_t{64} << 20)), path);
}

std::string to_csv(const RateTrace& trace) {
  std::string out = "time_s,rate_mbps\n";
  for (const RateTrace::Step& step : trace.steps()) {
    out += fmt::format("{},{}\n", seconds(step.start).value, step.rate.value / kMbps);
  }
  return out;
}

}  // namespace tombolo::cluster
