#include "perform/control/lease.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tombolo::control {
namespace {

// The caller has checked the terms.
const LeaseTerms& sound(const LeaseTerms& terms) {
  const Status status = terms.check();
  CHECK(status, "{}", status.error().message);
  return terms;
}

}  // namespace

Status LeaseTerms::check() const {
  if (beat.ns <= 0 || floor < beat || ceiling < floor || ceiling > kLeaseMax) {
    return failed(fmt::format("a lease with a beat of {} ns, floor {} ns, ceiling {} ns", beat.ns,
                              floor.ns, ceiling.ns));
  }
  if (!(multiple >= 1) || !(drift >= 0 && drift <= 0.2)) {
    return failed(fmt::format("a lease with multiple {} and drift {}", multiple, drift));
  }
  return {};
}

SimDuration LeaseTerms::stretched(SimDuration length) const {
  CHECK(length.ns >= 0, "a lease of {} ns", length.ns);
  return {static_cast<int64_t>(std::ceil(static_cast<double>(length.ns) * (1 + 3 * drift)))};
}

LeaseBook::LeaseBook(const LeaseTerms& terms) : terms_(sound(terms)) {}

SimDuration LeaseBook::length() const {
  const SimDuration longest = *std::max_element(gaps_.begin(), gaps_.end());
  const double wanted = terms_.multiple * static_cast<double>(longest.ns);
  if (wanted >= static_cast<double>(terms_.ceiling.ns)) return terms_.ceiling;
  return std::max(terms_.floor, SimDuration{static_cast<int64_t>(wanted)});
}

SimDuration LeaseBook::renew(SimTime now) {
  if (heard_) {
    gaps_[next_] = std::max(now - *heard_, SimDuration{0});
    next_ = (next_ + 1) % kGapsKept;
  }
  heard_ = now;
  const SimDuration granted = length();
  end_ = std::max(end_, now + terms_.stretched(granted));
  return granted;
}

Lease::Lease(const LeaseTerms& terms) : terms_(sound(terms)) {}

Beat Lease::beat(uint64_t epoch, SimTime now) {
  next_beat_ = now + (epoch == 0 ? SimDuration{terms_.beat.ns / 2} : terms_.beat);
  return {epoch, now};
}

void Lease::granted(const Grant& grant, SimTime now) {
  if (grant.sent > now || grant.length.ns < 0 || grant.length > kLeaseMax) return;
  end_ = std::max(end_, grant.sent + grant.length);
}

}  // namespace tombolo::control
