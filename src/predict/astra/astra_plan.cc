#include "predict/astra/astra_plan.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;

// Of the four collectives that are simulated, in the order of Rotation::trees.
size_t index_of(CollectiveType kind) {
  switch (kind) {
    case CollectiveType::kAllReduce:
      return 0;
    case CollectiveType::kAllGather:
      return 1;
    case CollectiveType::kReduceScatter:
      return 2;
    default:
      return 3;
  }
}

uint8_t take(uint8_t& counter, int32_t begin, int32_t end) {
  const int32_t taken = begin + counter;
  counter = static_cast<uint8_t>(taken + 1 == end ? 0 : counter + 1);
  return static_cast<uint8_t>(taken);
}

}  // namespace

CollectivePlanner::CollectivePlanner(const network::Topology& topology,
                                     const SystemSettings& settings, int32_t queues_per_dimension)
    : topology_(&topology), settings_(&settings), queues_per_dimension_(queues_per_dimension) {
  CHECK(queues_per_dimension >= 1 && queues_per_dimension < 256, "{} queues", queues_per_dimension);
  CHECK(settings.splits >= 1 && settings.active_chunks >= 1, "{} of {} chunks at work",
        settings.active_chunks, settings.splits);
}

Rotation CollectivePlanner::no_rotation() const {
  const std::vector<uint8_t> none(topology_->dimensions());
  return {none, none, none, std::vector<uint8_t>(4 * topology_->dimensions())};
}

bool CollectivePlanner::rotates() const {
  if (queues_per_dimension_ > 1) return true;
  for (const auto& [kind, choices] : settings_->algorithms) {
    for (const network::AlgorithmChoice& choice : choices) {
      if (choice.algorithm == network::Algorithm::kDoubleBinaryTree) return true;
    }
  }
  return false;
}

Result<std::vector<CollectivePlanner::Along>> CollectivePlanner::along(
    const Question& question) const {
  const auto found = settings_->algorithms.find(question.kind);
  if (found == settings_->algorithms.end() || found->second.empty()) {
    return unusable(
        fmt::format("the system file names no algorithm for {}", to_name(question.kind)),
        "\"all-reduce-implementation\": [\"ring\"] and its kin, one per dimension");
  }
  const std::vector<network::AlgorithmChoice>& choices = found->second;
  // A group is flattened, and takes the ring where the file lists several dimensions.
  const auto refuse_in_switch = [&](const std::string& where) {
    return unusable(fmt::format("{} by inSwitch: {}", to_name(question.kind), where),
                    "inSwitch in Switch dimensions; ring, direct or halvingDoubling in others");
  };
  if (question.group_size > 0 && question.group_size < topology_->npus()) {
    const bool one = choices.size() == 1;
    const bool one_switch =
        topology_->dimensions() == 1 && topology_->dimension(0).block == network::Block::kSwitch;
    if (one && choices[0].algorithm == network::Algorithm::kInSwitch && !one_switch) {
      return refuse_in_switch("a group's NPUs need not be at one switch");
    }
    return std::vector<Along>{
        {one ? choices[0] : network::AlgorithmChoice{}, question.group_size, false}};
  }
  if (choices.size() > topology_->dimensions()) {
    return unusable(fmt::format("the system file names {} algorithms for {}, the network has {} "
                                "dimensions",
                                choices.size(), to_name(question.kind), topology_->dimensions()),
                    "one algorithm per dimension");
  }
  std::vector<Along> out;
  for (size_t d = 0; d < choices.size(); ++d) {
    const bool whole = choices[d].one_dimension;
    const network::Block block = topology_->dimension(d).block;
    if (choices[d].algorithm == network::Algorithm::kInSwitch && block != network::Block::kSwitch) {
      return refuse_in_switch(fmt::format("dimension {} is a {}", d + 1, to_name(block)));
    }
    out.push_back({choices[d], whole ? topology_->npus() : topology_->size(d), whole});
    if (whole) break;
  }
  return out;
}

Result<const std::vector<const ChunkPlan*>*> CollectivePlanner::plan(const Question& question,
                                                                     Rotation& rotation) {
  CHECK(question.bytes >= 0 && question.group_size >= 0, "{} bytes among {} NPUs", question.bytes,
        question.group_size);
  CHECK(rotation.next.size() == topology_->dimensions(), "a rotation through {} of {} dimensions",
        rotation.next.size(), topology_->dimensions());
  if (const auto known = known_.find({question, rotation}); known != known_.end()) {
    rotation = known->second.second;
    return &known->second.first;
  }
  const Rotation before = rotation;
  int64_t bytes = question.bytes;
  int64_t chunk = bytes / settings_->splits;
  if (question.kind != CollectiveType::kAllGather && topology_->npus() > chunk) {
    chunk = topology_->npus();
    bytes = settings_->splits * chunk;
  }
  chunk = std::max<int64_t>(chunk, 1);
  const int64_t chunks = (bytes + chunk - 1) / chunk;
  Question of_chunk = question;
  of_chunk.bytes = chunk;
  const std::vector<Along> dims = TRY(along(question));
  const bool of_all = question.group_size == 0 || question.group_size >= topology_->npus();
  if (of_all && dims.size() < topology_->dimensions() && !dims.back().whole)
    short_lists_.insert(question.kind);
  const std::vector<std::vector<size_t>> orders = themis_orders(question, dims, chunk, chunks);
  std::vector<const ChunkPlan*> plans;
  for (int64_t i = 0; i < chunks; ++i) {
    chose_orders_ = chose_orders_ || !orders.empty();
    if (!orders.empty()) of_chunk.order = orders[static_cast<size_t>(i)];
    const ChunkPlan* plan = TRY(plan_chunk(of_chunk, rotation));
    if (plan->phases.empty()) break;
    plans.push_back(plan);
  }
  return &(known_[{question, before}] = {std::move(plans), rotation}).first;
}

bool CollectivePlanner::there_and_back(CollectiveType kind) const {
  return kind == CollectiveType::kAllReduce &&
         settings_->all_reduce_shape == AllReduceShape::kLocalBandwidthAware;
}

std::vector<size_t> CollectivePlanner::involved(const Question& question,
                                                const std::vector<Along>& dims) const {
  std::vector<size_t> out;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool named = question.group_size > 0 || question.involved_dims.empty() ||
                       (d < question.involved_dims.size() && question.involved_dims[d] != 0);
    if (named && dims[d].members > 1) out.push_back(d);
  }
  return out;
}

std::vector<std::vector<size_t>> CollectivePlanner::themis_orders(const Question& question,
                                                                  const std::vector<Along>& dims,
                                                                  int64_t bytes,
                                                                  int64_t chunks) const {
  const std::vector<size_t> which = involved(question, dims);
  const bool moves_bytes = question.kind == CollectiveType::kAllGather ||
                           question.kind == CollectiveType::kReduceScatter ||
                           there_and_back(question.kind);
  if (settings_->dimension_order != network::DimensionScheduling::kThemis || which.size() < 2 ||
      !moves_bytes) {
    return {};
  }
  std::vector<network::AllReduceDimension> loaded;
  Bytes whole{static_cast<double>(bytes)};  // an all-gather ends with what others begin with
  for (const size_t d : which) {
    const network::Dimension& dimension = topology_->dimension(d);
    const bool all_links = dimension.block == network::Block::kFullyConnected &&
                           dims[d].choice.algorithm == network::Algorithm::kDirect;
    const int32_t links = all_links ? dims[d].members - 1 : 1;
    loaded.push_back({dims[d].members, BytesPerSecond{dimension.bandwidth * 0x1p30 * links}});
    if (question.kind == CollectiveType::kAllGather) whole = whole * dims[d].members;
  }
  network::DimensionLoads loads(std::move(loaded), whole);
  std::vector<std::vector<size_t>> out;
  for (int64_t i = 0; i < chunks; ++i) {
    const std::vector<size_t> order = loads.next();
    loads.give_chunk(order);
    out.emplace_back();
    for (const size_t place : order) out.back().push_back(which[place]);
  }
  return out;
}

Result<const ChunkPlan*> CollectivePlanner::plan_chunk(const Question& chunk, Rotation& rotation) {
  if (const auto known = known_chunks_.find({chunk, rotation}); known != known_chunks_.end()) {
    rotation = known->second.second;
    return known->second.first;
  }
  const Rotation before = rotation;
  const std::vector<Along> dims = TRY(along(chunk));
  const bool group = chunk.group_size > 0 && chunk.group_size < topology_->npus();
  std::vector<size_t> order = chunk.order.empty() ? involved(chunk, dims) : chunk.order;
  if (chunk.kind == CollectiveType::kAllGather) std::reverse(order.begin(), order.end());

  ChunkPlan plan;
  int64_t bytes = chunk.bytes;
  enum class Way { kOnly, kUp, kDown };
  const auto add = [&](size_t d, CollectiveType kind, Way way) -> Status {
    const int32_t q = queues_per_dimension_;
    const int32_t half = std::max(1, q / 2);
    const int32_t begin = way == Way::kDown ? q / 2 : 0;
    uint8_t& counter = way == Way::kOnly ? rotation.next[d]
                       : way == Way::kUp ? rotation.first[d]
                                         : rotation.last[d];
    const int32_t queue = take(counter, begin, way == Way::kUp ? half : q);
    network::PhaseSpec spec{kind, dims[d].choice, dims[d].members, bytes, true, false, group};
    // Members may come to queues of different directions, which only some can tell apart.
    const bool goes_round = dims[d].choice.algorithm == network::Algorithm::kRing ||
                            dims[d].choice.algorithm == network::Algorithm::kDirect;
    const bool back = way == Way::kOnly ? q > 1 && queue >= q / 2 : way == Way::kDown;
    spec.clockwise = !goes_round || dims[d].members == 2 || !back;
    if (dims[d].choice.algorithm == network::Algorithm::kDoubleBinaryTree) {
      if (group) return unusable("doubleBinaryTree is for all NPUs, not for groups", "ring");
      uint8_t& tree = rotation.trees[index_of(chunk.kind) * topology_->dimensions() + d];
      spec.root_first = tree == 1;
      tree ^= 1;
    }
    SharedPhase* shared = TRY(share(spec, d, dims[d].whole));
    plan.phases.push_back({shared, static_cast<uint16_t>(static_cast<int32_t>(d) * q + queue)});
    bytes = shared->phase.final_bytes();
    return {};
  };
  if (!there_and_back(chunk.kind)) {
    for (size_t d : order) TRY(add(d, chunk.kind, Way::kOnly));
  } else if (!order.empty()) {
    for (size_t i = 0; i + 1 < order.size(); ++i) {
      TRY(add(order[i], CollectiveType::kReduceScatter, Way::kUp));
    }
    TRY(add(order.back(), CollectiveType::kAllReduce, Way::kUp));
    for (size_t i = order.size() - 1; i-- > 0;) {
      TRY(add(order[i], CollectiveType::kAllGather, Way::kDown));
    }
  }
  chunks_.push_back(std::move(plan));
  known_chunks_[{chunk, before}] = {&chunks_.back(), rotation};
  return &chunks_.back();
}

Result<SharedPhase*> CollectivePlanner::share(const network::PhaseSpec& spec, size_t dimension,
                                              bool whole) {
  for (SharedPhase& shared : phases_) {
    if (shared.dimension == dimension && shared.whole == whole && shared.phase.spec() == spec) {
      return &shared;
    }
  }
  SharedPhase shared{TRY(network::CollectivePhase::create(spec))};
  shared.dimension = dimension;
  shared.whole = whole;
  shared.any_ranks = spec.local;
  phases_.push_back(std::move(shared));
  return &phases_.back();
}

}  // namespace tombolo::astra
