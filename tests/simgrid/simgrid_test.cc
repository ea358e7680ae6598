// Our fluid network against SimGrid's, flow by flow.
//
// SimGrid's model CM02 with factors of 1, no cross traffic and no window is ours but for two rules,
// which it keeps even with weight-S at 0 (its network_cm02.cpp):
//   a flow waits for the latency of its route first and takes bandwidth only then: ours starts
//     that much later;
//   a flow's weight is 1 / latency, as TCP's would be (1 where the latency is 0): ours is given it.
// Then both are weighted max-min fair, and end at the same times. A cap is a link of the flow's own
// there, since one-sided communications take no rate. TCP-gamma, the window, is set out of reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <simgrid/s4u.hpp>

#include "base/random.h"
#include "predict/engine/fluid.h"

namespace tombolo::engine {
namespace {

namespace sg = simgrid::s4u;

struct Path {
  double bandwidth;  // B/s
  double latency;    // s
};
struct Transfer {
  SimTime start;
  uint64_t bytes;
  std::vector<uint32_t> links;
  double cap;      // B/s
  double latency;  // s, of all its links
};
struct Case {
  std::vector<Path> links;
  std::vector<Transfer> transfers;
};

// 1 to 5 links of 1 to 100 MB/s and up to 20 ms, of which every fourth has no latency; 1 to 12
// transfers of up to 50 MB within two seconds, every third with a cap.
Case random_case(Random& random) {
  Case out;
  for (uint64_t links = 1 + random.below(5); out.links.size() < links;) {
    out.links.push_back({1e6 * static_cast<double>(1 + random.below(100)),
                         random.below(4) == 0 ? 0 : 0.02 * random.uniform()});
  }
  for (uint64_t transfers = 1 + random.below(12); out.transfers.size() < transfers;) {
    Transfer transfer{{static_cast<int64_t>(random.below(2'000'000'000))},
                      1 + random.below(50'000'000),
                      {},
                      random.below(3) == 0 ? 1e6 * (1 + 30 * random.uniform()) : 1e12,
                      0};
    for (uint32_t link = 0; link < out.links.size(); ++link) {
      if (random.below(2) == 0) transfer.links.push_back(link);
    }
    if (transfer.links.empty()) transfer.links.push_back(0);
    for (const uint32_t link : transfer.links) transfer.latency += out.links[link].latency;
    out.transfers.push_back(std::move(transfer));
  }
  return out;
}

std::vector<Case> random_cases() {
  std::vector<Case> out;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    out.push_back(random_case(random));
  }
  return out;
}

// Seconds at which each transfer ends.
std::vector<double> our_ends(const Case& c) {
  std::vector<Link> links;
  for (const Path& path : c.links) links.push_back({{path.bandwidth}});
  std::vector<std::pair<SimTime, size_t>> order;
  for (size_t i = 0; i < c.transfers.size(); ++i) {
    order.emplace_back(c.transfers[i].start + round_to_ns(Seconds{c.transfers[i].latency}), i);
  }
  std::sort(order.begin(), order.end());
  FluidNetwork network(links);
  for (const auto& [start, i] : order) {
    const Transfer& transfer = c.transfers[i];
    const double weight = transfer.latency > 0 ? 1 / transfer.latency : 1;
    network.start(start, {static_cast<double>(transfer.bytes)},
                  {transfer.links, weight, {transfer.cap}});
  }
  std::vector<double> ends(c.transfers.size());
  while (const auto next = network.next_completion()) {
    for (const Completion& done : network.finish(*next)) {
      ends[order[done.flow].second] = static_cast<double>(done.time.ns) * 1e-9;
    }
  }
  return ends;
}

// All cases in one platform, since a process has one engine: each case has its own links, each
// transfer its own two hosts, the route between them, and a link that is its cap.
std::vector<std::vector<double>> their_ends(const std::vector<Case>& cases) {
  std::vector<std::string> words{"simgrid_test",
                                 "--log=root.thresh:warning",
                                 "--cfg=contexts/factory:thread",
                                 "--cfg=surf/precision:1e-9",
                                 "--cfg=maxmin/precision:1e-9",
                                 "--cfg=network/model:CM02",
                                 "--cfg=network/latency-factor:1",
                                 "--cfg=network/bandwidth-factor:1",
                                 "--cfg=network/weight-S:0",
                                 "--cfg=network/crosstraffic:0",
                                 "--cfg=network/TCP-gamma:1e30"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  auto count = static_cast<int>(words.size());
  sg::Engine engine(&count, arguments.data());

  struct Send {
    SimTime start;
    sg::Host* from;
    sg::Host* to;
    const Transfer* transfer;
    double* end;
  };
  std::vector<Send> sends;
  std::vector<std::vector<double>> ends;
  for (const Case& c : cases) ends.emplace_back(c.transfers.size());
  sg::NetZone* zone = sg::create_full_zone("world");
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string name = std::to_string(i);
    std::vector<const sg::Link*> links;
    for (const Path& path : cases[i].links) {
      sg::Link* link =
          zone->create_link("link-" + name + "-" + std::to_string(links.size()), path.bandwidth);
      links.push_back(link->set_latency(path.latency)->seal());
    }
    for (size_t k = 0; k < cases[i].transfers.size(); ++k) {
      const Transfer& transfer = cases[i].transfers[k];
      const std::string ordinal = name + "-" + std::to_string(k);
      sg::Host* from = zone->create_host("from-" + ordinal, 1e9)->seal();
      sg::Host* to = zone->create_host("to-" + ordinal, 1e9)->seal();
      const sg::Link* own =
          zone->create_link("cap-" + ordinal, transfer.cap)->set_latency(0.0)->seal();
      std::vector<sg::LinkInRoute> route{sg::LinkInRoute(own)};
      for (const uint32_t link : transfer.links) route.emplace_back(links[link]);
      zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
      sends.push_back({transfer.start, from, to, &transfer, &ends[i][k]});
    }
  }
  zone->seal();
  std::sort(sends.begin(), sends.end(),
            [](const Send& a, const Send& b) { return a.start < b.start; });
  sg::Actor::create("sender", sends[0].from, [&] {
    std::vector<sg::CommPtr> under_way;
    for (const Send& send : sends) {
      sg::this_actor::sleep_until(static_cast<double>(send.start.ns) * 1e-9);
      sg::CommPtr comm = sg::Comm::sendto_init(send.from, send.to);
      comm->set_payload_size(send.transfer->bytes);
      comm->start();
      under_way.push_back(comm);
    }
    for (size_t i = 0; i < sends.size(); ++i) {
      under_way[i]->wait();
      *sends[i].end = under_way[i]->get_finish_time();
    }
  });
  engine.run();
  return ends;
}

TEST(SimGrid, EndsTheSameTransfersAtTheSameTimes) {
  const std::vector<Case> cases = random_cases();
  const std::vector<std::vector<double>> theirs = their_ends(cases);
  double worst = 0;
  size_t transfers = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::vector<double> ours = our_ends(cases[i]);
    for (size_t k = 0; k < ours.size(); ++k) {
      const double start = static_cast<double>(cases[i].transfers[k].start.ns) * 1e-9;
      const double took = theirs[i][k] - start;
      const double gap = std::abs(ours[k] - theirs[i][k]) / took;
      EXPECT_LE(gap, 1e-5) << "case " << i << ", transfer " << k << ": " << ours[k] - start
                           << " s, SimGrid " << took << " s";
      worst = std::max(worst, gap);
      ++transfers;
    }
  }
  RecordProperty("transfers", static_cast<int>(transfers));
  RecordProperty("worst_relative_gap", std::to_string(worst));
  printf("%zu transfers, worst relative gap %.2g\n", transfers, worst);
}

}  // namespace
}  // namespace tombolo::engine
