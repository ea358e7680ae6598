#include "perform/link/unauthenticated.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::link {

const std::pair<const Unauthenticated::Id, Unauthenticated::One>* Unauthenticated::first(
    const std::string* address) const {
  const std::pair<const Id, One>* out = nullptr;
  for (const auto& each : all_) {
    if (address && each.second.address != *address) continue;
    if (!out || had_its_time(each.second) < had_its_time(out->second)) out = &each;
  }
  return out;
}

SimTime Unauthenticated::room_at(SimTime now) const {
  if (all_.size() < options_.total) return now;
  return std::max(now, had_its_time(first(nullptr)->second));
}

std::optional<Unauthenticated::Id> Unauthenticated::add(Id id, const std::string& address,
                                                        SimTime now) {
  CHECK(!all_.contains(id), "connection {} came twice", id);
  const size_t same = by_address_[address];
  std::optional<Id> goes;
  if (same >= options_.per_address) {
    const auto* one = first(&address);
    if (had_its_time(one->second) <= now) goes = one->first;
  }
  if (!goes && all_.size() >= options_.total) {
    const auto most =
        std::max_element(by_address_.begin(), by_address_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto* one = first(&most->first);
    if (had_its_time(one->second) > now) one = first(nullptr);
    goes = one->first;
  }
  if (goes) remove(*goes);
  ++by_address_[address];
  all_.emplace(id, One{address, now});
  return goes;
}

void Unauthenticated::spoke(Id id) {
  const auto at = all_.find(id);
  if (at != all_.end()) at->second.spoke = true;
}

void Unauthenticated::remove(Id id) {
  const auto at = all_.find(id);
  if (at == all_.end()) return;
  const auto count = by_address_.find(at->second.address);
  if (--count->second == 0) by_address_.erase(count);
  all_.erase(at);
}

}  // namespace tombolo::link
