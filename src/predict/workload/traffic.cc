#include "predict/workload/traffic.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "base/check.h"
#include "predict/cost/batch_by_speed.h"
#include "predict/cost/price_plan.h"
#include "predict/ledger/plan_ledger.h"

namespace tombolo::workload {
namespace {

// An ordered pair as one number, so that pairs can be sorted and counted.
uint64_t pair_key(int32_t from, int32_t to) {
  return static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
}
int32_t from_of(uint64_t key) { return static_cast<int32_t>(key >> 32); }
int32_t to_of(uint64_t key) { return static_cast<int32_t>(key & 0xffffffff); }

void sort_and_unite(std::vector<uint64_t>& keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

// The ring over `ring`, each sending `bytes` to the next.
template <class Visit>
void visit_ring(std::span<const int32_t> ring, TrafficKind kind, double bytes, Visit& visit) {
  if (ring.size() < 2 || bytes == 0) return;
  for (size_t i = 0; i < ring.size(); ++i) {
    visit(kind, ring[i], ring[(i + 1) % ring.size()], bytes);
  }
}

}  // namespace

PairTraffic KindTraffic::total() const {
  PairTraffic sum;
  for (const PairTraffic& part : by_reach) {
    sum.bytes += part.bytes;
    sum.pairs += part.pairs;
  }
  return sum;
}

Bytes TrafficSummary::bytes() const {
  Bytes sum;
  for (const KindTraffic& kind : by_kind) sum += kind.total().bytes;
  return sum;
}

Result<Traffic> Traffic::make(const plan::Job& asked, const TrafficOptions& options) {
  const plan::Job job = TRY(cost::with_batch_by_speed(asked));
  Traffic out;
  out.volume_ = TRY(traffic_volume(job, options.volume));
  TRY(out.number(job));
  out.weigh(job);
  out.flat_rings_ = options.flat_rings;
  out.notes_ = job.notes;
  if (out.gpus() > job.cluster.devices()) {
    out.notes_.push_back(fmt::format(
        "the job needs {} devices, the cluster has {}: its last datacenter is counted as larger",
        out.gpus(), job.cluster.devices()));
  }
  out.notes_.insert(out.notes_.end(), out.volume_.notes.begin(), out.volume_.notes.end());
  TRY(out.place(job));
  TRY(out.exchange_apart(job));
  return out;
}

Status Traffic::number(const plan::Job& job) {
  const layout::Parallelism& p = job.parallelism;
  if (p.tensor_per_stage.empty()) {
    sections_.push_back({TRY(layout::RankNumbering::make(p, job.file))});
    gpus_ = sections_.front().numbering.ranks();
    return {};
  }
  for (int64_t s = 0; s < p.pipeline; ++s) {
    layout::Parallelism one = p;
    one.tensor = p.tensor_at(s);
    one.tensor_per_stage.clear();
    one.pipeline = 1;
    sections_.push_back(
        {TRY(layout::RankNumbering::make(one, job.file)), static_cast<int32_t>(gpus_), s});
    gpus_ += sections_.back().numbering.ranks();
    if (gpus_ > layout::RankNumbering::kRanksMax) {
      return unusable(fmt::format("{}: parallelism: more than {} ranks", job.file,
                                  layout::RankNumbering::kRanksMax),
                      "smaller degrees");
    }
  }
  return {};
}

void Traffic::weigh(const plan::Job& job) {
  if (job.parallelism.microbatches_per_replica.empty()) return;
  const double mean =
      real(job.training.global_batch) / real(job.training.micro_batch * job.parallelism.data);
  for (const Section& section : sections_) {
    for (int64_t rank = 0; rank < section.numbering.ranks(); ++rank) {
      const auto replica = static_cast<int32_t>(section.numbering.replica_of(rank));
      work_.push_back(real(job.microbatches_of(replica)) / mean);
    }
  }
}

// Over several datacenters, or with different stages, as a Plan has them; else by rank.
Status Traffic::place(const plan::Job& job) {
  const cluster::Cluster& cluster = job.cluster;
  CHECK(!cluster.datacenters.empty(), "{} GPUs without a datacenter", gpus());
  const bool like = job.parallelism.tensor_per_stage.empty();
  const bool too_many = gpus() > cluster.devices();
  if (like && (cluster.datacenters.size() == 1 || too_many)) {
    fill(cluster);
    return {};
  }
  plan::Plan placed;  // of it, where ranks sit
  placed.cluster = cluster;
  placed.ranks = TRY(
      during(layout::place(job.parallelism, cluster, job.file), "placing the GPUs of " + job.file));
  std::vector<int32_t> domains_before{0};
  for (const cluster::Datacenter& datacenter : cluster.datacenters) {
    const int64_t size = datacenter.scale_up.domain;
    domain_size_ = std::max(domain_size_, size);
    domains_before.push_back(domains_before.back() +
                             static_cast<int32_t>((datacenter.devices() + size - 1) / size));
  }
  for (const layout::Placement& rank : placed.ranks) {
    const size_t d = placed.datacenter_index(rank.rank);
    const cluster::Datacenter& datacenter = cluster.datacenters[d];
    for (int64_t shard = 0; shard < rank.shards; ++shard) {
      const layout::Place at = placed.place_of(rank.rank, shard);
      const int64_t device = at.node * datacenter.devices_per_node + at.device;
      const int64_t size = datacenter.scale_up.domain;
      places_.push_back({static_cast<int32_t>(d),
                         domains_before[d] + static_cast<int32_t>(device / size),
                         static_cast<int32_t>(device % size)});
    }
  }
  CHECK(std::ssize(places_) == gpus(), "{} of {} GPUs have a place", places_.size(), gpus());
  return {};
}

// Shard i of a rank tells shard i of another. A job that is larger than its cluster has no Plan: its
// replicas are counted as rings, and a note says that the cluster was taken to be larger.
Status Traffic::exchange_apart(const plan::Job& job) {
  const bool may_lie_apart = job.cluster.datacenters.size() > 1 && job.parallelism.data > 1;
  if (!may_lie_apart || gpus() > job.cluster.devices()) return {};
  const plan::Plan plan = TRY(cost::make_plan(job));
  if (!plan.exchanges_gradients()) return {};
  std::vector<int32_t> first_gpu;
  int64_t before = 0;
  for (const layout::Placement& rank : plan.ranks) {
    first_gpu.push_back(static_cast<int32_t>(before));
    before += rank.shards;
  }
  CHECK(before == gpus(), "{} of {} GPUs are in the Plan", before, gpus());
  for (int32_t stage = 0; stage < std::ssize(plan.stages); ++stage) {
    const auto position = static_cast<size_t>(plan.position_of(stage));
    if (apart_.size() <= position) apart_.resize(position + 1);
    apart_[position] = plan.exchanges_gradients(stage);
  }
  const ledger::Ledger ledger = ledger::Ledger::of(plan);
  for (const ledger::PairFlow& flow : ledger.pairs()) {
    if (flow.kind != ledger::MessageClass::kGradients &&
        flow.kind != ledger::MessageClass::kOuterSteps)
      continue;
    const int64_t shards = plan.ranks[static_cast<size_t>(flow.from)].shards;
    for (int32_t shard = 0; shard < shards; ++shard) {
      transfers_apart_.push_back({first_gpu[static_cast<size_t>(flow.from)] + shard,
                                  first_gpu[static_cast<size_t>(flow.to)] + shard,
                                  flow.bytes.value / real(shards)});
    }
  }
  return {};
}

// Ranks fill the datacenters in the order of the file, and each of these domain by domain.
void Traffic::fill(const cluster::Cluster& cluster) {
  places_.reserve(static_cast<size_t>(gpus()));
  int32_t domains_before = 0;
  const auto datacenters = static_cast<int32_t>(cluster.datacenters.size());
  for (int32_t d = 0; d < datacenters; ++d) {
    const cluster::Datacenter& datacenter = cluster.datacenters[static_cast<size_t>(d)];
    const int64_t left = gpus() - static_cast<int64_t>(places_.size());
    if (left == 0) break;
    const int64_t here = d + 1 == datacenters ? left : std::min(left, datacenter.devices());
    const int64_t size = datacenter.scale_up.domain;
    domain_size_ = std::max(domain_size_, size);
    for (int64_t i = 0; i < here; ++i) {
      places_.push_back(
          {d, domains_before + static_cast<int32_t>(i / size), static_cast<int32_t>(i % size)});
    }
    domains_before = places_.back().domain + 1;
  }
}

PairReach Traffic::reach(int32_t from, int32_t to) const {
  const Place &a = places_[static_cast<size_t>(from)], &b = places_[static_cast<size_t>(to)];
  if (a.domain == b.domain) return PairReach::kDomain;
  if (a.datacenter != b.datacenter) return PairReach::kOtherDatacenter;
  return a.local == b.local ? PairReach::kRail : PairReach::kOtherRail;
}

std::vector<int32_t> Traffic::members_of(const Section& section, const layout::RankGroups& groups,
                                         size_t i) {
  std::vector<int32_t> members = groups.members(i);
  for (int32_t& rank : members) rank += section.first;
  return members;
}

template <class Visit>
void Traffic::for_each_ring(layout::RankGroup kind_of_group, TrafficKind kind,
                            Bytes StageVolume::*gathered, Visit&& visit) const {
  for (const Section& section : sections_) {
    const layout::RankGroups groups = section.numbering.groups(kind_of_group);
    if (groups.offsets.size() < 2) continue;
    for (size_t g = 0; g < groups.bases.size(); ++g) {
      const int64_t stage = section.stage + section.numbering.stage_of(groups.bases[g]);
      if (kind == TrafficKind::kData && !apart_.empty() && apart_[static_cast<size_t>(stage)])
        continue;
      const std::vector<int32_t> members = members_of(section, groups, g);
      const double work = kind == TrafficKind::kData ? 1 : work_of(members.front());
      const double bytes = (volume_.stages[static_cast<size_t>(stage)].*gathered).value;
      visit_group(members, kind, work * bytes, visit);
    }
  }
}

// One group's ring, or its rings along rails and inside domains.
template <class Visit>
void Traffic::visit_group(const std::vector<int32_t>& members, TrafficKind kind, double bytes,
                          Visit&& visit) const {
  const size_t n = members.size();
  std::vector<int32_t> rail;
  const auto place_of = [&](size_t i) { return places_[static_cast<size_t>(members[i])]; };

  // x of them in each domain, on the same rails in all?
  size_t x = 1;
  while (x < n && place_of(x).domain == place_of(0).domain) ++x;
  bool even = !flat_rings_ && x > 1 && x < n && n % x == 0;
  for (size_t i = 0; even && i < n; ++i) {
    even = place_of(i).local == place_of(i % x).local &&
           place_of(i).domain == place_of(i - i % x).domain;
  }
  if (!even) {
    const auto share = static_cast<double>(n - 1) / static_cast<double>(n);
    visit_ring(members, kind, bytes * share, visit);
    return;
  }
  const size_t y = n / x;
  const auto inside = static_cast<double>(x - 1) / static_cast<double>(x);
  const auto along = static_cast<double>(y - 1) / static_cast<double>(n);
  for (size_t i = 0; i < n; i += x) {
    visit_ring(std::span(members).subspan(i, x), kind, bytes * inside, visit);
  }
  for (size_t i = 0; i < x; ++i) {
    rail.clear();
    for (size_t j = i; j < n; j += x) rail.push_back(members[j]);
    visit_ring(std::span<const int32_t>(rail), kind, bytes * along, visit);
  }
}

template <class Visit>
void Traffic::for_each_stage_transfer(Visit&& visit) const {
  if (sections_.size() > 1) return for_each_unlike_transfer(visit);
  const layout::RankGroups groups =
      sections_.front().numbering.groups(layout::RankGroup::kPipeline);
  const size_t p = groups.offsets.size();
  if (p < 2) return;
  for (size_t g = 0; g < groups.bases.size(); ++g) {
    const std::vector<int32_t> stages = groups.members(g);
    const int32_t first = stages.front(), last = stages.back();
    const auto both_ways = [&](int32_t from, int32_t to, double bytes) {
      if (bytes == 0) return;
      visit(TrafficKind::kPipeline, from, to, bytes);
      visit(TrafficKind::kPipeline, to, from, bytes);
    };
    const double boundary = volume_.boundary.value * work_of(first);
    for (size_t s = 0; s + 1 < p; ++s) {
      both_ways(stages[s], stages[s + 1], boundary * real(volume_.chunks));
    }
    if (!volume_.folded) both_ways(last, first, boundary * real(volume_.chunks - 1));
    both_ways(last, first, volume_.tied.value);
  }
}

// Ranks of a stage: tensor ranks innermost (plan::place wants them so), then context and data.
template <class Visit>
void Traffic::for_each_unlike_transfer(Visit&& visit) const {
  // context x data of them, each with activations of its own
  const auto pipelines = static_cast<int64_t>(
      sections_.front().numbering.groups(layout::RankGroup::kTensor).bases.size());
  // What neighbours hold in other parts; each device has one of `senders`, or of `receivers`.
  const auto split = [&](const Section& a, const Section& b, int64_t pipe, double whole) {
    const int64_t senders = a.numbering.ranks() / pipelines;
    const int64_t receivers = b.numbering.ranks() / pipelines;
    for (int64_t i = 0; i < senders; ++i) {
      for (int64_t j = i * receivers / senders; j * senders < (i + 1) * receivers; ++j) {
        const int64_t shared =
            std::min((i + 1) * receivers, (j + 1) * senders) - std::max(i * receivers, j * senders);
        visit(TrafficKind::kPipeline, static_cast<int32_t>(a.first + pipe * senders + i),
              static_cast<int32_t>(b.first + pipe * receivers + j),
              whole * real(shared) / real(senders * receivers));
      }
    }
  };
  const auto both_ways = [&](const Section& a, const Section& b, int64_t pipe, double times) {
    const int64_t shards = a.numbering.ranks() / pipelines;
    const double whole = volume_.whole_boundary.value * times *
                         work_of(static_cast<int32_t>(a.first + pipe * shards));
    if (whole == 0) return;
    for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      split(*from, *to, pipe, whole);
    }
  };
  const Section &first = sections_.front(), &last = sections_.back();
  for (int64_t pipe = 0; pipe < pipelines; ++pipe) {
    for (size_t s = 0; s + 1 < sections_.size(); ++s) {
      both_ways(sections_[s], sections_[s + 1], pipe, real(volume_.chunks));
    }
    if (!volume_.folded) both_ways(last, first, pipe, real(volume_.chunks - 1));
    if (volume_.whole_tied.value == 0) continue;
    split(last, first, pipe, volume_.whole_tied.value);
    split(first, last, pipe, volume_.whole_tied.value);
  }
}

template <class Visit>
void Traffic::for_each_transfer(Visit&& visit) const {
  for_each_ring(layout::RankGroup::kTensor, TrafficKind::kTensor, &StageVolume::tensor, visit);
  for_each_ring(layout::RankGroup::kContext, TrafficKind::kContext, &StageVolume::context, visit);
  for_each_ring(layout::RankGroup::kGradients, TrafficKind::kData, &StageVolume::data, visit);
  for_each_ring(layout::RankGroup::kExpertGradients, TrafficKind::kData, &StageVolume::expert_data,
                visit);
  for (const Transfer& each : transfers_apart_) {
    visit(TrafficKind::kData, each.from, each.to, each.bytes);
  }
  for_each_stage_transfer(visit);
}

template <class Visit>
void Traffic::for_each_exchange(Visit&& visit) const {
  for (const Section& section : sections_) {
    const layout::RankGroups groups = section.numbering.groups(layout::RankGroup::kExpert);
    if (groups.offsets.size() < 2) continue;
    for (size_t g = 0; g < groups.bases.size(); ++g) {
      const int64_t stage = section.stage + section.numbering.stage_of(groups.bases[g]);
      const std::vector<int32_t> members = members_of(section, groups, g);
      double work = 0;
      for (const int32_t rank : members) work += work_of(rank) / real(std::ssize(members));
      const double bytes = volume_.stages[static_cast<size_t>(stage)].expert.value;
      if (bytes > 0) visit(members, work * bytes);
    }
  }
}

// Adds up transfers: bytes as they come, pairs when all are known, as a pair may come twice.
class Traffic::Tally {
 public:
  explicit Tally(const Traffic& traffic) : traffic_(traffic) {
    const auto gpus = static_cast<size_t>(traffic.gpus());
    int32_t last = 0;
    for (const Place& place : traffic.places_) last = std::max(last, place.domain);
    const auto domains = static_cast<size_t>(last) + 1;
    own_.resize(domains);
    forwarded_.resize(domains);
    for (std::vector<double>& by_gpu : sent_) by_gpu.resize(gpus);
    exchange_of_.resize(gpus, -1);
  }

  void add(TrafficKind kind, int32_t from, int32_t to, double bytes) {
    add_bytes(kind, from, traffic_.reach(from, to), bytes);
    keys_[static_cast<size_t>(kind)].push_back(pair_key(from, to));
  }

  // Member by member: how many others share its domain, its rail, its datacenter.
  void add_exchange(const std::vector<int32_t>& members, double bytes) {
    std::map<int32_t, int64_t> in_domain, in_datacenter;
    std::map<std::pair<int32_t, int32_t>, int64_t> on_rail;
    for (const int32_t rank : members) {
      const Place& place = place_of(rank);
      ++in_domain[place.domain];
      ++in_datacenter[place.datacenter];
      ++on_rail[{place.datacenter, place.local}];
      exchange_of_[static_cast<size_t>(rank)] = exchanges_;
    }
    ++exchanges_;
    for (const int32_t rank : members) {
      const Place& place = place_of(rank);
      const int64_t domain = in_domain[place.domain] - 1;
      const int64_t rail = on_rail[{place.datacenter, place.local}] - 1;
      const int64_t here = in_datacenter[place.datacenter] - 1;
      const std::pair<PairReach, int64_t> others[] = {
          {PairReach::kDomain, domain},
          {PairReach::kRail, rail},
          {PairReach::kOtherRail, here - domain - rail},
          {PairReach::kOtherDatacenter, static_cast<int64_t>(members.size()) - 1 - here}};
      for (const auto& [where, number] : others) {
        at(TrafficKind::kExpert, where).pairs += number;
        add_bytes(TrafficKind::kExpert, rank, where, bytes * static_cast<double>(number));
      }
    }
  }

  TrafficSummary finish() && {
    out_.gpus = traffic_.gpus();
    out_.pairs = out_.gpus * (out_.gpus - 1);
    count_pairs();
    for (size_t kind = 0; kind < kTrafficKinds; ++kind) {
      out_.by_kind[kind].gpu_max = Bytes{*std::max_element(sent_[kind].begin(), sent_[kind].end())};
    }
    size_t busiest = 0;
    for (size_t d = 0; d < own_.size(); ++d) {
      if (own_[d] + forwarded_[d] > own_[busiest] + forwarded_[busiest]) busiest = d;
    }
    out_.forwarding = {.bytes = Bytes{std::accumulate(forwarded_.begin(), forwarded_.end(), 0.0)},
                       .domains = Bytes{std::accumulate(own_.begin(), own_.end(), 0.0)},
                       .busiest_own = Bytes{own_[busiest]},
                       .busiest_forwarded = Bytes{forwarded_[busiest]}};
    return out_;
  }

 private:
  const Place& place_of(int32_t rank) const { return traffic_.places_[static_cast<size_t>(rank)]; }
  PairTraffic& at(TrafficKind kind, PairReach where) {
    return out_.by_kind[static_cast<size_t>(kind)].by_reach[static_cast<size_t>(where)];
  }

  void add_bytes(TrafficKind kind, int32_t from, PairReach where, double bytes) {
    at(kind, where).bytes += Bytes{bytes};
    sent_[static_cast<size_t>(kind)][static_cast<size_t>(from)] += bytes;
    const auto domain = static_cast<size_t>(place_of(from).domain);
    if (where == PairReach::kDomain) own_[domain] += bytes;
    if (where == PairReach::kOtherRail) forwarded_[domain] += bytes;
  }

  // Each kind counts its pairs once; a pair of two kinds counts once among those with traffic.
  void count_pairs() {
    std::vector<uint64_t> united;
    for (size_t kind = 0; kind < kTrafficKinds; ++kind) {
      sort_and_unite(keys_[kind]);
      for (const uint64_t key : keys_[kind]) {
        const PairReach where = traffic_.reach(from_of(key), to_of(key));
        ++at(static_cast<TrafficKind>(kind), where).pairs;
        // Pairs of an exchange are all counted there already.
        const int32_t exchange = exchange_of_[static_cast<size_t>(from_of(key))];
        const bool exchanged =
            exchange >= 0 && exchange == exchange_of_[static_cast<size_t>(to_of(key))];
        if (!exchanged) united.push_back(key);
      }
      keys_[kind] = {};
    }
    sort_and_unite(united);
    const int64_t with =
        out_.of(TrafficKind::kExpert).total().pairs + static_cast<int64_t>(united.size());
    CHECK(with <= out_.pairs, "{} pairs with traffic of {}", with, out_.pairs);
    out_.pairs_without_traffic = out_.pairs - with;
  }

  const Traffic& traffic_;
  TrafficSummary out_;
  std::array<std::vector<double>, kTrafficKinds> sent_;    // by GPU
  std::array<std::vector<uint64_t>, kTrafficKinds> keys_;  // pairs
  std::vector<double> own_, forwarded_;                    // by domain of the sender
  std::vector<int32_t> exchange_of_;                       // by GPU; -1: none
  int32_t exchanges_ = 0;
};

TrafficSummary Traffic::summarize() const {
  Tally tally(*this);
  for_each_transfer([&](TrafficKind kind, int32_t from, int32_t to, double bytes) {
    tally.add(kind, from, to, bytes);
  });
  for_each_exchange([&](const std::vector<int32_t>& members, double bytes) {
    tally.add_exchange(members, bytes);
  });
  return std::move(tally).finish();
}

TrafficMatrix Traffic::matrix(int64_t first, int64_t count, int64_t side_max) const {
  CHECK(first >= 0 && count > 0 && first + count <= gpus() && side_max > 0, "{} GPUs from {} of {}",
        count, first, gpus());
  TrafficMatrix out;
  out.first = first;
  out.count = count;
  out.per_block = (count + side_max - 1) / side_max;
  if (out.per_block > 1) {
    // Up to a domain: its smallest part that is large enough; beyond: whole domains.
    if (out.per_block > domain_size_) {
      out.per_block = (out.per_block + domain_size_ - 1) / domain_size_ * domain_size_;
    }
    while (domain_size_ % out.per_block != 0 && out.per_block % domain_size_ != 0) ++out.per_block;
  }
  out.side = (count + out.per_block - 1) / out.per_block;
  for (std::vector<double>& bytes : out.bytes) {
    bytes.resize(static_cast<size_t>(out.side * out.side));
  }
  const auto block_of = [&](int32_t rank) {
    return rank < first || rank >= first + count ? -1 : (rank - first) / out.per_block;
  };
  const auto add = [&](TrafficKind kind, int64_t from, int64_t to, double bytes) {
    out.bytes[static_cast<size_t>(kind)][static_cast<size_t>(from * out.side + to)] += bytes;
  };
  for_each_transfer([&](TrafficKind kind, int32_t from, int32_t to, double bytes) {
    const int64_t a = block_of(from), b = block_of(to);
    if (a >= 0 && b >= 0) add(kind, a, b, bytes);
  });
  for_each_exchange([&](const std::vector<int32_t>& members, double bytes) {
    std::map<int64_t, int64_t> in_block;
    for (const int32_t rank : members) ++in_block[block_of(rank)];
    in_block.erase(-1);
    for (const auto& [a, senders] : in_block) {
      for (const auto& [b, receivers] : in_block) {
        const int64_t pairs = senders * (a == b ? receivers - 1 : receivers);
        if (pairs > 0) add(TrafficKind::kExpert, a, b, bytes * static_cast<double>(pairs));
      }
    }
  });
  return out;
}

}  // namespace tombolo::workload
