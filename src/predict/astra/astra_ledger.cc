#include "predict/astra/astra_ledger.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::astra {
namespace {

using graph::NodeType;
using network::Block;

// Calls visit(to, bytes) for what a member sends in a phase; where it is all to one, once.
template <typename Visit>
void for_each_send(const network::CollectivePhase& phase, int32_t member, Visit visit) {
  if (phase.is_tree()) {
    const auto& node = phase.tree(member);
    for (const int32_t to : {node.parent, node.left, node.right}) {
      if (to >= 0) visit(to, phase.spec().bytes);
    }
  } else if (phase.spec().choice.algorithm == network::Algorithm::kRing) {
    if (phase.messages() > 0) visit(phase.to(member, 0), phase.bytes(0) * phase.messages());
  } else {
    for (int64_t i = 0; i < phase.messages(); ++i) visit(phase.to(member, i), phase.bytes(i));
  }
}

// Of an NPU; of the paths between datacenters its share.
double links_of(const network::Dimension& dimension, int32_t npus) {
  const double others = std::max(dimension.npus - 1, 1);
  switch (dimension.block) {
    case Block::kRing:
      return dimension.npus > 2 ? 2 : 1;
    case Block::kFullyConnected:
      return others;
    case Block::kSwitch:
      return 1;
    case Block::kWan:
      return others * dimension.npus / npus;
  }
  CHECK(false, "block {}", static_cast<int>(dimension.block));
}

}  // namespace

void AstraLedger::begins(const Cast& cast) {
  cast_ = cast;
  npus_ = cast.topology->npus();
  shape_.clear();
  for (size_t d = 0; d < cast.topology->dimensions(); ++d) {
    shape_.push_back(cast.topology->dimension(d));
  }
  class_of_.clear();
  if (cast.classes) class_of_ = cast.classes->class_of;
  ranks_.assign(cast.ranks(), {});
  for (size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].npu = cast.npu_of(static_cast<int32_t>(r));
    ranks_[r].stands_for = cast.classes ? 0 : 1;
  }
  for (const int32_t c : class_of_) ++ranks_[static_cast<size_t>(c)].stands_for;
  sent_.assign(ranks_.size() * shape_.size(), {});
  loads_.clear();
  latest_loads_ = nullptr;
}

int64_t AstraLedger::stands_for(int32_t rank) const {
  CHECK(rank >= 0 && rank < std::ssize(ranks_), "rank {} of {}", rank, ranks_.size());
  return ranks_[static_cast<size_t>(rank)].stands_for;
}

const AstraLedger::Rank& AstraLedger::of(int32_t npu) const {
  CHECK(npu >= 0 && npu < npus_, "NPU {} of {}", npu, npus_);
  return ranks_[static_cast<size_t>(rank_of(npu))];
}

AstraLedger::Cause AstraLedger::cause_of(const Program::Node& node) {
  switch (node.type) {
    case NodeType::kCompute:
      return node.on_host ? kHost : kAccelerator;
    case NodeType::kMemoryLoad:
    case NodeType::kMemoryStore:
      return kRemoteMemory;
    case NodeType::kSend:
    case NodeType::kReceive:
    case NodeType::kCollective:
      return kCommunication;
    case NodeType::kInvalid:
    case NodeType::kMetadata:
      break;
  }
  return kCauses;
}

void AstraLedger::pass(Rank& rank, SimTime at) {
  CHECK(at >= rank.since, "NPU {} is at {} ns, not {} ns", rank.npu, rank.since.ns, at.ns);
  for (int cause = 0; cause < kCauses; ++cause) {
    if (rank.under_way[cause] == 0) continue;
    rank.spent[cause] += at - rank.since;
    break;
  }
  rank.since = at;
}

void AstraLedger::node_begins(int32_t r, uint32_t n, SimTime at) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const Program::Node& node = cast_.workload->programs[static_cast<size_t>(rank.npu)]->nodes[n];
  const Cause cause = cause_of(node);
  if (cause == kCauses || waits(node)) return;
  pass(rank, at);
  ++rank.under_way[cause];
  if (cause == kAccelerator) rank.computing_since = at;
}

// A rank that waits for a message that has not left is idle: the cause is on another rank.
bool AstraLedger::waits(const Program::Node& node) const {
  return node.type == NodeType::kReceive && !cast_.settings->replay_only;
}

void AstraLedger::receive_met(int32_t r, uint32_t, SimTime at) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  pass(rank, at);
  ++rank.under_way[kCommunication];
}

void AstraLedger::node_ends(int32_t r, uint32_t n, SimTime at) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const Program::Node& node = cast_.workload->programs[static_cast<size_t>(rank.npu)]->nodes[n];
  const Cause cause = cause_of(node);
  if (cause == kCauses) return;
  pass(rank, at);
  CHECK(rank.under_way[cause] > 0, "node {} of NPU {} ends and has not begun", node.id, rank.npu);
  --rank.under_way[cause];
  if (cause != kAccelerator) return;
  rank.exposed.local_memory += explained_by_memory(node, at - rank.computing_since);
}

// Of a computation by roofline: what it takes beyond its operations at peak performance.
SimDuration AstraLedger::explained_by_memory(const Program::Node& node, SimDuration lasted) const {
  const SystemSettings& settings = *cast_.settings;
  if (!settings.roofline || settings.replay_only) return {};
  const double at_peak =
      static_cast<double>(node.operations) / (settings.peak_performance * 1e12) * 1e9;
  if (at_peak >= static_cast<double>(lasted.ns)) return {};
  return lasted - SimDuration{static_cast<int64_t>(at_peak)};
}

void AstraLedger::rank_ends(int32_t r, SimTime at) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  trace::ExposedTime& out = rank.exposed;
  out.compute = rank.spent[kAccelerator] - out.local_memory;
  out.host = rank.spent[kHost];
  out.remote_memory = rank.spent[kRemoteMemory];
  out.communication = rank.spent[kCommunication];
  out.idle = (at - SimTime{}) - out.total();
  CHECK(out.idle.ns >= 0, "NPU {} ends at {} ns, {} ns too early for its work", rank.npu, at.ns,
        -out.idle.ns);
}

const std::vector<AstraLedger::Load>& AstraLedger::loads_of(const Phase& told, int32_t npu) {
  const network::Topology& net = *cast_.topology;
  const SharedPhase& shared = *told.shared;
  const bool along = !shared.whole && !shared.any_ranks;
  const Group* group =
      shared.any_ranks ? &cast_.workload->groups[static_cast<size_t>(told.group)] : nullptr;
  int32_t member = shared.whole ? npu : group ? group->position(npu) : 0;
  if (along && (!shared.phase.symmetric() || !shared.places.empty())) {
    const int32_t lowest =
        told.group < 0 ? 0 : cast_.workload->groups[static_cast<size_t>(told.group)].lowest();
    member = shared.member_at(net.coordinate(npu, shared.dimension) -
                              net.coordinate(lowest, shared.dimension));
  }
  const PhaseOfGroup asked{told.shared, group ? told.group : -1};
  if (latest_loads_ == nullptr || latest_ != asked) {
    latest_ = asked;
    latest_loads_ = &loads_[asked];
  }
  LoadsOfMembers& members = *latest_loads_;
  if (members.empty()) members.resize(static_cast<size_t>(shared.phase.members()));
  std::vector<Load>& loads = members[static_cast<size_t>(member)];
  if (!loads.empty()) return loads;
  const auto links = [&](size_t d, int32_t from, int32_t to) {
    return net.dimension(d).block == Block::kSwitch ? 1 : net.hops(d, from, to);
  };
  loads.resize(1);  // what sends nothing is known, too
  for_each_send(shared.phase, member, [&](int32_t to, int64_t bytes) {
    const auto add = [&](size_t d, int32_t hops) {
      auto load = std::find_if(loads.begin(), loads.end(),
                               [&](const Load& other) { return other.dimension == d; });
      if (load == loads.end()) load = loads.insert(load, {d, {}});
      load->sent.bytes += bytes;
      load->sent.carried += bytes * hops;
    };
    if (along) {
      return add(shared.dimension, links(shared.dimension, shared.place(member), shared.place(to)));
    }
    if (group) to = group->ranks[static_cast<size_t>(to)];
    for (size_t d = net.first_difference(npu, to); d < net.dimensions(); ++d) {
      const int32_t here = net.coordinate(npu, d), there = net.coordinate(to, d);
      if (here != there) add(d, links(d, here, there));
      if (!hierarchical(*cast_.settings)) break;
    }
  });
  return loads;
}

void AstraLedger::phase_begins(int32_t r, uint32_t, const Phase& phase, SimTime) {
  if (!cast_.whole_phases) return;
  const size_t first = static_cast<size_t>(r) * shape_.size();
  for (const Load& load : loads_of(phase, ranks_[static_cast<size_t>(r)].npu)) {
    Sent& sent = sent_[first + load.dimension];
    sent.bytes += load.sent.bytes;
    sent.carried += load.sent.carried;
  }
}

void AstraLedger::message_passes(const Message& message) {
  Sent& sent =
      sent_[static_cast<size_t>(rank_of(message.from)) * shape_.size() + message.dimension];
  if (message.enters) sent.bytes += message.bytes;
  sent.carried += message.bytes * message.links;
}

trace::ExposedTime AstraLedger::exposed_mean() const {
  CHECK(npus_ > 0, "the mean of a run that has not begun");
  // A million ranks of an hour each are 2^62 ns: sums are kept as quotient and remainder.
  const auto mean = [&](SimDuration trace::ExposedTime::*part) {
    int64_t whole = 0, rest = 0;
    for (const Rank& rank : ranks_) {
      whole += (rank.exposed.*part).ns / npus_ * rank.stands_for;
      rest += (rank.exposed.*part).ns % npus_ * rank.stands_for;
    }
    return SimDuration{whole + rest / npus_};
  };
  using Time = trace::ExposedTime;
  return {mean(&Time::compute),       mean(&Time::host),          mean(&Time::local_memory),
          mean(&Time::remote_memory), mean(&Time::communication), mean(&Time::idle)};
}

int32_t AstraLedger::last() const {
  CHECK(npus_ > 0, "the last NPU of a run that has not begun");
  const auto later = [](const Rank& a, const Rank& b) {
    return a.exposed.total() < b.exposed.total();
  };
  return std::max_element(ranks_.begin(), ranks_.end(), later)->npu;
}

int64_t AstraLedger::bytes_sent() const {
  int64_t sum = 0;
  for (const trace::DimensionUse& use : dimensions()) sum += use.bytes;
  return sum;
}

std::vector<trace::DimensionUse> AstraLedger::dimensions() const {
  std::vector<trace::DimensionUse> out;
  const auto end = static_cast<double>(exposed(last()).total().ns);
  for (size_t d = 0; d < shape_.size(); ++d) {
    const network::Dimension& dimension = shape_[d];
    trace::DimensionUse use;
    use.label = fmt::format("{}: {}({}), {:.6g} * 2^30 B/s, {:.6g} ns", d, to_name(dimension.block),
                            dimension.npus, dimension.bandwidth, dimension.latency);
    const double capacity =
        links_of(dimension, npus_) * dimension.bandwidth * (1 << 30) * 1e-9 * end;
    double busy = 0;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const Sent& sent = sent_[r * shape_.size() + d];
      use.bytes += sent.bytes * ranks_[r].stands_for;
      use.bytes_max = std::max(use.bytes_max, sent.bytes);
      const double share = capacity > 0 ? static_cast<double>(sent.carried) / capacity : 0;
      use.busy_max = std::max(use.busy_max, share);
      busy += share * static_cast<double>(ranks_[r].stands_for);
    }
    use.bytes_mean = static_cast<double>(use.bytes) / npus_;
    use.busy_mean = busy / npus_;
    out.push_back(use);
  }
  return out;
}

}  // namespace tombolo::astra
