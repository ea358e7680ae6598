// What DHelix' paper says of communication: how much Llama 3.1 405B sends, and its share of training.
#include <vector>

#include "base/check.h"
#include "evidence/reproduce/dhelix_settings.h"
#include "evidence/reproduce/papers.h"
#include "predict/strand/co_run.h"
#include "predict/strand/exposure.h"
#include "predict/workload/traffic.h"

namespace tombolo::reproduce {
namespace {

// --- Table 1 ----------------------------------------------------------------------------------

constexpr int64_t kTensor = 8, kPipeline = 16, kSequences = 2048;
constexpr double kLocalRate = 450e9, kCrossRate = 50e9;  // bytes/s of a GPU, each way

struct Volumes {
  double local = 0, cross = 0;  // bytes of a GPU in an iteration
};

// As the table counts. Which sums and transfers those are is not said; this was found with its figures
// in sight. 2,048 sequences an iteration in all three columns, whatever their length. Inside nodes: eight
// gathers and scatters a layer. Across: gradients in bf16 once, those of embedding and head on every
// stage; activations to the next stage and back; keys and values once forward, twice backward.
Volumes counted(const model::Model& m, int64_t data, int64_t context) {
  const double tokens = real(m.sequence / context), group = real(data * context);
  const double sequences = real(kSequences) / real(data), layers = real(m.layers) / kPipeline;
  const double activations = 2 * tokens * real(m.hidden);
  const double keys = 2 * tokens * real(m.kv_heads * m.head_size()) / kTensor;
  const double layer = real(2 * m.hidden * m.hidden + 2 * m.hidden * m.kv_heads * m.head_size() +
                            3 * m.hidden * m.ffn);
  const double weights = layers * layer + real(2 * m.vocabulary * m.hidden);
  const double sums = 2 * weights / kTensor * (group - 1) / group;
  const double sends = sequences * 2 * activations / kTensor * (kPipeline - 1) / kPipeline;
  const double ring = sequences * 3 * real(context - 1) * 2 * keys * layers;
  return {sequences * 8 * activations * (kTensor - 1) / kTensor * layers, sums + sends + ring};
}

// As every command of ours counts: what a GPU sends, on average.
Volumes in_ledger(const model::Model& m, int64_t data, int64_t context) {
  plan::Job job;
  job.model = m;
  job.parallelism.tensor = kTensor;
  job.parallelism.context = context;
  job.parallelism.pipeline = kPipeline;
  job.parallelism.data = data;
  job.parallelism.sequence_parallel = true;
  job.training.global_batch = kSequences;
  cluster::Datacenter site;
  site.nodes = kPipeline * data * context;
  site.devices_per_node = site.scale_up.domain = kTensor;
  job.cluster.datacenters = {site};
  const Result<workload::Traffic> traffic = workload::Traffic::make(job, {});
  CHECK(traffic, "{}", traffic.error().text());
  const workload::TrafficSummary s = traffic->summarize();
  const double local = s.of(workload::TrafficKind::kTensor).total().bytes.value;
  return {local / real(s.gpus), (s.bytes().value - local) / real(s.gpus)};
}

struct Column {
  const char* name;
  int64_t data, context, sequence;
  double local, cross;                  // GiB
  double local_seconds, cross_seconds;  // as printed
  double share;                         // of the time across, %
};

Table table_1() {
  Table table{
      "dhelix/table-1",
      std::string(kDhelix) + "table 1 and section 3.1: Llama 3.1 405B on H100, bytes of a GPU",
      "\"GB\" are GiB; times at 450 and 50 GB/s, which are the rates of NVLink and InfiniBand in "
      "one direction; what is counted was found with these figures in sight: as printed",
      {}};
  for (const Column& c :
       {Column{"8,192 GPUs", 64, 1, 8192, 441, 8.6, 0.98, 0.17, 14.8},
        Column{"16,384 GPUs", 128, 1, 8192, 220, 7.7, 0.3, 0.15, 33},
        Column{"16,384 GPUs with cp16", 8, 16, 131'072, 3528, 376, 7.84, 7.52, 49.9}}) {
    model::Model m = *model::preset("llama3.1-405b");
    m.sequence = c.sequence;
    const Volumes v = counted(m, c.data, c.context), ours = in_ledger(m, c.data, c.context);
    const std::string name = std::string(c.name) + ", ";
    const double gib = (1_GiB).value, local = v.local / gib, cross = v.cross / gib;
    // Seconds of printed gigabytes.
    const double inside = local * 1e9 / kLocalRate, across = cross * 1e9 / kCrossRate;
    const std::string why = fmt::format(
        "its own bytes at the rate of the other columns take {:.2f} s", c.local * 1e9 / kLocalRate);
    table.rows.push_back({name + "local", local, c.local, "GiB", 0.003});
    table.rows.push_back({name + "cross", cross, c.cross, "GiB", 0.003});
    table.rows.push_back(
        row_or_miss({name + "local time", inside, c.local_seconds, "s", 0.01}, why));
    table.rows.push_back({name + "cross time", across, c.cross_seconds, "s", 0.04});
    table.rows.push_back(row_or_miss(
        {name + "share of time across", 100 * across / (inside + across), c.share, "%", 0.03},
        why));
    Row all{name + "by the ledger, all", (ours.local + ours.cross) / gib, local + cross, "GiB"};
    all.band = 0.03;
    all.second =
        "local and cross, as counted for this table; the ledger has gradients in both passes, "
        "embedding, head and loss too";
    table.rows.push_back(all);
  }
  return table;
}

// --- Shares of training -----------------------------------------------------------------------

// Of Megatron-LM's time, what a GPU waits for each kind of communication.
struct Waits {
  double tensor = 0, context = 0;  // %
};
Waits waits_of(const char* label) {
  const DhelixLayer layer = dhelix_layer(dhelix_setting(label));
  strand::StrandPair alone = layer.pair;
  alone.set_order(strand::framework_order(layer.pair.forward()),
                  strand::framework_order(layer.pair.backward()));
  const std::vector<double> as_numbered(alone.size(), 0);
  Waits sum;
  for (const strand::PairSet strand :
       {strand::PairSet{alone.forward().all(), 0}, strand::PairSet{0, alone.backward().all()}}) {
    std::vector<strand::OperatorRun> runs;
    const double seconds = strand::co_run(alone, strand, {as_numbered}, &runs);
    const strand::Exposure e = strand::exposure_of(alone, runs, seconds);
    sum.tensor += e.waiting[0];
    sum.context += e.waiting[1];
  }
  const double percent = layer.baseline_seconds() / layer.layers / 100;
  return {sum.tensor / percent, sum.context / percent};
}

// The layers of Llama-66B are those of Llama-25B.
Table shares() {
  Table table{
      "dhelix/communication",
      std::string(kDhelix) + "figure 3, sections 6.3 and 6.4: communication in Megatron-LM's time",
      "what it does not hide on its own, of times fitted to throughputs alone: 15 %",
      {}};
  const auto add = [&](const std::string& name, double ours, double published) {
    table.rows.push_back({name, ours, published, "%", 0.15});
  };
  const Waits shorter = waits_of("A40 Llama-39B cp2");
  add("A40 Llama-39B cp2, TP and CP", shorter.tensor + shorter.context, 55);
  add("A40 Llama-39B cp2, CP", shorter.context, 28);
  add("A40 Llama-39B cp4, CP", waits_of("A40 Llama-39B cp4").context, 53);
  add("A800 Llama-66B cp2, TP", waits_of("A800 Llama-66B cp2").tensor, 10);
  add("A40 Llama-25B cp2, TP", waits_of("A40 Llama-25B cp2").tensor, 29);
  return table;
}

}  // namespace

std::vector<Table> dhelix_communication() { return {table_1(), shares()}; }

}  // namespace tombolo::reproduce
