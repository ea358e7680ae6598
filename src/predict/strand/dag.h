// A strand: what one direction of a layer (or of several) does, as operators with dependencies, and
// the counts of ways through it.
//
// Every operator runs on one of three streams of a device: computation, communication inside a
// scale-up domain, communication across. Operators are numbered so that each comes after those it
// waits for. A set of operators is a bit mask, so a strand has at most 64.
//
// An order ideal is a set that holds with each operator all that it waits for: what can have been
// done at some instant. A strand has far fewer ideals than orders (106 and 5,824 for the backward
// pass of a dense layer), which is what makes an exact search cheap.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"

namespace tombolo::strand {

enum class Stream : uint8_t { kCompute, kLocal, kCross };
inline constexpr size_t kStreams = 3;
constexpr auto enum_names(Stream) {
  return std::to_array<EnumName<Stream>>(
      {{Stream::kCompute, "compute"}, {Stream::kLocal, "local"}, {Stream::kCross, "cross"}});
}

// What an operator is, which decides what it overlaps with; of communication, what it is for.
enum class Kind : uint8_t {
  kProduct,            // matrix products, of experts too
  kAttention,          // fused: scores, softmax, values
  kAttentionBackward,  // the same in the backward pass
  kElementwise,        // norms, residuals, activations, permutations
  kTensor,             // gathers and scatters of tensor parallelism
  kContext,            // keys and values from a neighbour
  kExpert              // tokens to their experts and back
};
constexpr auto enum_names(Kind) {
  return std::to_array<EnumName<Kind>>({{Kind::kProduct, "product"},
                                        {Kind::kAttention, "attention"},
                                        {Kind::kAttentionBackward, "attention-backward"},
                                        {Kind::kElementwise, "elementwise"},
                                        {Kind::kTensor, "tensor"},
                                        {Kind::kContext, "context"},
                                        {Kind::kExpert, "expert"}});
}

constexpr bool is_communication(Kind kind) { return kind >= Kind::kTensor; }

using OperatorSet = uint64_t;
inline constexpr size_t kOperatorsMax = 64;

constexpr OperatorSet only(size_t index) { return OperatorSet{1} << index; }
constexpr bool holds(OperatorSet set, size_t index) { return (set >> index & 1) != 0; }
constexpr int count(OperatorSet set) { return std::popcount(set); }

struct Operator {
  std::string name;  // as the notes have it: "FC1", "bAG2"
  Kind kind = Kind::kProduct;
  Stream stream = Stream::kCompute;
  double seconds = 0;     // alone on the device
  OperatorSet after = 0;  // waits for these
  bool no_sm = false;     // communication by copy engines or RDMA: takes no multiprocessors
  bool async = false;     // communication that frameworks start and leave alone until it is needed

  bool operator==(const Operator&) const = default;
};

class Dag {
 public:
  // CHECKs that there is room, that it waits only for earlier ones, and that its stream fits its
  // kind. Returns its number.
  size_t add(Operator op);

  const std::vector<Operator>& operators() const { return operators_; }
  const Operator& operator[](size_t index) const { return operators_[index]; }
  size_t size() const { return operators_.size(); }
  OperatorSet all() const { return size() == kOperatorsMax ? ~OperatorSet{0} : only(size()) - 1; }
  // Those of `set` after which nothing in `set` comes.
  OperatorSet last_of(OperatorSet set) const;
  double seconds(OperatorSet set) const;

  void set_seconds(size_t index, double seconds);
  void set_no_sm(size_t index, bool no_sm) { operators_[index].no_sm = no_sm; }

  bool operator==(const Dag&) const = default;

 private:
  std::vector<Operator> operators_;
};

// `copies` of a strand, each after the one before: several layers as one. What ends a layer is
// waited for by all that begins the next.
Dag chain(const Dag& layer, size_t copies);

// The same operators one after the other, as they are numbered: a framework's own order.
Dag in_order(const Dag& dag);

// The same, except that asynchronous communication overlaps the operators after it that do not need
// it: what one strand alone hides.
Dag framework_order(const Dag& dag);

// All order ideals, the empty one first, in order of size. Cost: O(ideals x operators). CHECKs that
// there are at most `kIdealsMax`.
inline constexpr size_t kIdealsMax = 2'000'000;
std::vector<OperatorSet> order_ideals(const Dag& dag);

// Topological orders, counted over ideals. Exact below 2^53.
double order_count(const Dag& dag);

}  // namespace tombolo::strand
