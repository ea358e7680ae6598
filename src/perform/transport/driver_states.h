// The states of an Endpoint's sockets and links, and which may follow which.
//
// One enum for each side that moves separately: a connection as such, what it reads, what it says, and
// its current write belong to the io thread; a link and what callers know of it are under the driver's
// mutex. States change in advance() alone, which checks the order.
#pragma once

#include <span>

#include "base/check.h"

namespace tombolo::transport {

// Who called. It does not change.
enum class Origin {
  kAccepted,
  kCalled,    // by us, for a new link
  kRecalled,  // by us, for a connection that a link has lost
};

enum class ConnectionState {
  kHandshake,  // until the other side has proved to be a peer -> kLinked; where it has not -> kOver
  kLinked,     // part of a link. Silent for too long -> kParked; any other end -> kOver
  kParked,     // its link continues without it, its socket stays open (Driver::park) -> kOver
  kOver,       // its socket is closed
};

enum class Incoming {
  kNothing,  // nothing came yet. The first bytes come -> kRead; we refused first -> kIgnored
  kRead,  // the peer's goodbye came -> kGoodbye; our last words are a refusal or an abort -> kIgnored
  kIgnored,  // what comes does not matter; it is read until the other side hangs up
  kGoodbye,  // nothing is read any more
};

enum class Outgoing {
  kOpen,       // frames of the link. With our goodbye, a refusal or an abort -> kLastWords
  kLastWords,  // control frames that are queued, nothing after them. All are written -> kShut
  kShut,       // our direction is shut down
};

// Asio allows one write at a time.
enum class Writing {
  kIdle,    // a write begins -> kBusy
  kBusy,    // it ends -> kIdle, or -> kFailed
  kFailed,  // nothing can be written any more; what the other side said before is still to be read
};

enum class LinkState {
  kDown,     // until all of its connections have shaken hands -> kUp
  kUp,       // our last words were answered on a connection -> kParting; it is over -> kEnded; the
             // other side had given it up before it came up -> kDown
  kParting,  // its connections end one after the other -> kEnded
  kEnded,    // nothing more will come: Peer::end says why
};

// What callers of the Endpoint were told about a link.
enum class Told {
  kUnclaimed,  // by connect(), await_peer(), meet() or welcome_all() -> kClaimed
  kClaimed,    // the call failed -> kUnclaimed; next() says that the link is up -> kUp
  kUp,         // next() says that it has ended -> kEnd
  kEnd,
};

template <typename State>
struct Transition {
  State from, to;
};

std::span<const Transition<ConnectionState>> transitions(ConnectionState);
std::span<const Transition<Incoming>> transitions(Incoming);
std::span<const Transition<Outgoing>> transitions(Outgoing);
std::span<const Transition<Writing>> transitions(Writing);
std::span<const Transition<LinkState>> transitions(LinkState);
std::span<const Transition<Told>> transitions(Told);

// For messages: "a connection in its handshake".
const char* text(ConnectionState state);
const char* text(Incoming state);
const char* text(Outgoing state);
const char* text(Writing state);
const char* text(LinkState state);
const char* text(Told state);

template <typename State>
bool may_follow(State from, State to) {
  for (const Transition<State>& each : transitions(from))
    if (each.from == from && each.to == to) return true;
  return false;
}

template <typename State>
void advance(State& state, State to) {
  CHECK(may_follow(state, to), "{} became {}", text(state), text(to));
  state = to;
}

}  // namespace tombolo::transport
