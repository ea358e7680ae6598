// Unauthenticated connections: accepted, and not yet proven to belong to the job. Decides how many
// there may be, and which one is evicted when another one comes.
//
// The newest is never evicted, so a member that connects can send its hello at once and then no
// longer counts here, however many others stay idle. A connection can be evicted when its time has
// passed: `silent_least` if it has sent nothing, `spoke_least` if it has sent something. Of those
// the one whose time passed first is evicted; where one address has more than its share, one of
// that address. While all places are taken and no connection's time has passed, no other is
// accepted, and new ones wait in the kernel's queue.
//
// What a flood can do: fill the kernel's queue, so that other connections wait in it while `total`
// are accepted per `silent_least` if the flood is silent (5,120 per second), a tenth of that if it
// sends bytes; and cost the CPU time of accepting as many. What it cannot do: hold a place for
// longer than that, take the place of another address that has no more than its share, or touch a
// member.
//
// Pure. Cost: for each that comes, a look at every one that is here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"

namespace tombolo::link {

class Unauthenticated {
 public:
  struct Options {
    size_t total = 512;
    size_t per_address = 256;
    SimDuration silent_least{100'000'000};
    SimDuration spoke_least{1'000'000'000};
  };
  explicit Unauthenticated(Options options) : options_(options) {}
  Unauthenticated() : Unauthenticated(Options{}) {}

  using Id = uint64_t;  // the caller's name for a connection
  // When another one may be accepted: now, or when a connection's time has passed.
  SimTime room_at(SimTime now) const;
  // A connection came, at room_at() or later. Returns the one to evict for it.
  std::optional<Id> add(Id id, const std::string& address, SimTime now);
  void spoke(Id id);
  // It is a member now, or gone.
  void remove(Id id);

  size_t size() const { return all_.size(); }

 private:
  struct One {
    std::string address;
    SimTime since;
    bool spoke = false;
  };
  SimTime had_its_time(const One& one) const {
    return one.since + (one.spoke ? options_.spoke_least : options_.silent_least);
  }
  // The one whose time passes first, of this address; null: of all.
  const std::pair<const Id, One>* first(const std::string* address) const;

  Options options_;
  std::map<Id, One> all_;
  std::map<std::string, size_t> by_address_;
};

}  // namespace tombolo::link
