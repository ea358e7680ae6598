#include "perform/transport/driver_states.h"

namespace tombolo::transport {

std::span<const Transition<ConnectionState>> transitions(ConnectionState) {
  using enum ConnectionState;
  static constexpr Transition<ConnectionState> kAll[] = {{kHandshake, kLinked},
                                                         {kHandshake, kOver},
                                                         {kLinked, kParked},
                                                         {kLinked, kOver},
                                                         {kParked, kOver}};
  return kAll;
}

std::span<const Transition<Incoming>> transitions(Incoming) {
  using enum Incoming;
  static constexpr Transition<Incoming> kAll[] = {
      {kNothing, kRead}, {kNothing, kIgnored}, {kRead, kIgnored}, {kRead, kGoodbye}};
  return kAll;
}

std::span<const Transition<Outgoing>> transitions(Outgoing) {
  using enum Outgoing;
  static constexpr Transition<Outgoing> kAll[] = {{kOpen, kLastWords}, {kLastWords, kShut}};
  return kAll;
}

std::span<const Transition<Writing>> transitions(Writing) {
  using enum Writing;
  static constexpr Transition<Writing> kAll[] = {{kIdle, kBusy}, {kBusy, kIdle}, {kBusy, kFailed}};
  return kAll;
}

std::span<const Transition<LinkState>> transitions(LinkState) {
  using enum LinkState;
  static constexpr Transition<LinkState> kAll[] = {
      {kDown, kUp}, {kUp, kDown}, {kUp, kParting}, {kUp, kEnded}, {kParting, kEnded}};
  return kAll;
}

std::span<const Transition<Told>> transitions(Told) {
  using enum Told;
  static constexpr Transition<Told> kAll[] = {
      {kUnclaimed, kClaimed}, {kClaimed, kUnclaimed}, {kClaimed, kUp}, {kUp, kEnd}};
  return kAll;
}

const char* text(ConnectionState state) {
  switch (state) {
    case ConnectionState::kHandshake:
      return "a connection in its handshake";
    case ConnectionState::kLinked:
      return "a connection of a link";
    case ConnectionState::kParked:
      return "a parked connection";
    case ConnectionState::kOver:
      return "a connection that is over";
  }
  return "";
}

const char* text(Incoming state) {
  switch (state) {
    case Incoming::kNothing:
      return "a connection over which nothing came";
    case Incoming::kRead:
      return "a connection that is read";
    case Incoming::kIgnored:
      return "a connection that is ignored";
    case Incoming::kGoodbye:
      return "a connection over which a goodbye came";
  }
  return "";
}

const char* text(Outgoing state) {
  switch (state) {
    case Outgoing::kOpen:
      return "an open direction";
    case Outgoing::kLastWords:
      return "a direction with its last words";
    case Outgoing::kShut:
      return "a direction that is shut down";
  }
  return "";
}

const char* text(Writing state) {
  switch (state) {
    case Writing::kIdle:
      return "an idle socket";
    case Writing::kBusy:
      return "a socket that writes";
    case Writing::kFailed:
      return "a socket whose write failed";
  }
  return "";
}

const char* text(LinkState state) {
  switch (state) {
    case LinkState::kDown:
      return "a link that is not up";
    case LinkState::kUp:
      return "a link that is up";
    case LinkState::kParting:
      return "a link that is closing";
    case LinkState::kEnded:
      return "a link that has ended";
  }
  return "";
}

const char* text(Told state) {
  switch (state) {
    case Told::kUnclaimed:
      return "an unclaimed link";
    case Told::kClaimed:
      return "a claimed link";
    case Told::kUp:
      return "a link that was said to be up";
    case Told::kEnd:
      return "a link that was said to have ended";
  }
  return "";
}

}  // namespace tombolo::transport
