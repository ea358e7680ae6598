// A phase: one chunk of a collective along one dimension, as each member of the group performs it.
//
// Members are numbered 0 to n-1 along the dimension. Member m does the same for every algorithm but
// the tree:
//
//   insert p messages; each becomes ready a bus delay later
//   the j-th time that something becomes ready: send message j to to(m, j), if there is one left,
//     and post a receive from from(m, j)
//   the i-th message received (and its receive posted): insert number p + i, which becomes ready a
//     bus delay later and, if it reduces, after two reads and one write of it from memory
//   when everything inserted has become ready, the phase is over for m
//
//   ring             p = 1, always to the next member; n-1 messages of size/n (reduce-scatter), of
//                    the whole input (all-gather), 2(n-1) of size/n (all-reduce); n(n-1)/2 of
//                    size/n (all-to-all: every shard is forwarded from neighbour to neighbour)
//   direct           p = n-1 or the window, to each other member in turn; as many messages as the
//                    ring, n-1 for an all-to-all. An all-reduce sends its second half only when n-1
//                    messages have come
//   halving-doubling p = 1, with the member at distance 1, 2, 4, ... (halving) and back (doubling),
//                    of an all-gather n/2, n/4, ..., 1
//   double binary    leaves send up, parents reduce and send up, the root reduces and sends down;
//   tree             always an all-reduce of all bytes. Chunks use two trees in turn
//   in-switch        p = 1, one message up and one down, as large as the larger of what a member
//                    gives and gets; no member receives before all have sent; the switch reduces.
//                    Simulated as a message to the next member: one over each link up and down
//
// The last is ours (docs/laws/in_switch_collective.md). The others are ASTRA-sim's algorithms with
// their quirks, since equal answers are wanted: which messages reduce, and what a reduction costs,
// follows from the order of insertions (reduces(), bytes()). docs/guide/astra-sim.md names the quirks.
// Reference: Won et al., ASTRA-sim 2.0, 2023, and its source.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "spec/graph/graph.h"

namespace tombolo::network {

enum class Algorithm : uint8_t { kRing, kDirect, kHalvingDoubling, kDoubleBinaryTree, kInSwitch };
constexpr auto enum_names(Algorithm) {
  return std::to_array<EnumName<Algorithm>>({{Algorithm::kRing, "ring"},
                                             {Algorithm::kDirect, "direct"},
                                             {Algorithm::kHalvingDoubling, "halvingDoubling"},
                                             {Algorithm::kDoubleBinaryTree, "doubleBinaryTree"},
                                             {Algorithm::kInSwitch, "inSwitch"}});
}

// An algorithm as configuration files name it: "ring", "direct4" (a window of 4 messages), and with
// "one" in front ("oneRing"): all NPUs form a single dimension.
struct AlgorithmChoice {
  Algorithm algorithm = Algorithm::kRing;
  bool one_dimension = false;
  int32_t window = 0;  // of direct; 0: all at once

  bool operator==(const AlgorithmChoice&) const = default;
};
std::optional<AlgorithmChoice> parse_algorithm(std::string_view name);
std::string to_text(const AlgorithmChoice& choice);

struct PhaseSpec {
  graph::CollectiveType kind = graph::CollectiveType::kAllReduce;
  AlgorithmChoice choice;
  int32_t members = 2;
  int64_t bytes = 0;        // at the start of the phase, of one member
  bool clockwise = true;    // which neighbour a ring sends to
  bool root_first = false;  // which of the two trees: the root is the first member, not the last
  bool local = false;       // a group, not the whole system: direct counts its rounds afresh

  bool operator==(const PhaseSpec&) const = default;
};

class CollectivePhase {
 public:
  // Unusable: a collective that the algorithm cannot do, sizes that are not powers of two where the
  // algorithm needs them (or, of an all-gather by halving-doubling, that do not halve in pairs).
  // CHECKs that there are at least two members.
  static Result<CollectivePhase> create(const PhaseSpec& spec);

  const PhaseSpec& spec() const { return spec_; }
  int32_t members() const { return spec_.members; }
  bool is_tree() const { return spec_.choice.algorithm == Algorithm::kDoubleBinaryTree; }
  bool in_switch() const { return spec_.choice.algorithm == Algorithm::kInSwitch; }
  int64_t final_bytes() const { return final_bytes_; }  // of one member when the phase is over

  // All algorithms but the tree.
  int64_t messages() const { return messages_; }  // that each member sends, and receives
  int32_t window() const { return window_; }      // p above
  int64_t bytes(int64_t message) const {          // also of what is inserted after the last
    return sizes_.empty() ? bytes_ : sizes_[static_cast<size_t>(message)];
  }
  bool reduces(int64_t insertion) const {
    const int64_t round = insertion / round_;
    return reduces_from_ <= insertion - round * round_ && (round % 2 == 0 || !alternates_);
  }
  int32_t to(int32_t member, int64_t message) const;
  int32_t from(int32_t member, int64_t message) const;
  // Before this many messages have come, those after the first half may not be sent; 0: no matter.
  int64_t gate() const { return gate_; }

  // Receives of one member from one source are matched in order; sources of a member are numbered.
  int32_t slots() const { return slots_; }
  int32_t slot(int32_t member, int32_t source) const;

  // The tree. -1 where there is none; a root has one child.
  struct TreeNode {
    int32_t parent = -1, left = -1, right = -1;
    bool leaf() const { return left < 0 && right < 0; }
  };
  const TreeNode& tree(int32_t member) const { return tree_[static_cast<size_t>(member)]; }

  // Links of 1 and of n - 1 hops are alike for all members, so that all are over at once if they
  // began at once (on a block that treats its NPUs alike).
  bool symmetric() const { return !is_tree(); }
  // Members may be over before others have begun: they do not all hear of each other.
  bool may_end_early() const;

 private:
  PhaseSpec spec_;
  int64_t final_bytes_ = 0;
  int64_t messages_ = 0;
  int64_t bytes_ = 0;
  int32_t window_ = 1;
  int64_t gate_ = 0;
  int32_t slots_ = 1;
  int64_t round_ = 1;               // insertions after which the pattern of reductions repeats
  int64_t reduces_from_ = 0;        // within a round
  bool alternates_ = false;         // every second round does not reduce
  std::vector<int64_t> sizes_;      // halving-doubling, per message
  std::vector<int32_t> distances_;  // the same
  std::vector<TreeNode> tree_;

  void make_halving_doubling();
  void make_tree();
};

}  // namespace tombolo::network
