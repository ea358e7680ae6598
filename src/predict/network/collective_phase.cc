#include "predict/network/collective_phase.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>

#include "base/check.h"

namespace tombolo::network {
namespace {

using graph::CollectiveType;

bool power_of_two(int32_t n) { return std::has_single_bit(static_cast<uint32_t>(n)); }

int32_t log2_of(int32_t n) { return std::bit_width(static_cast<uint32_t>(n)) - 1; }

// An all-gather pairs members at distance n/2, then half of that (rounded down), and so on to 1:
// does every member have a partner at each distance? True for 6, 12, 20, 24, 40, 48, ... and powers
// of two. (Other than for powers of two a member ends with less than all the data, as in ASTRA-sim,
// whose all-gather completes for these n.)
bool halves_in_pairs(int32_t n) {
  for (int32_t distance = n / 2; distance > 0; distance /= 2) {
    if (n % (2 * distance) != 0) return false;
  }
  return true;
}

bool takes_so_many(Algorithm algorithm, CollectiveType kind, int32_t members) {
  if (algorithm == Algorithm::kHalvingDoubling && kind == CollectiveType::kAllGather) {
    return halves_in_pairs(members);
  }
  const bool any =
      algorithm != Algorithm::kHalvingDoubling && algorithm != Algorithm::kDoubleBinaryTree;
  return any || power_of_two(members);
}

// Messages that a member sends by ring or direct.
int64_t rounds_of(CollectiveType kind, bool direct, int64_t n) {
  if (kind == CollectiveType::kAllReduce) return 2 * (n - 1);
  if (kind == CollectiveType::kAllToAll && !direct) return n * (n - 1) / 2;
  return n - 1;
}

int64_t final_bytes_of(CollectiveType kind, int64_t bytes, int64_t n) {
  if (kind == CollectiveType::kAllGather) return bytes * n;
  if (kind == CollectiveType::kReduceScatter) return bytes / n;
  return bytes;
}

}  // namespace

std::optional<AlgorithmChoice> parse_algorithm(std::string_view name) {
  AlgorithmChoice out;
  std::string text(name);
  if (text.size() > 3 && text.starts_with("one")) {
    out.one_dimension = true;
    text = text.substr(3);
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  }
  if (text.starts_with("direct") && text != "direct") {
    const char* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + 6, end, out.window);
    if (error != std::errc() || last != end || out.window < 1) return std::nullopt;
    text = "direct";
  }
  const auto algorithm = from_name<Algorithm>(text);
  if (!algorithm) return std::nullopt;
  if (out.one_dimension &&
      (*algorithm == Algorithm::kDoubleBinaryTree || *algorithm == Algorithm::kInSwitch)) {
    return std::nullopt;
  }
  out.algorithm = *algorithm;
  return out;
}

std::string to_text(const AlgorithmChoice& choice) {
  std::string out(to_name(choice.algorithm));
  if (choice.window > 0) out += std::to_string(choice.window);
  if (choice.one_dimension) {
    out[0] = static_cast<char>(out[0] - 'a' + 'A');
    out = "one" + out;
  }
  return out;
}

Result<CollectivePhase> CollectivePhase::create(const PhaseSpec& spec) {
  CHECK(spec.members >= 2 && spec.bytes >= 0, "a phase of {} members and {} bytes", spec.members,
        spec.bytes);
  const Algorithm algorithm = spec.choice.algorithm;
  if (algorithm == Algorithm::kHalvingDoubling && spec.kind == CollectiveType::kAllToAll) {
    return unusable("halvingDoubling cannot do an all-to-all", "ring or direct");
  }
  if (algorithm == Algorithm::kInSwitch && spec.kind == CollectiveType::kAllToAll) {
    return unusable("inSwitch cannot do an all-to-all: there is nothing to reduce or gather",
                    "direct");
  }
  if (!takes_so_many(algorithm, spec.kind, spec.members)) {
    return unusable(
        fmt::format("{} needs a power of two, not {} members", to_text(spec.choice), spec.members),
        "ring or direct, which take any number");
  }
  CollectivePhase out;
  out.spec_ = spec;
  const int64_t n = spec.members;
  const bool direct = algorithm == Algorithm::kDirect;
  out.final_bytes_ = final_bytes_of(spec.kind, spec.bytes, n);
  if (algorithm == Algorithm::kDoubleBinaryTree) {
    out.final_bytes_ = spec.bytes;  // whatever is asked for
    out.slots_ = 3;
    out.make_tree();
    return out;
  }
  if (algorithm == Algorithm::kInSwitch) {
    out.messages_ = 1;
    out.bytes_ = std::max(spec.bytes, out.final_bytes_);
    out.round_ = out.reduces_from_ = 2;  // insertions, none of which reduces
    return out;
  }
  out.messages_ = rounds_of(spec.kind, direct, n);
  out.bytes_ = spec.kind == CollectiveType::kAllGather ? spec.bytes : spec.bytes / n;
  const bool never =
      spec.kind == CollectiveType::kAllGather || spec.kind == CollectiveType::kAllToAll;
  out.alternates_ = spec.kind == CollectiveType::kAllReduce;
  int64_t rest = n - 1;  // of a round, after its first p insertions
  if (direct) {
    const int64_t others = n - 1;
    out.window_ = static_cast<int32_t>(
        spec.choice.window > 0 ? std::min<int64_t>(spec.choice.window, others) : others);
    rest = spec.local ? others * out.window_ : out.window_;
    out.slots_ = spec.members;
    if (spec.kind == CollectiveType::kAllReduce) out.gate_ = others;
  }
  if (algorithm == Algorithm::kHalvingDoubling) {
    rest = log2_of(spec.members) - 1;
    out.slots_ = std::max(1, log2_of(spec.members));
    out.make_halving_doubling();
  }
  out.round_ = out.window_ + rest;
  out.reduces_from_ = never ? out.round_ : out.window_;
  return out;
}

// Halving doubles the distance and halves the message; all-gathers go the other way. Sizes are cut
// off at every step, so that what doubles again need not be what was halved.
void CollectivePhase::make_halving_doubling() {
  const int32_t levels = log2_of(spec_.members);
  const bool gather = spec_.kind == CollectiveType::kAllGather;
  messages_ = spec_.kind == CollectiveType::kAllReduce ? 2 * levels : levels;
  int64_t bytes = gather ? spec_.bytes : spec_.bytes / 2;
  int32_t distance = gather ? spec_.members / 2 : 1;
  bool doubling = gather;
  for (int64_t message = 0; message <= messages_; ++message) {
    sizes_.push_back(bytes);
    distances_.push_back(distance);
    distance = doubling ? distance / 2 : distance * 2;
    bytes = doubling ? bytes * 2 : bytes / 2;
    if (distance == spec_.members && spec_.kind == CollectiveType::kAllReduce) {
      doubling = true;
      distance /= 2;
      bytes *= 2;
    }
  }
}

// In-order numbers: a root with one subtree that is perfect, on its left or on its right.
void CollectivePhase::make_tree() {
  tree_.resize(static_cast<size_t>(spec_.members));
  const int32_t root = spec_.root_first ? 0 : spec_.members - 1;
  const int32_t first = spec_.root_first ? 1 : 0;
  const auto grow = [&](const auto& self, int32_t begin, int32_t count, int32_t parent) -> int32_t {
    const int32_t middle = begin + count / 2;
    TreeNode& node = tree_[static_cast<size_t>(middle)];
    node.parent = parent;
    if (count > 1) {
      node.left = self(self, begin, count / 2, middle);
      node.right = self(self, middle + 1, count / 2, middle);
    }
    return middle;
  };
  TreeNode& top = tree_[static_cast<size_t>(root)];
  top.left = grow(grow, first, spec_.members - 1, root);
}

int32_t CollectivePhase::to(int32_t member, int64_t message) const {
  const int32_t n = spec_.members;
  if (spec_.choice.algorithm == Algorithm::kHalvingDoubling) {
    const int32_t distance = distances_[static_cast<size_t>(message)];
    return member / distance % 2 == 0 ? (member + distance) % n : (member - distance + n) % n;
  }
  const int32_t ahead = spec_.choice.algorithm == Algorithm::kDirect
                            ? static_cast<int32_t>(message % (n - 1)) + 1
                            : 1;
  return spec_.clockwise ? (member + ahead) % n : (member - ahead + n) % n;
}

int32_t CollectivePhase::from(int32_t member, int64_t message) const {
  const int32_t n = spec_.members;
  if (spec_.choice.algorithm == Algorithm::kHalvingDoubling) return to(member, message);
  const int32_t behind = spec_.choice.algorithm == Algorithm::kDirect
                             ? static_cast<int32_t>(message % (n - 1)) + 1
                             : 1;
  return spec_.clockwise ? (member - behind + n) % n : (member + behind) % n;
}

bool CollectivePhase::may_end_early() const {
  return spec_.choice.algorithm == Algorithm::kHalvingDoubling && !power_of_two(spec_.members);
}

int32_t CollectivePhase::slot(int32_t member, int32_t source) const {
  switch (spec_.choice.algorithm) {
    case Algorithm::kRing:
    case Algorithm::kInSwitch:
      return 0;
    case Algorithm::kDirect:
      return source;
    case Algorithm::kHalvingDoubling:
      return log2_of(std::abs(member - source));  // distances are halved
    case Algorithm::kDoubleBinaryTree: {
      const TreeNode& node = tree(member);
      return source == node.parent ? 0 : source == node.left ? 1 : 2;
    }
  }
  CHECK(false, "algorithm {}", static_cast<int>(spec_.choice.algorithm));
}

}  // namespace tombolo::network
