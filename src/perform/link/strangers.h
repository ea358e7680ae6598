// Strangers: connections that were accepted and have not proved to be of this job. How many there
// may be, and who has to go when another one comes.
//
// The newest is never the one that goes, so a member that comes says its hello at once and is no
// stranger any more, however many others just sit there. Who goes is the one that had its time: a
// silent one has `silent_least`, one that said something `spoke_least`, and of those that had it
// the one that had it first; where one address has more than its share, one of that address. While
// nobody has had its time, nobody more is accepted, and who comes waits in the kernel's queue.
//
// What a flood can do: fill the kernel's queue, so that others are accepted at its pace, `total`
// per `silent_least` if it is silent (5,120 per second), a tenth of that if it speaks; and cost the
// CPU of accepting as many. What it cannot: hold a place for longer than that, take the places of
// another address than its own as long as that has no more than its share, or touch a member.
//
// Pure. Cost: a look at every stranger for each that comes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"

namespace tombolo::link {

class Strangers {
 public:
  struct Options {
    size_t total = 512;
    size_t per_address = 256;
    SimDuration silent_least{100'000'000};
    SimDuration spoke_least{1'000'000'000};
  };
  explicit Strangers(Options options) : options_(options) {}
  Strangers() : Strangers(Options{}) {}

  using Id = uint64_t;  // the caller's name for a connection
  // When another one may be accepted: now, or when somebody has had its time.
  SimTime room_at(SimTime now) const;
  // It came, at room_at() or later. Who has to go for it.
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
  // Whoever had its time first, of this address or of all.
  const std::pair<const Id, One>* first(const std::string* address) const;

  Options options_;
  std::map<Id, One> all_;
  std::map<std::string, size_t> by_address_;
};

}  // namespace tombolo::link
