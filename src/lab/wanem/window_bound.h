// Bounds the TCP windows that hosts grant each other across a link.
//
// Without loss, one connection carries at most window / round trip, and cluster files state that
// window (tcp_window). The kernel cannot be asked for it: a receive buffer counts what is
// allocated for arriving frames, in a ratio that the kernel takes from a connection's first frames.
// One and the same tcp_rmem of 3.76 MB gave windows between 2.07 and 3.00 MB, depending on the size
// of the first messages (Linux 6.18). So buffers are made large, and the window field of what
// crosses the link is lowered to the bound, as middleboxes do. TCP obeys it like any other window.
//
// The field counts in units that the two hosts agree on in their SYN packets (RFC 7323); so every
// SYN must pass here, and the field can be off by less than one unit, downwards.
// Cost: one hash look-up per frame, 40 bytes per direction of a connection.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/units.h"
#include "lab/wanem/packet.h"

namespace tombolo::wanem {

class WindowBound {
 public:
  // Sees every frame that passes, bounded or not, and lowers the window where it exceeds `bound`.
  // The TCP checksum stays right. What is not TCP/IPv4 stays as it is. `packet` is the frame's.
  void pass(std::span<uint8_t> frame, const Packet& packet, std::optional<Bytes> bound);

  size_t connections() const { return scales_.size(); }

 private:
  // The host that grants the window, and the one that it is granted to.
  struct Key {
    uint64_t addresses;
    uint32_t ports;
    bool operator==(const Key&) const = default;
    Key reverse() const { return {addresses << 32 | addresses >> 32, ports << 16 | ports >> 16}; }
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return (key.addresses ^ uint64_t{key.ports} << 17) * 0x9e3779b97f4a7c15u >> 7;
    }
  };
  void learn(std::span<const uint8_t> tcp, const Key& key);

  std::unordered_map<Key, uint8_t, Hash> scales_;  // bits by which the window field is shifted
};

}  // namespace tombolo::wanem
