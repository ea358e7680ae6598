// A network law of one's own: what do the headers of packets cost an all-reduce on 64 NPUs?
//
//   own_law
//
// Messages are cut into packets of 4 KiB, each of which costs a link so many nanoseconds more than its
// bytes. Links serve one message at a time, in the order in which messages come, and store it whole
// before it leaves again: without the overhead this is the law `congestion`, to the nanosecond.
#include <fmt/core.h>
#include <tombolo/predict/astra/astra_run.h>

#include <algorithm>

using namespace tombolo;
using astra::MessageRun;
using network::Routes;

class Packets : public astra::MessageLaw {
 public:
  Packets(const network::Topology& topology, MessageRun& run, int64_t overhead_ns)
      : MessageLaw(run), topology_(topology), overhead_ns_(overhead_ns) {}

  void send(const Message& message) override {
    if (message.id >= under_way_.size()) under_way_.resize(message.id + 1);
    under_way_[message.id] = {message, {message.from, false}};
    cross_next_link(message.id);
  }

  // A message has come to the end of a link.
  void woken(MessageRun::About, uint64_t id) override {
    const UnderWay& it = under_way_[id];
    if (it.at == Routes::Place{it.message.to, false}) return run_.arrived(it.message.id);
    cross_next_link(it.message.id);
  }

 private:
  struct UnderWay {
    Message message;
    Routes::Place at;
  };

  void cross_next_link(uint32_t id) {
    UnderWay& it = under_way_[id];
    const Routes::Hop hop = routes_.next_hop(it.at, it.message.to);
    const int64_t packets = (it.message.bytes + 4095) / 4096;
    const SimDuration headers{packets * overhead_ns_};
    const SimTime begin = std::max(run_.now(), free_at_[hop.link]);
    free_at_[hop.link] = begin + topology_.serialization(hop.dimension, it.message.bytes) + headers;
    it.at = hop.end;
    run_.wake(begin + topology_.delay(hop.dimension, 1, it.message.bytes) + headers,
              MessageRun::About::kMessage, id);
  }

  const network::Topology& topology_;
  const int64_t overhead_ns_;
  const Routes routes_{topology_};
  std::vector<SimTime> free_at_ = std::vector<SimTime>(routes_.links());
  std::vector<UnderWay> under_way_;  // by the number of the message
};

// An all-reduce of 1 MiB: 8 nodes on a switch, with rings of 8 NPUs inside.
Status print_row(const std::string& name, const astra::MachineOptions& machine) {
  const auto topology = TRY(network::Topology::create(
      {{network::Block::kRing, 8, 50, 500}, {network::Block::kSwitch, 8, 25, 1000}}));
  astra::SystemSettings settings{.active_chunks = 4, .splits = 4};
  settings.algorithms[graph::CollectiveType::kAllReduce] = {
      *network::parse_algorithm("ring"), *network::parse_algorithm("halvingDoubling")};
  const graph::Node all_reduce{.type = graph::NodeType::kCollective, .comm_size = 1 << 20};
  const auto workload = TRY(astra::make_workload({{0, {all_reduce}}}, {}, topology, settings));
  const auto answer = TRY(astra::run_astra(topology, settings, workload, machine, true));
  fmt::print("{:26}  {:>8} ns\n", name, answer.finish().ns);
  return {};
}

Status run() {
  TRY(print_row("analytical", {.law = astra::NetworkLaw::kAnalytical}));
  TRY(print_row("congestion", {.law = astra::NetworkLaw::kCongestion}));
  for (const int64_t overhead : {0, 20, 100}) {
    const auto law = [&](const network::Topology& topology, MessageRun& run) {
      return std::make_unique<Packets>(topology, run, overhead);
    };
    TRY(print_row(fmt::format("packets, {} ns a header", overhead), {.own_law = law}));
  }
  return {};
}

int main() {
  const Status status = run();
  if (status) return 0;
  fmt::print(stderr, "own_law: {}\n", status.error().text());
  return status.error().exit_code();
}
