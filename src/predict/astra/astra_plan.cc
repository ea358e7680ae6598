#include "predict/astra/astra_plan.h"

#include <algorithm>
#include <numeric>

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

tl::unexpected<Error> refuse_in_switch(CollectiveType kind, const std::string& where) {
  return unusable(fmt::format("{} by inSwitch: {}", to_name(kind), where),
                  "inSwitch in Switch dimensions; ring, direct or halvingDoubling in others");
}

bool has_a_ring(const network::Topology& topology) {
  for (size_t d = 0; d < topology.dimensions(); ++d) {
    if (topology.dimension(d).block == network::Block::kRing) return true;
  }
  return false;
}

// A ring over a switch passes nothing on: every message goes to whom it is for, one after another.
network::AlgorithmChoice over_a_switch(network::AlgorithmChoice choice, CollectiveType kind) {
  if (kind == CollectiveType::kAllToAll && choice.algorithm == network::Algorithm::kRing) {
    choice.algorithm = network::Algorithm::kDirect;
    choice.window = 1;
  }
  return choice;
}

}  // namespace

int32_t SharedPhase::member_at(int32_t place) const {
  if (places.empty()) return place;
  const auto found = std::lower_bound(places.begin(), places.end(), place);
  CHECK(found != places.end() && *found == place, "no member stands at {}", place);
  return static_cast<int32_t>(found - places.begin());
}

CollectivePlanner::CollectivePlanner(const network::Topology& topology,
                                     const SystemSettings& settings, int32_t queues_per_dimension)
    : topology_(&topology), settings_(&settings), queues_per_dimension_(queues_per_dimension) {
  CHECK(queues_per_dimension >= 1 && queues_per_dimension < 256, "{} queues", queues_per_dimension);
  CHECK(settings.startup.empty() ||
            (hierarchical(settings) && settings.startup.size() == topology.dimensions()),
        "{} startup times for {} dimensions", settings.startup.size(), topology.dimensions());
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

int32_t CollectivePlanner::layout_of(std::span<const int32_t> ranks) {
  if (!hierarchical(*settings_)) return -1;
  auto layout = network::lay_out(ranks, *topology_);
  if (!layout) return -1;
  const auto known = std::find(layouts_.begin(), layouts_.end(), *layout);
  const auto number = static_cast<int32_t>(known - layouts_.begin());
  if (known == layouts_.end()) layouts_.push_back(std::move(*layout));
  return number;
}

int32_t CollectivePlanner::layout_of_all() {
  if (!hierarchical(*settings_)) return -1;
  if (layout_of_all_ < 0) {
    std::vector<int32_t> all(static_cast<size_t>(topology_->npus()));
    std::iota(all.begin(), all.end(), 0);
    layout_of_all_ = layout_of(all);
  }
  return layout_of_all_;
}

int64_t CollectivePlanner::startup(int32_t layout) const {
  if (layout < 0) return settings_->startup.back();
  const network::GroupLayout& spans = layouts_[static_cast<size_t>(layout)];
  return spans.empty() ? 0 : settings_->startup[spans.back().dimension];
}

// One algorithm for each dimension, or one for all of them.
Result<std::vector<CollectivePlanner::Along>> CollectivePlanner::along_layout(
    const Question& question) const {
  const std::vector<network::AlgorithmChoice>& choices = settings_->algorithms.at(question.kind);
  std::vector<Along> out;
  for (const network::GroupSpan& span : layouts_[static_cast<size_t>(question.layout)]) {
    const size_t d = span.dimension;
    if (choices.size() != 1 && d >= choices.size()) {
      return unusable(fmt::format("the system file names {} algorithms for {}, and its ranks "
                                  "differ in dimension {}",
                                  choices.size(), to_name(question.kind), d + 1),
                      "one algorithm per dimension, or one for all");
    }
    network::AlgorithmChoice choice = choices[choices.size() == 1 ? 0 : d];
    const network::Block block = topology_->dimension(d).block;
    if (choice.algorithm == network::Algorithm::kInSwitch && block != network::Block::kSwitch) {
      return refuse_in_switch(question.kind,
                              fmt::format("dimension {} is a {}", d + 1, to_name(block)));
    }
    if (block == network::Block::kSwitch) choice = over_a_switch(choice, question.kind);
    out.push_back({choice, span.members, false, false, d, span.places});
  }
  return out;
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
  const bool one_dimension =
      std::any_of(choices.begin(), choices.end(),
                  [](const network::AlgorithmChoice& choice) { return choice.one_dimension; });
  if (question.layout >= 0 && !one_dimension && choices.size() <= topology_->dimensions()) {
    return along_layout(question);
  }
  // A group is flattened, and takes the ring where the file lists several dimensions.
  if (question.group_size > 0 && question.group_size < topology_->npus()) {
    const bool one = choices.size() == 1;
    const bool one_switch =
        topology_->dimensions() == 1 && topology_->dimension(0).block == network::Block::kSwitch;
    if (one && choices[0].algorithm == network::Algorithm::kInSwitch && !one_switch) {
      return refuse_in_switch(question.kind, "a group's NPUs need not be at one switch");
    }
    network::AlgorithmChoice choice = one ? choices[0] : network::AlgorithmChoice{};
    if (hierarchical(*settings_) && !has_a_ring(*topology_)) {
      choice = over_a_switch(choice, question.kind);
    }
    Along ring{choice, question.group_size};
    ring.any_ranks = true;
    return std::vector<Along>{ring};
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
      return refuse_in_switch(question.kind,
                              fmt::format("dimension {} is a {}", d + 1, to_name(block)));
    }
    out.push_back({choices[d], whole ? topology_->npus() : topology_->size(d), whole, false, d});
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
  const std::vector<int64_t> sizes =
      hierarchical(*settings_) ? even_chunks(question) : chunk_sizes(question);
  Question of_chunk = question;
  const std::vector<Along> dims = TRY(along(question));
  const bool of_all = question.group_size == 0 || question.group_size >= topology_->npus();
  if (of_all && question.layout < 0 && dims.size() < topology_->dimensions() && !dims.back().whole)
    short_lists_.insert(question.kind);
  if (sizes.empty()) return &(known_[{question, before}] = {{}, rotation}).first;
  const std::vector<std::vector<size_t>> orders =
      themis_orders(question, dims, sizes[0], std::ssize(sizes));
  std::vector<const ChunkPlan*> plans;
  for (size_t i = 0; i < sizes.size(); ++i) {
    chose_orders_ = chose_orders_ || !orders.empty();
    if (!orders.empty()) of_chunk.order = orders[i];
    of_chunk.bytes = sizes[i];
    const ChunkPlan* plan = TRY(plan_chunk(of_chunk, rotation));
    if (plan->phases.empty()) break;
    plans.push_back(plan);
  }
  return &(known_[{question, before}] = {std::move(plans), rotation}).first;
}

// ASTRA-sim's.
std::vector<int64_t> CollectivePlanner::chunk_sizes(const Question& question) const {
  int64_t bytes = question.bytes;
  int64_t chunk = bytes / settings_->splits;
  if (question.kind != CollectiveType::kAllGather && topology_->npus() > chunk) {
    chunk = topology_->npus();
    bytes = settings_->splits * chunk;
  }
  chunk = std::max<int64_t>(chunk, 1);
  return std::vector<int64_t>(static_cast<size_t>((bytes + chunk - 1) / chunk), chunk);
}

// Ours. A member's part is rounded up to bytes, and shared out to chunks as evenly as bytes allow.
std::vector<int64_t> CollectivePlanner::even_chunks(const Question& question) const {
  int64_t members = question.group_size > 0 ? question.group_size : topology_->npus();
  if (question.kind == CollectiveType::kAllGather) members = 1;
  const int64_t part = (question.bytes + members - 1) / members;
  const int64_t chunks = std::min(settings_->splits, part);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < chunks; ++i) {
    out.push_back((part / chunks + (i < part % chunks ? 1 : 0)) * members);
  }
  return out;
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
                       (dims[d].dimension < question.involved_dims.size() &&
                        question.involved_dims[dims[d].dimension] != 0);
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
    const network::Dimension& dimension = topology_->dimension(dims[d].dimension);
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
    const size_t dimension = dims[d].dimension;
    uint8_t& counter = way == Way::kOnly ? rotation.next[dimension]
                       : way == Way::kUp ? rotation.first[dimension]
                                         : rotation.last[dimension];
    const int32_t queue = take(counter, begin, way == Way::kUp ? half : q);
    network::PhaseSpec spec{kind, dims[d].choice, dims[d].members,  bytes,
                            true, false,          dims[d].any_ranks};
    // Members may come to queues of different directions, which only some can tell apart.
    const bool goes_round = dims[d].choice.algorithm == network::Algorithm::kRing ||
                            dims[d].choice.algorithm == network::Algorithm::kDirect;
    const bool back = way == Way::kOnly ? q > 1 && queue >= q / 2 : way == Way::kDown;
    spec.clockwise = !goes_round || dims[d].members == 2 || !back;
    if (dims[d].choice.algorithm == network::Algorithm::kDoubleBinaryTree) {
      if (group) return unusable("doubleBinaryTree is for all NPUs, not for groups", "ring");
      uint8_t& tree = rotation.trees[index_of(chunk.kind) * topology_->dimensions() + dimension];
      spec.root_first = tree == 1;
      tree ^= 1;
    }
    SharedPhase* shared = TRY(share(spec, dims[d]));
    plan.phases.push_back(
        {shared, static_cast<uint16_t>(static_cast<int32_t>(dimension) * q + queue)});
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

Result<SharedPhase*> CollectivePlanner::share(const network::PhaseSpec& spec, const Along& along) {
  for (SharedPhase& shared : phases_) {
    if (shared.dimension == along.dimension && shared.whole == along.whole &&
        shared.places == along.places && shared.phase.spec() == spec) {
      return &shared;
    }
  }
  SharedPhase shared{TRY(network::CollectivePhase::create(spec))};
  shared.dimension = along.dimension;
  shared.places = along.places;
  shared.whole = along.whole;
  shared.any_ranks = spec.local;
  phases_.push_back(std::move(shared));
  return &phases_.back();
}

}  // namespace tombolo::astra
