// Recovery: when the lost connections of a link are called again, and when the link is given up.
//
// A connection is called at once when it was lost, and after each failed call later: 50 ms, 100 ms
// and so on up to 2 s after that call began, each spread by a quarter up or down, so that the
// connections of many ranks do not call together. One that comes back and is lost within 2 s continues
// with the pause where it was. As long as one connection lives, the others are called for ever.
//
// The link is over when it had no connection for the grace, of which there are two. A peer that
// ended its connection was alive a moment ago, and calls again at once if it still lives: so the
// short grace suffices to know that its process has ended. Silence proves nothing, because the path
// may be cut: the long grace counts.
//
// Pure; instants are passed in, and the spread follows from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/random.h"
#include "base/time.h"

namespace tombolo::link {

// How a connection was lost.
enum class Loss {
  kEnded,   // the other side hung up, or a gateway did
  kSilent,  // nothing came for long, or the kernel got no answer
};

class Recovery {
 public:
  struct Graces {
    SimDuration silent;
    SimDuration ended;  // not longer
  };
  // `connections` of them are here.
  Recovery(Graces graces, uint32_t connections, uint64_t seed);

  // It ended, for this reason. Lost already: nothing.
  void lost(uint32_t connection, Loss loss, const std::string& why, SimTime now);
  // A call for it came to nothing.
  void failed_call(uint32_t connection, const std::string& why, SimTime now);
  // It is here again. "lost for 300 ms: Connection reset by peer", or nothing if it was not lost.
  std::string back(uint32_t connection, SimTime now);

  bool is_lost(uint32_t connection) const { return lost_.contains(connection); }
  // When to call it; it is lost.
  SimTime call_at(uint32_t connection) const { return lost_.at(connection).call_at; }
  // When the link is over, if nothing comes back.
  std::optional<SimTime> over_at() const;
  // "it had no connection for 10 s: Connection reset by peer".
  std::string reason(SimTime now) const;

  uint64_t losses() const { return losses_; }  // of connections, ever

 private:
  struct Lost {
    Loss loss = Loss::kEnded;
    SimTime since;
    std::string why;
    SimTime call_at;
    uint32_t calls = 0;  // that failed
  };
  SimDuration pause(uint32_t calls);

  Graces graces_;
  uint32_t here_;
  Random random_;
  std::map<uint32_t, Lost> lost_;
  struct CameBack {
    SimTime at;
    Loss loss = Loss::kEnded;
    uint32_t calls = 0;  // before
  };
  std::map<uint32_t, CameBack> came_back_;
  std::optional<SimTime> alone_since_;  // no connection is here
  Loss alone_by_ = Loss::kEnded;        // how the last one was lost
  std::string why_;                     // the last connection was lost
  std::string why_call_;                // the last call failed
  uint64_t losses_ = 0;
};

}  // namespace tombolo::link
