// Traffic against an oracle that is slow and obviously right: every rank's coordinates, every group
// found by comparing all ranks, every collective performed step by step into a dense matrix.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "predict/workload/traffic.h"
#include "support/seeds.h"

namespace tombolo::workload {
namespace {

using Coordinates = std::map<std::string, int64_t>;
using Dense = std::vector<std::vector<double>>;

// Where a rank stands in each dimension, counted off innermost first.
Coordinates coordinates(int64_t rank, const std::vector<std::string>& order,
                        const std::map<std::string, int64_t>& sizes) {
  Coordinates out;
  for (const std::string& word : order) {
    out[word] = rank % sizes.at(word);
    rank /= sizes.at(word);
  }
  return out;
}

struct Oracle {
  plan::Job job;
  std::vector<std::string> order;
  TrafficVolume volume;
  bool flat = false;
  int64_t ranks = 1, domain = 1;
  std::vector<Coordinates> place, expert_place;
  std::array<Dense, kTrafficKinds> sent;

  Oracle(plan::Job the_job, std::vector<std::string> the_order, bool flat_rings)
      : job(std::move(the_job)), order(std::move(the_order)), flat(flat_rings) {
    volume = *traffic_volume(job, {});
    const layout::Parallelism& p = job.parallelism;
    ranks = p.tensor * p.context * p.data * p.pipeline;
    domain = job.cluster.datacenters[0].scale_up.domain;
    for (Dense& dense : sent) {
      dense.assign(static_cast<size_t>(ranks), std::vector<double>(static_cast<size_t>(ranks)));
    }
    for (int64_t r = 0; r < ranks; ++r) {
      place.push_back(coordinates(
          r, order,
          {{"tp", p.tensor}, {"cp", p.context}, {"ep", 1}, {"dp", p.data}, {"pp", p.pipeline}}));
      expert_place.push_back(coordinates(r, order,
                                         {{"tp", p.tensor},
                                          {"cp", 1},
                                          {"ep", p.expert},
                                          {"dp", p.context * p.data / p.expert},
                                          {"pp", p.pipeline}}));
    }
    perform();
  }

  void send(TrafficKind kind, int64_t from, int64_t to, double bytes) {
    sent[static_cast<size_t>(kind)][static_cast<size_t>(from)][static_cast<size_t>(to)] += bytes;
  }

  // The ranks that differ from `rank` in these dimensions only, ascending.
  std::vector<int64_t> group(const std::vector<Coordinates>& places, int64_t rank,
                             const std::vector<std::string>& along) const {
    std::vector<int64_t> out;
    for (int64_t r = 0; r < ranks; ++r) {
      bool same = true;
      for (const std::string& word : order) {
        const bool free = std::find(along.begin(), along.end(), word) != along.end();
        same = same && (free || places[static_cast<size_t>(r)].at(word) ==
                                    places[static_cast<size_t>(rank)].at(word));
      }
      if (same) out.push_back(r);
    }
    return out;
  }

  // Each of the ring's ranks holds a piece; after n-1 steps to the right all hold all.
  void gather_in_ring(TrafficKind kind, const std::vector<int64_t>& ring, double piece) {
    for (size_t step = 0; step + 1 < ring.size(); ++step) {
      for (size_t i = 0; i < ring.size(); ++i) {
        send(kind, ring[i], ring[(i + 1) % ring.size()], piece);
      }
    }
  }

  void gather(TrafficKind kind, const std::vector<int64_t>& members, double whole) {
    const double piece = whole / static_cast<double>(members.size());
    std::map<int64_t, std::vector<int64_t>> by_domain, by_rail;
    for (const int64_t r : members) {
      by_domain[r / domain].push_back(r);
      by_rail[r % domain].push_back(r);
    }
    // As many of each rail in each domain, and several of both: a grid.
    bool grid = by_domain.size() > 1 && by_rail.size() > 1 &&
                by_domain.size() * by_rail.size() == members.size();
    if (flat || !grid) return gather_in_ring(kind, members, piece);
    for (const auto& [rail, ring] : by_rail) gather_in_ring(kind, ring, piece);
    for (const auto& [where, ring] : by_domain) {
      gather_in_ring(kind, ring, piece * static_cast<double>(by_domain.size()));
    }
  }

  void perform() {
    const int64_t stages = job.parallelism.pipeline;
    for (int64_t r = 0; r < ranks; ++r) {
      const int64_t s = place[static_cast<size_t>(r)].at("pp");
      const StageVolume& stage = volume.stages[static_cast<size_t>(s)];
      const auto once = [&](const std::vector<Coordinates>& places,
                            const std::vector<std::string>& along, TrafficKind kind, Bytes bytes) {
        const std::vector<int64_t> members = group(places, r, along);
        if (members.front() == r && members.size() > 1) gather(kind, members, bytes.value);
      };
      once(place, {"tp"}, TrafficKind::kTensor, stage.tensor);
      once(place, {"cp"}, TrafficKind::kContext, stage.context);
      once(place, {"cp", "dp"}, TrafficKind::kData, stage.data);
      once(expert_place, {"dp"}, TrafficKind::kData, stage.expert_data);
      for (const int64_t to : group(expert_place, r, {"ep"})) {
        if (to != r) send(TrafficKind::kExpert, r, to, stage.expert.value);
      }
      // Chunk by chunk: chunk c of the model is on stage c mod p.
      const std::vector<int64_t> pipeline = group(place, r, {"pp"});
      for (int64_t c = s; c + 1 < stages * volume.chunks && stages > 1; c += stages) {
        const int64_t to = pipeline[static_cast<size_t>((c + 1) % stages)];
        send(TrafficKind::kPipeline, r, to, volume.boundary.value);
        send(TrafficKind::kPipeline, to, r, volume.boundary.value);
      }
      if (s == 0 && stages > 1) {
        send(TrafficKind::kPipeline, r, pipeline.back(), volume.tied.value);
        send(TrafficKind::kPipeline, pipeline.back(), r, volume.tied.value);
      }
    }
  }
};

// By two, three and four, and by products of them.
void make_divisible(model::Model& m) {
  m.heads = 48;
  if (m.kv_heads > 0) m.kv_heads = 24;
  m.hidden = m.heads * 128;
  m.ffn = 3 * m.hidden;
  if (m.experts) m.experts->ffn = m.ffn;
  m.sequence = 2304;
  m.layers = 72;
}

plan::Job random_job(Random& random, std::vector<std::string>& order) {
  const auto one_of = [&](std::vector<int64_t> numbers) {
    return numbers[random.below(numbers.size())];
  };
  plan::Job job;
  job.file = "job.toml";
  job.model = *model::preset(random.below(2) == 0 ? "mixtral-8x7b" : "gpt3-175b");
  make_divisible(*job.model);
  layout::Parallelism& p = job.parallelism;
  p.tensor = one_of({1, 2, 3, 4});
  p.context = one_of({1, 1, 2, 3});
  p.data = one_of({1, 2, 3, 4, 6});
  p.pipeline = one_of({1, 2, 3, 4});
  p.virtual_stages = p.pipeline > 1 ? one_of({1, 2, 3}) : 1;
  p.schedule = layout::default_schedule(p.virtual_stages);
  p.zero = one_of({0, 1, 2, 3});
  p.sequence_parallel = true;
  if (job.model->experts) {
    p.expert = one_of({1, 2, 4, 8});
    while (p.context * p.data % p.expert != 0) p.expert /= 2;
  }
  do {
    order = {"tp", "cp", "ep", "dp", "pp"};
    for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  } while (p.expert > 1 && order.back() != "pp");
  p.order.clear();
  for (const std::string& word : order) p.order += (p.order.empty() ? "" : "-") + word;
  cluster::Datacenter datacenter;
  datacenter.scale_up.domain = one_of({1, 2, 3, 4, 6, 8, 12, 16, 24});
  datacenter.nodes = 1000;
  job.cluster.datacenters = {datacenter};
  job.training.global_batch = 12 * p.data;  // as many microbatches as interleaving takes
  return job;
}

void expect_equal(const Oracle& oracle, const Traffic& traffic) {
  const int64_t n = oracle.ranks;
  const TrafficMatrix all = traffic.matrix(0, n, n);
  const TrafficSummary s = traffic.summarize();
  ASSERT_EQ(all.per_block, 1);
  std::vector<std::vector<bool>> busy(static_cast<size_t>(n),
                                      std::vector<bool>(static_cast<size_t>(n)));
  double forwarded = 0;
  for (size_t k = 0; k < kTrafficKinds; ++k) {
    const auto kind = static_cast<TrafficKind>(k);
    std::array<double, kReaches> bytes{};
    std::array<int64_t, kReaches> pairs{};
    for (int64_t from = 0; from < n; ++from) {
      for (int64_t to = 0; to < n; ++to) {
        const double wanted = oracle.sent[k][static_cast<size_t>(from)][static_cast<size_t>(to)];
        ASSERT_NEAR(all.at(kind, from, to), wanted, 1e-9 * wanted)
            << to_name(kind) << " " << from << " -> " << to;
        if (wanted == 0) continue;
        const int64_t d = oracle.domain;
        const PairReach reach = from / d == to / d   ? PairReach::kDomain
                                : from % d == to % d ? PairReach::kRail
                                                     : PairReach::kOtherRail;
        bytes[static_cast<size_t>(reach)] += wanted;
        ++pairs[static_cast<size_t>(reach)];
        busy[static_cast<size_t>(from)][static_cast<size_t>(to)] = true;
        if (reach == PairReach::kOtherRail) forwarded += wanted;
      }
    }
    for (size_t r = 0; r < kReaches; ++r) {
      EXPECT_EQ(s.by_kind[k].by_reach[r].pairs, pairs[r]) << to_name(kind);
      EXPECT_NEAR(s.by_kind[k].by_reach[r].bytes.value, bytes[r], 1e-9 * bytes[r]);
    }
  }
  int64_t without = -n;  // the diagonal holds nothing
  for (const auto& row : busy) without += std::count(row.begin(), row.end(), false);
  EXPECT_EQ(s.pairs_without_traffic, without);
  EXPECT_NEAR(s.forwarding.bytes.value, forwarded, 1e-9 * forwarded);
}

// What a GPU sends it also receives: rows and columns have the same sums.
void expect_conserved(const Traffic& traffic) {
  const TrafficMatrix m = traffic.matrix(0, traffic.gpus(), traffic.gpus());
  for (size_t k = 0; k < kTrafficKinds; ++k) {
    for (int64_t i = 0; i < m.side; ++i) {
      double row = 0, column = 0;
      for (int64_t j = 0; j < m.side; ++j) {
        row += m.at(static_cast<TrafficKind>(k), i, j);
        column += m.at(static_cast<TrafficKind>(k), j, i);
      }
      ASSERT_NEAR(row, column, 1e-9 * row);
    }
  }
}

// Blocks add up to what they are made of.
void expect_blocks_add_up(const Traffic& traffic) {
  const TrafficMatrix few = traffic.matrix(0, traffic.gpus(), 5);
  const TrafficSummary s = traffic.summarize();
  EXPECT_LE(few.side, 5);
  for (size_t k = 0; k < kTrafficKinds; ++k) {
    double sum = 0;
    for (const double bytes : few.bytes[k]) sum += bytes;
    EXPECT_NEAR(sum, s.by_kind[k].total().bytes.value, 1e-9 * sum);
  }
}

TEST(TrafficOracle, random_parallelisms_pair_by_pair) {
  for (uint64_t seed = 0; seed < seeds(150, 15'000); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random = Random(seed).stream("traffic");
    std::vector<std::string> order;
    const plan::Job job = random_job(random, order);
    const bool flat = random.below(3) == 0;
    SCOPED_TRACE(fmt::format("order {}", job.parallelism.order));
    const Result<Traffic> traffic = Traffic::make(job, {.flat_rings = flat, .volume = {}});
    ASSERT_TRUE(traffic) << traffic.error().text();
    expect_equal(Oracle(job, order, flat), *traffic);
    expect_conserved(*traffic);
    expect_blocks_add_up(*traffic);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tombolo::workload
