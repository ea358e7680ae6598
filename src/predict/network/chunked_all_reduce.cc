#include "predict/network/chunked_all_reduce.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>

#include "base/check.h"

namespace tombolo::network {
namespace {

constexpr int64_t kChunksMax = int64_t{1} << 20;
constexpr int64_t kDimensionNpusMax = int64_t{1} << 30;

bool positive(double value) { return std::isfinite(value) && value > 0; }

Status check(const ChunkedAllReduce& c) {
  if (c.dimensions.empty()) {
    return unusable("chunked all-reduce: no dimension", "one or more dimensions");
  }
  for (size_t d = 0; d < c.dimensions.size(); ++d) {
    const AllReduceDimension& dimension = c.dimensions[d];
    if (dimension.npus < 2 || dimension.npus > kDimensionNpusMax) {
      return unusable(fmt::format("chunked all-reduce: dimension {} of {} NPUs: must be 2 to 2^30",
                                  d + 1, dimension.npus),
                      "leave out dimensions of one NPU");
    }
    if (!positive(dimension.bandwidth.value)) {
      return unusable(
          fmt::format("chunked all-reduce: dimension {}: bandwidth must be positive", d + 1),
          "200 GBps");
    }
  }
  if (!positive(c.size.value)) {
    return unusable("chunked all-reduce: the size must be positive", "1 GiB");
  }
  if (c.chunks < 1 || c.chunks > kChunksMax) {
    return unusable(fmt::format("chunked all-reduce: {} chunks: must be 1 to 2^20", c.chunks),
                    "64 chunks");
  }
  return {};
}

// Share of its bytes that a chunk sends along a dimension, once.
double sent_share(const AllReduceDimension& dimension) {
  return static_cast<double>(dimension.npus - 1) / static_cast<double>(dimension.npus);
}

struct Phase {
  size_t dimension = 0;
  Bytes size;  // of the chunk at that point
  Bytes sent;
  Seconds time;
};

// The phases of every chunk: down the dimensions, both ways in the last, and back up.
std::vector<std::vector<Phase>> plan_chunks(const ChunkedAllReduce& c) {
  const Bytes chunk = c.size / static_cast<double>(c.chunks);
  std::vector<size_t> given(c.dimensions.size());
  std::iota(given.begin(), given.end(), size_t{0});
  DimensionLoads loads(c.dimensions, chunk);
  std::vector<std::vector<Phase>> chunks;
  for (int64_t i = 0; i < c.chunks; ++i) {
    std::vector<Phase> phases;
    Bytes size = chunk;
    const std::vector<size_t> order =
        c.order == DimensionScheduling::kBaseline ? given : loads.next();
    loads.give_chunk(order);
    for (const size_t d : order) {
      const AllReduceDimension& dimension = c.dimensions[d];
      const Bytes sent = size * sent_share(dimension);
      phases.push_back({d, size, sent, sent / dimension.bandwidth});
      size = size / static_cast<double>(dimension.npus);
    }
    phases.back().sent = phases.back().sent * 2;
    phases.back().time = phases.back().time * 2;
    for (size_t p = phases.size() - 1; p-- > 0;) phases.push_back(Phase(phases[p]));
    chunks.push_back(std::move(phases));
  }
  return chunks;
}

// Dimensions serve their queues; of equal candidates the one that came first.
Seconds last_end(const std::vector<std::vector<Phase>>& chunks, size_t dimensions,
                 ChunkChoice choice) {
  struct Item {
    double rank = 0;  // least first
    uint64_t sequence = 0;
    size_t chunk = 0, phase = 0;
    bool operator>(const Item& o) const {
      return std::tie(rank, sequence) > std::tie(o.rank, o.sequence);
    }
  };
  using Queue = std::priority_queue<Item, std::vector<Item>, std::greater<>>;
  std::vector<Queue> waiting(dimensions);
  std::vector<bool> busy(dimensions);
  Queue ends;  // ranked by time
  uint64_t sequence = 0;
  const auto offer = [&](size_t chunk, size_t phase) {
    const Phase& p = chunks[chunk][phase];
    const double rank = choice == ChunkChoice::kSmallest ? p.size.value : 0;
    waiting[p.dimension].push({rank, sequence++, chunk, phase});
  };
  const auto start_all = [&](Seconds now) {
    for (size_t d = 0; d < dimensions; ++d) {
      if (busy[d] || waiting[d].empty()) continue;
      const Item item = waiting[d].top();
      waiting[d].pop();
      busy[d] = true;
      const Seconds end = now + chunks[item.chunk][item.phase].time;
      ends.push({end.value, sequence++, item.chunk, item.phase});
    }
  };
  for (size_t i = 0; i < chunks.size(); ++i) offer(i, 0);
  start_all({});
  Seconds now;
  size_t finished = 0;
  while (!ends.empty()) {
    const Item item = ends.top();
    ends.pop();
    now = Seconds{item.rank};
    busy[chunks[item.chunk][item.phase].dimension] = false;
    if (item.phase + 1 < chunks[item.chunk].size()) {
      offer(item.chunk, item.phase + 1);
    } else {
      ++finished;
    }
    start_all(now);
  }
  CHECK(finished == chunks.size(), "{} of {} chunks finished", finished, chunks.size());
  return now;
}

}  // namespace

DimensionLoads::DimensionLoads(std::vector<AllReduceDimension> dimensions, Bytes chunk)
    : dimensions_(std::move(dimensions)), chunk_(chunk), given_(dimensions_.size()) {}

void DimensionLoads::give_chunk(const std::vector<size_t>& order) {
  Bytes size = chunk_;
  for (const size_t d : order) {
    given_[d] += size * sent_share(dimensions_[d]) / dimensions_[d].bandwidth;
    size = size / static_cast<double>(dimensions_[d].npus);
  }
}

std::vector<size_t> DimensionLoads::next() const {
  std::vector<size_t> order(given_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<size_t> sorted = order;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](size_t a, size_t b) { return given_[a] < given_[b]; });
  // The chunk that would keep the idlest dimension busy until it has what the busiest has.
  const AllReduceDimension& idlest = dimensions_[sorted.front()];
  const Bytes evening =
      (given_[sorted.back()] - given_[sorted.front()]) * idlest.bandwidth / sent_share(idlest);
  return evening < chunk_ / 16 ? order : sorted;
}

Result<ChunkedAllReduceTimes> play(const ChunkedAllReduce& collective) {
  TRY(check(collective));
  const auto chunks = plan_chunks(collective);
  ChunkedAllReduceTimes out;
  out.sent.resize(collective.dimensions.size());
  for (const auto& phases : chunks) {
    for (const Phase& phase : phases) out.sent[phase.dimension] += phase.sent;
  }
  double npus = 1;
  BytesPerSecond bandwidth;
  for (const AllReduceDimension& dimension : collective.dimensions) {
    npus *= static_cast<double>(dimension.npus);
    bandwidth += dimension.bandwidth;
  }
  out.ideal = 2 * collective.size * ((npus - 1) / npus) / bandwidth;
  out.time = last_end(chunks, collective.dimensions.size(), collective.choice);
  return out;
}

}  // namespace tombolo::network
