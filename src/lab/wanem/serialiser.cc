#include "lab/wanem/serialiser.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tombolo::wanem {
namespace {

constexpr Seconds kAtOnce = 250_us;

}  // namespace

Cargo Cargo::take(uint32_t n) {
  CHECK(n <= count(), "no {} segments in [{}, {})", n, first, last);
  Cargo front = *this;
  front.last = first += n;
  return front;
}

void Serialiser::pass(SimTime now) {
  CHECK(now >= now_, "a queue at {} ns goes back to {} ns", now_.ns, now.ns);
  now_ = now;
}

void Serialiser::reshape(SimTime now, const Shape& shape) {
  pass(now);
  const double waiting = backlog(now);
  shape_ = shape;
  CHECK(!shape_.trace || !shape_.trace->empty(), "an empty trace is no rate");
  earlier_bytes_ = waiting;
  earlier_since_ = std::min(now, free_at_);
  busy_since_ = free_at_;
  busy_bytes_ = 0;
}

double Serialiser::carried_since_busy(SimTime now) const {
  if (shape_.trace)
    return shape_.trace->bytes_between(busy_since_ - shape_.origin, now - shape_.origin);
  if (shape_.rate) return shape_.rate->value * seconds(now - busy_since_).value;
  return static_cast<double>(busy_bytes_);
}

double Serialiser::backlog(SimTime now) const {
  if (now >= free_at_) return 0;
  const auto bytes = static_cast<double>(busy_bytes_);
  if (now >= busy_since_) return std::max(0.0, bytes - carried_since_busy(now));
  const double left = seconds(busy_since_ - now) / seconds(busy_since_ - earlier_since_);
  return bytes + earlier_bytes_ * left;
}

uint32_t Serialiser::admits(SimTime now, const Cargo& cargo) const {
  if (!limited()) return cargo.count();
  const double waiting = backlog(now);
  const double room = shape_.limit.value - waiting;
  if (static_cast<double>(cargo.bytes()) <= room) return cargo.count();
  const uint32_t least = waiting <= 0 ? 1 : 0;
  // All segments do not fit, so at most all but the last do.
  const double fitting = std::floor(std::max(0.0, room) / cargo.segment_bytes);
  const auto most = static_cast<double>(cargo.count() - 1);
  return std::max(least, static_cast<uint32_t>(std::min(fitting, most)));
}

uint32_t Serialiser::segments_at_once(SimTime now, const Cargo& cargo) const {
  if (!limited()) return cargo.count();
  const SimTime start = std::max(now, free_at_);
  const BytesPerSecond rate =
      shape_.trace ? shape_.trace->rate_at(start - shape_.origin) : *shape_.rate;
  const double segments = rate * kAtOnce / Bytes{static_cast<double>(cargo.segment_bytes)};
  return segments >= cargo.count() ? cargo.count() : std::max(1u, static_cast<uint32_t>(segments));
}

SimTime Serialiser::send(SimTime now, uint64_t bytes) {
  pass(now);
  if (now > free_at_) {
    busy_since_ = now;
    busy_bytes_ = 0;
  }
  busy_bytes_ += bytes;
  const auto sum = static_cast<double>(busy_bytes_);
  SimTime end = busy_since_;
  if (shape_.trace) {
    end = shape_.origin + shape_.trace->finish(busy_since_ - shape_.origin, sum);
  } else if (shape_.rate) {
    end = busy_since_ + round_to_ns(Bytes{sum} / *shape_.rate);
  }
  return free_at_ = std::max(end, free_at_);
}

}  // namespace tombolo::wanem
