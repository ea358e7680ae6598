// One ledger: what it says that ranks send, the simulator sends, pair by pair; `traffic` counts as many
// bytes over the WAN; and every command pays the same for them. A failure prints the job.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "base/random.h"
#include "predict/cost/price_plan.h"
#include "predict/cost/stage_laws.h"
#include "predict/ledger/plan_ledger.h"
#include "predict/sim/simulate.h"
#include "predict/workload/traffic.h"
#include "spec/plan/job.h"
#include "spec/schedule/local_steps.h"
#include "support/seeds.h"

namespace tombolo {
namespace {

using ledger::Ledger;
using ledger::MessageClass;

template <class T>
const T& one_of(Random& random, const std::vector<T>& all) {
  return all[random.below(all.size())];
}

std::string quoted(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", name);
  }
  return "[" + out + "]";
}

std::string random_exchange(Random& random) {
  const std::string mode =
      one_of<std::string>(random, {"dense", "dense", "sparse", "local", "sparse-local"});
  std::string out = fmt::format("[exchange]\nmode = \"{}\"\n", mode);
  if (mode.find("local") != mode.npos) {
    const int steps = one_of<int>(random, {1, 3, 6});
    out += fmt::format("steps = {}\n", steps);
    if (steps == 6 && random.below(2) == 0) out += "fragments = 3\ndelay = 1\n";
  }
  if (mode.find("sparse") != mode.npos) out += "density = 0.02\n";
  return out;
}

// Every draw is a statement of its own: compilers evaluate arguments in orders of their own.
//
// Up to three datacenters with a small model; pipelines across them, or at home and their gradients
// across, in every mode.
std::string random_job(Random& random) {
  const auto places = 1 + static_cast<size_t>(random.below(3));
  const int tensor = 1 << random.below(2);
  const int pipeline = 1 << random.below(3);
  const int data = one_of<int>(random, {1, 2, 3, 4});
  const bool across = random.below(2) == 0;  // pipelines, not replicas
  // Local steps and sparse updates know no tied ends.
  const bool tied = random.below(2) == 0 && (across || places == 1 || pipeline == 1);
  std::string job = fmt::format(
      "[model]\nlayers = 8\nhidden = 96\nheads = 6\nvocabulary = 1000\nsequence = 48\n"
      "tied_embeddings = {}\n",
      tied);
  std::vector<std::string> names;
  for (size_t d = 0; d < places; ++d) {
    names.push_back(std::string(1, static_cast<char>('a' + d)));
    job += fmt::format(
        "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"a100-80g\"\nnodes = 32\n"
        "devices_per_node = {}\nprice = \"{} USD/device-hour\"\n",
        names.back(), tensor, d + 1);
  }
  for (size_t a = 0; a < places; ++a) {
    for (size_t b = a + 1; b < places; ++b) {
      job += fmt::format(
          "[[cluster.wan]]\nbetween = [\"{}\", \"{}\"]\none_way_latency = \"10 ms\"\n"
          "node_pair_limit = \"1 Gbps\"\nprice = \"0.0{} USD/GB\"\n",
          names[a], names[b], 1 + a + b);
    }
  }
  job += fmt::format(
      "[training]\nglobal_batch = {}\nprecision = \"{}\"\nstack = \"{}\"\n[parallelism]\n"
      "tensor = {}\npipeline = {}\ndata = {}\n",
      12 * data, one_of<std::string>(random, {"bf16", "fp16", "fp32"}),
      one_of<std::string>(random, {"tombolo", "megatron", "nemo"}), tensor, pipeline, data);
  if (places == 1) return job;
  std::vector<std::string> each;
  for (int i = 0; i < (across ? pipeline : data); ++i) {
    each.push_back(names[across ? static_cast<size_t>(i) * places / static_cast<size_t>(pipeline)
                                : random.below(places)]);
  }
  job += fmt::format("{} = {}\n", across ? "datacenter_per_stage" : "datacenter_per_replica",
                     quoted(each));
  if (!across && data > 1) job += random_exchange(random);
  return job;
}

using Pairs = std::map<std::pair<int32_t, int32_t>, double>;

// Bytes of one iteration, from the ledger.
Pairs of_ledger(const Ledger& ledger) {
  Pairs pairs;
  for (const ledger::PairFlow& flow : ledger.pairs()) {
    pairs[{flow.from, flow.to}] += flow.bytes.value;
  }
  return pairs;
}

// The same from a Trace of whole turns.
Pairs of_trace(const trace::Trace& trace, int64_t iterations) {
  Pairs pairs;
  for (const trace::Interval& interval : trace.intervals) {
    if (interval.lane != trace::Lane::kLink || interval.iteration > iterations) continue;
    pairs[{interval.rank, interval.peer}] +=
        static_cast<double>(interval.bytes) / static_cast<double>(iterations);
  }
  return pairs;
}

void expect_simulated(const plan::Plan& plan, const Ledger& ledger) {
  const int64_t cycle = schedule::cycle_of(plan);
  const Result<sim::Simulation> simulated = sim::simulate(plan, {.iterations = 2 * cycle});
  ASSERT_TRUE(simulated) << simulated.error().text();
  const Pairs wanted = of_ledger(ledger), got = of_trace(simulated->trace, 2 * cycle);
  ASSERT_EQ(wanted.size(), got.size());
  for (const auto& [pair, bytes] : wanted) {
    const auto there = got.find(pair);
    ASSERT_NE(there, got.end()) << pair.first << " -> " << pair.second;
    EXPECT_NEAR(there->second, bytes, 1e-9 * bytes) << pair.first << " -> " << pair.second;
  }
}

double over_the_wan(const Ledger& ledger, std::initializer_list<MessageClass> kinds) {
  double bytes = 0;
  for (const ledger::WanFlow& way : ledger.wan()) {
    for (const MessageClass kind : kinds) bytes += way.by_class[static_cast<size_t>(kind)].value;
  }
  return bytes;
}

void expect_traffic(const plan::Job& job, const Ledger& ledger) {
  const Result<workload::Traffic> traffic = workload::Traffic::make(job, {});
  ASSERT_TRUE(traffic) << traffic.error().text();
  const workload::TrafficSummary summary = traffic->summarize();
  const auto apart = [&](workload::TrafficKind kind) {
    return summary.of(kind).at(workload::PairReach::kOtherDatacenter).bytes.value;
  };
  const double gradients =
      over_the_wan(ledger, {MessageClass::kGradients, MessageClass::kOuterSteps});
  const double pipeline = over_the_wan(ledger, {MessageClass::kPipeline, MessageClass::kTied});
  EXPECT_NEAR(apart(workload::TrafficKind::kData), gradients, 1e-9 * gradients);
  EXPECT_NEAR(apart(workload::TrafficKind::kPipeline), pipeline, 1e-9 * (1 + pipeline));
}

void expect_paid(const plan::Plan& plan, const Ledger& ledger) {
  const Seconds hour{3600};
  double devices = 0, egress = 0;
  for (const layout::Placement& rank : plan.ranks) {
    devices += real(rank.shards) * (rank.datacenter[0] - 'a' + 1);
  }
  for (const ledger::WanFlow& way : ledger.wan()) {
    egress += way.bytes().value * 1e-11 * (1 + way.from[0] - 'a' + way.to[0] - 'a');
  }
  const ledger::Cost cost = ledger.cost(hour);
  ASSERT_TRUE(cost.total());
  EXPECT_NEAR(cost.devices->value, devices, 1e-9 * devices);
  EXPECT_NEAR(cost.egress.value, egress, 1e-9 * egress);
  if (const auto closed = cost::predict_plan(plan, "job.toml")) {
    EXPECT_NEAR(closed->ledger.cost(hour).total()->value, devices + egress,
                1e-9 * (devices + egress));
  }
}

TEST(OneLedger, EverybodyCountsTheSameBytesAndMoney) {
  uint64_t crossing = 0;
  const uint64_t jobs = seeds(60, 500);
  for (uint64_t seed = 0; seed < jobs; ++seed) {
    Random random(seed + 360'000);
    const std::string text = random_job(random);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    const Result<plan::Job> job = plan::parse_job(text, "job.toml");
    ASSERT_TRUE(job) << job.error().text();
    const Result<plan::Plan> plan = cost::make_plan(*job);
    ASSERT_TRUE(plan) << plan.error().text();
    const Ledger ledger = Ledger::of(*plan);
    crossing += ledger.wan().empty() ? 0 : 1;
    expect_simulated(*plan, ledger);
    expect_traffic(*job, ledger);
    expect_paid(*plan, ledger);
    if (HasFailure()) return;
  }
  EXPECT_GT(crossing, jobs / 3);
}

// What no Plan has, `traffic` does not count either: the other commands refuse such a job.
TEST(OneLedger, TrafficRefusesReplicasApartThatNoPlanHas) {
  const std::string two =
      "[model]\nlayers = 2\nhidden = 96\nheads = 6\nsequence = 48\n"
      "[[cluster.datacenter]]\nname = \"a\"\ndevice = \"a100-80g\"\nnodes = 4\n"
      "[[cluster.datacenter]]\nname = \"b\"\ndevice = \"a100-80g\"\nnodes = 4\n"
      "[[cluster.wan]]\nbetween = [\"a\", \"b\"]\none_way_latency = \"10 ms\"\n"
      "node_pair_limit = \"1 Gbps\"\n[training]\nglobal_batch = 2\n"
      "[parallelism]\npipeline = 1\ndata = 2\ndatacenter_per_replica = [\"a\", \"b\"]\n";
  for (const char* more : {"context = 2", "zero = 2"}) {
    const Result<plan::Job> job = plan::parse_job(two + more, "job.toml");
    ASSERT_TRUE(job) << job.error().text();
    const Result<workload::Traffic> traffic = workload::Traffic::make(*job, {});
    ASSERT_FALSE(traffic) << more;
    EXPECT_EQ(traffic.error().text(), cost::make_plan(*job).error().text());
  }
  EXPECT_TRUE(workload::Traffic::make(*plan::parse_job(two, "job.toml"), {}));
}

// Two replicas in two datacenters, one device each: 12 M numbers cross each way.
TEST(OneLedger, GradientsHaveTheBytesOfPrecisionAndStack) {
  const auto sent = [](const std::string& device, const std::string& training) {
    const Result<plan::Job> job = plan::parse_job(
        "[model]\nlayers = 1\nhidden = 1000\nheads = 10\nvocabulary = 100\nsequence = 10\n"
        "[[cluster.datacenter]]\nname = \"a\"\ndevice = \"" +
            device +
            "\"\n"
            "[[cluster.datacenter]]\nname = \"b\"\ndevice = \"" +
            device +
            "\"\n"
            "[[cluster.wan]]\nbetween = [\"a\", \"b\"]\none_way_latency = \"10 ms\"\n"
            "node_pair_limit = \"1 Gbps\"\n[training]\nglobal_batch = 2\n" +
            training +
            "\n[parallelism]\npipeline = 1\ndata = 2\ndatacenter_per_replica = [\"a\", \"b\"]\n",
        "job.toml");
    const plan::Plan plan = *cost::make_plan(*job);
    const Ledger ledger = Ledger::of(plan);
    EXPECT_EQ(ledger.wan().size(), 2u);
    return ledger.wan().front().bytes().value / static_cast<double>(model::parameters(*job->model));
  };
  EXPECT_EQ(sent("a100-80g", "precision = \"fp32\""), 4);
  EXPECT_EQ(sent("a100-80g", "precision = \"bf16\""), 2);
  EXPECT_EQ(sent("cpu", "precision = \"fp32\""), 4);
  EXPECT_EQ(sent("cpu", "precision = \"bf16\""), 4);  // the trainer sums in float32
  EXPECT_EQ(sent("a100-80g", "stack = \"megatron\"\nprecision = \"bf16\""), 4);
  EXPECT_EQ(sent("a100-80g", "stack = \"megatron\"\nprecision = \"fp16\""), 2);
  EXPECT_EQ(sent("a100-80g", "stack = \"nemo\"\nprecision = \"bf16\""), 2);
  EXPECT_EQ(sent("a100-80g", "stack = \"torchtitan\"\nprecision = \"bf16\""), 4);
}

}  // namespace
}  // namespace tombolo
