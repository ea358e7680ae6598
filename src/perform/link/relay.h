// Relays: a transfer between two datacenters, carried at once by all ranks of a DP-cell that send from
// the one to the other, its members there (temporal bandwidth sharing: Palak et al. 2024, Atlas, section 4.3).
//
//   scatter   the owner of a message cuts it into one share per member, and hands each
//             member its share over the datacenter's network
//   carry     each member sends its share over its own WAN link, to its counterpart
//   gather    the counterpart hands it to the receiver, who has the message when all are there
//
// The owner is a member like the others: its own share comes to its relay by the same way. Which
// transfer is next on a link is known beforehand (schedule/schedule.h, LinkOrder), so every relay
// waits for that one and lets none pass. All members keep the same order, and a link is used as
// it was predicted to be.
//
// A Relay is one rank's part, as a state machine: it says which shares it could use next, is given
// one, and says where that goes. It knows neither links nor threads (stage/cell_relay.h has those;
// relay_test.cc runs it over a simulated network). It keeps no share: what comes before its turn
// waits in the link's Inbox. With c members and at most n transfers under way per owner and
// direction, a rank's inboxes hold up to n messages' bytes for it to carry, as much as it would
// queue without sharing.
//
// Shares bear no header, for they are small where bytes are scaled down: the tag says whose and
// which, the rank it came from which part, and the law of cut() how long each must be. A gathered
// share ends with 8 bytes: when its first byte left for the WAN.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "perform/link/mailbox.h"

namespace tombolo::link {

inline constexpr uint32_t kCellMax = 1 << 16;                 // members
inline constexpr uint64_t kOwnTensorMax = uint64_t{1} << 40;  // tensors of messages to be shared

enum class Hop : uint8_t { kScatter, kCarry, kGather };

// The tag of a share of this message; beyond all tags of whole messages.
Tag share_tag(Hop hop, const Tag& message, uint32_t owner);
bool is_share(const Tag& tag);
Tag whole_tag(const Tag& share);  // the message's

// Bytes [begin, end) of a message belong to share `share`.
struct Cut {
  uint64_t begin = 0, end = 0;
};
Cut cut(uint64_t total, uint32_t share, uint32_t shares);

// One transfer of a passage: of which member (its place among them), and its message's tensor.
struct Turn {
  uint32_t owner = 0;
  uint64_t tensor = 0;
};

// One direction over one boundary, as this rank sees it.
struct Passage {
  bool outgoing = false;         // onto this rank's WAN link; otherwise from there
  std::vector<int32_t> members;  // the ranks that share it on this side, this one among them
  int32_t across = 0;            // this rank's counterpart
  std::vector<Turn> turns;       // of one iteration, in the order of the boundary
};

class Relay {
 public:
  // Begins with the first turns of iteration `first`, ends after `last`.
  Relay(std::vector<Passage> passages, uint64_t first, uint64_t last);

  // The next share of every passage that is not done. Empty: this relay has done its work.
  struct Wanted {
    size_t passage = 0;
    int32_t from = 0;
    Tag tag;
  };
  std::vector<Wanted> wanted() const;

  // Where the wanted share of this passage goes. Afterwards the passage's next one is wanted.
  // Urgency: the earlier turn first, so that a link's queue cannot change the order.
  struct Parcel {
    int32_t to = 0;
    Tag tag;
    Payload payload;
    Urgency urgency = 0;
  };
  Parcel carry(size_t passage, Received share);

 private:
  struct Progress {
    Passage passage;
    uint64_t iteration = 0;
    size_t turn = 0;
  };
  std::vector<Progress> passages_;
  uint64_t last_ = 0;
};

// What the receiver does: shares in, in any order, and the message out.
class Gather {
 public:
  explicit Gather(uint32_t shares) : shares_(shares) {}

  // A share of kGather. Fails where it came before, or cannot be one.
  Status add(uint32_t share, Received part);
  // When all are there. It left when its first share did, and was there when the last one was.
  // Fails where the shares are not those of one message.
  Result<Received> take();

 private:
  std::vector<std::optional<Received>> shares_;
};

}  // namespace tombolo::link
