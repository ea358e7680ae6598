#include "evidence/reproduce/reproduce.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/check.h"
#include "evidence/reproduce/papers.h"
#include "predict/cost/rail_only.h"
#include "predict/cost/roofline.h"
#include "predict/network/fabric.h"
#include "spec/cluster/cluster.h"
#include "spec/model/model.h"

namespace tombolo::reproduce {

Row row_or_miss(Row row, const std::string& reason) {
  if (!row.ok()) row.not_reproduced = reason;
  return row;
}

namespace {

// The band of a figure printed to `digit`, as in 0.01: half of it, and what doubles lose.
double printed_to(double digit, double published) {
  return (digit / 2 + 1e-9) / std::abs(published);
}

std::vector<Table> joined(std::vector<std::vector<Table>> parts) {
  std::vector<Table> all;
  for (std::vector<Table>& part : parts) {
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  return all;
}

// --- Atlas ------------------------------------------------------------------------------------

Table atlas_table_1() {
  Table table{"atlas/table-1",
              "Palak et al. 2024, Improving training time and GPU utilization in "
              "geo-distributed language model training, table 1",
              "measured over TCP; the law is a window of 3 MB over the round trip",
              {}};
  const std::pair<double, double> published[] = {{10, 1220}, {20, 600}, {30, 396}, {40, 293}};
  for (const auto& [milliseconds, mbps] : published) {
    cluster::WanLink link;
    link.one_way_latency = milliseconds * 1_ms;
    link.node_pair_limit = 5_Gbps;
    link.tcp_window = 3_MB;
    table.rows.push_back({fmt::format("one connection at {:.0f} ms", milliseconds),
                          cluster::flow_rate(link) / 1_Mbps, mbps, "Mbps", 0.025});
  }
  return table;
}

// Of the figure's bars the text prints what all of many connections reach, and one gain.
Table atlas_figure_5() {
  Table table{"atlas/figure-5",
              "Palak et al. 2024, Improving training time and GPU utilization in "
              "geo-distributed language model training, figure 5 and section 4.1",
              "measured over TCP; 64 connections by the law of table 1, up to what a pair of nodes "
              "may send",
              {}};
  cluster::WanLink link;
  link.node_pair_limit = 5_Gbps;
  link.tcp_window = 3_MB;
  const auto rate = [&](Seconds one_way, int64_t connections) {
    link.one_way_latency = one_way;
    link.connections = connections;
    return cluster::flow_rate(link) / 1_Gbps;
  };
  for (const int64_t milliseconds : {10, 40, 110}) {
    table.rows.push_back({fmt::format("64 connections at {} ms", milliseconds),
                          rate(real(milliseconds) * 1_ms, 64), 5, "Gbps", 0.025});
  }
  // At 48 ms one has the 250 Mbps of the text.
  table.rows.push_back(
      {"64 connections over one at 48 ms", rate(48_ms, 64) / rate(48_ms, 1), 20, "x", 0.025});
  return table;
}

// --- Published checkpoints --------------------------------------------------------------------

// Trainable numbers of checkpoints at Hugging Face, as its pages and libraries count them.
Table checkpoint_parameters() {
  Table table{"checkpoints/parameters",
              "the checkpoints of these names as published (deepseek-v3 without its multi-token "
              "layer); mpt: num_params of MosaicML's training benchmarks at 2,048 tokens",
              "exact",
              {}};
  const std::pair<const char*, double> published[] = {{"gpt2", 124'439'808},
                                                      {"bloom-176b", 176'247'271'424},
                                                      {"llama2-7b", 6'738'415'616},
                                                      {"llama2-13b", 13'015'864'320},
                                                      {"llama2-70b", 68'976'648'192},
                                                      {"llama3-8b", 8'030'261'248},
                                                      {"llama3-70b", 70'553'706'496},
                                                      {"llama3.1-405b", 405'853'388'800},
                                                      {"mixtral-8x7b", 46'702'792'704},
                                                      {"qwen3-30b-a3b", 30'532'122'624},
                                                      {"qwen3-235b-a22b", 235'093'634'560},
                                                      {"deepseek-v2", 235'741'434'880},
                                                      {"deepseek-v3", 671'026'419'200},
                                                      {"gpt-oss-120b", 116'829'156'672},
                                                      {"mpt-125m", 125'311'488},
                                                      {"mpt-350m", 355'985'408},
                                                      {"mpt-760m", 760'470'528},
                                                      {"mpt-1b", 1'315'950'592},
                                                      {"mpt-3b", 2'651'837'440},
                                                      {"mpt-7b", 6'658'859'008},
                                                      {"mpt-13b", 12'853'954'560},
                                                      {"mpt-30b", 29'975'214'080},
                                                      {"mpt-70b", 64'862'437'376}};
  for (const auto& [name, count] : published) {
    const auto ours = static_cast<double>(model::parameters(*model::preset(name)));
    table.rows.push_back({name, ours, count, "parameters", 0});
  }
  return table;
}

// Numbers that one token meets, in billions as the papers print them.
Table active_parameters() {
  Table table{"checkpoints/active-parameters",
              "Jiang et al. 2024, Mixtral of Experts, and Mistral AI on 8x22B; DeepSeek-AI 2024, "
              "DeepSeek-V2 and DeepSeek-V3; "
              "Qwen Team 2025, Qwen3; OpenAI 2025, model card (without the embedding); "
              "Abdin et al. 2024, Phi-3",
              "printed with two digits, the last one not always rounded",
              {}};
  const std::pair<const char*, double> published[] = {
      {"mixtral-8x7b", 13},   {"mixtral-8x22b", 39},   {"deepseek-v2", 21},    {"deepseek-v3", 37},
      {"qwen3-30b-a3b", 3.3}, {"qwen3-235b-a22b", 22}, {"gpt-oss-120b", 5.13}, {"phi3.5-moe", 6.6}};
  for (const auto& [name, billions] : published) {
    const model::Model m = *model::preset(name);
    int64_t ours = model::active_parameters(m);
    if (m.name == "gpt-oss-120b") ours -= m.vocabulary * m.hidden;
    table.rows.push_back({name, static_cast<double>(ours) / 1e9, billions, "billions", 0.025});
  }
  return table;
}

// --- Korthikanti et al. 2022 ------------------------------------------------------------------

constexpr const char* kKorthikanti =
    "Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models, ";

Table korthikanti_table_4() {
  Table table{"korthikanti/table-4-baseline",
              std::string(kKorthikanti) + "table 4, baseline: one layer of 22B on 8 A100",
              "measured with tensor parallelism; the law roofline divides one device's time by 8, "
              "without its communication",
              {}};
  const plan::StageCost layer =
      cost::roofline(*model::preset("gpt-22b"), {0, 1, false, false},
                     *cluster::catalog_device("a100-80g"), {.micro_batch = 4});
  const double forward = layer.forward / 8_ms, backward = layer.backward / 8_ms;
  table.rows = {{"forward", forward, 7.7, "ms", 0.20},
                {"backward", backward, 11.9, "ms", 0.10},
                {"forward and backward", forward + backward, 19.6, "ms", 0.05}};
  return table;
}

// --- Rail-only --------------------------------------------------------------------------------

constexpr const char* kRailOnly =
    "Wang et al. 2023, How to Build Low-cost Networks for Large Language Models, ";

// Table 4: 22B to 1T on A100, tensor parallelism of 8 fills the domain, the rest is in the network.
struct RailOnlyRow {
  const char* name;
  const char* preset;
  int64_t pipeline, data, batch, micro_batch, virtual_stages;
  double printed;  // seconds
};
constexpr RailOnlyRow kTable4[] = {{"22B on 8", "gpt-22b", 1, 1, 4, 4, 1, 0.78},
                                   {"175B on 64", "gpt3-175b", 8, 1, 64, 1, 3, 11.89},
                                   {"530B on 280", "gpt-530b", 35, 1, 280, 1, 3, 35.29},
                                   {"530B on 2240", "gpt-530b", 35, 8, 2240, 1, 3, 35.56},
                                   {"1T on 512", "gpt-1t", 64, 1, 512, 1, 1, 70.69}};

struct RailOnlyRun {
  cost::RailOnlyModel model;
  cost::RailOnlySplit split;
  Seconds time;
  double hfu;
};

RailOnlyRun run(const RailOnlyRow& row) {
  const model::Model m = *model::preset(row.preset);
  RailOnlyRun out;
  out.model = {.layers = m.layers,
               .hidden = m.hidden,
               .heads = m.heads,
               .sequence = m.sequence,
               .vocabulary = m.vocabulary};
  out.split = {.tensor = {8, 1},
               .pipeline = {1, row.pipeline},
               .data = {1, row.data},
               .virtual_stages = row.virtual_stages,
               .micro_batch = row.micro_batch,
               .global_batch = row.batch};
  const cost::RailOnlyMachine a100s{.peak = 312_TFLOPS,
                                    .domain_bandwidth = 600_GBps,
                                    .network_bandwidth = 25_GBps,
                                    .domain_latency = 1_us,
                                    .network_latency = 1_us};
  out.time = cost::rail_only(out.model, a100s, out.split).total();
  const Flops possible = a100s.peak * static_cast<double>(out.split.devices()) * out.time;
  out.hfu = cost::rail_only_flops(out.model, row.batch).hardware / possible;
  return out;
}

Table rail_only_table_2() {
  Table table{"rail-only/table-2",
              std::string(kRailOnly) +
                  "table 2, switches, transceivers and cost; domains of 256 GPUs, not stated there",
              "exact; reductions are cut off, not rounded",
              {}};
  for (const network::PublishedNumber& number : network::table_two()) {
    table.rows.push_back({number.name, static_cast<double>(number.ours),
                          static_cast<double>(number.published), number.unit, 0});
  }
  return table;
}

Table rail_only_table_4() {
  Table table{"rail-only/table-4",
              std::string(kRailOnly) + "table 4, computed iteration time",
              "the printed digits",
              {}};
  for (const RailOnlyRow& row : kTable4) {
    table.rows.push_back(
        {row.name, run(row).time.value, row.printed, "s", printed_to(0.01, row.printed)});
  }
  return table;
}

// Section 6.1 gives the gaps as if they were relative; they are points of utilisation over the
// measured 43.7 and 57.0 % (Korthikanti et al., table 5).
Table rail_only_hfu_gaps() {
  Table table{"rail-only/hfu-gaps",
              std::string(kRailOnly) + "section 6.1, hardware utilisation above the measured one",
              "the printed digits; 0.15 is cut off, not rounded",
              {}};
  table.rows = {{"22B", 100 * run(kTable4[0]).hfu - 43.7, 15.7, "points", printed_to(0.1, 15.7)},
                {"1T", 100 * run(kTable4[4]).hfu - 57.0, 0.15, "points", printed_to(0.02, 0.15)}};
  return table;
}

// Figure 1, and the same two bars for memory: what the papers' configurations keep per device.
Table korthikanti_figure_1() {
  Table table{"korthikanti/figure-1-activations",
              std::string(kKorthikanti) +
                  "figure 1, activations with selective recomputation and sequence parallelism (as "
                  "Calculon's validation tabulates it)",
              "exact",
              {}};
  for (const auto& [row, gibibytes] : {std::pair(0, 9.5625), std::pair(1, 12.3515625)}) {
    const RailOnlyRun r = run(kTable4[row]);
    table.rows.push_back({kTable4[row].name,
                          cost::rail_only_memory(r.model, r.split).activations / 1_GiB, gibibytes,
                          "GiB", 1e-12});
  }
  return table;
}

// Before the slash of a table's name, and what computes all tables of that paper.
// In order of name.
struct Paper {
  const char* name;
  std::vector<Table> (*tables)();
};
constexpr Paper kPapers[] = {
    {"astra-sim",
     [] {
       return joined({astra_sim(), astra_sim_training()});
     }},
    {"atlas",
     [] {
       return joined({{atlas_table_1(), atlas_figure_5()},
                      atlas_selection(),
                      atlas_schedules(),
                      atlas_testbed()});
     }},
    {"bubbletea", bubbletea},
    {"checkpoints",
     []() -> std::vector<Table> {
       return {checkpoint_parameters(), active_parameters()};
     }},
    {"crosspipe", crosspipe},
    {"dhelix", dhelix},
    {"diloco", diloco},
    {"korthikanti",
     []() -> std::vector<Table> {
       return {korthikanti_figure_1(), korthikanti_table_4()};
     }},
    {"megatron-bridge", megatron_bridge},
    {"rail-only",
     [] {
       return joined({{rail_only_table_2(), rail_only_table_4(), rail_only_hfu_gaps()},
                      rail_only_figures(),
                      rail_only_traffic()});
     }},
    {"sailor", sailor},
    {"stellatrain", stellatrain}};

// Computed at first use, sorted by name.
const std::vector<Table>& tables_of(const Paper& paper) {
  static std::map<std::string_view, std::vector<Table>> computed;
  std::vector<Table>& tables = computed[paper.name];
  if (tables.empty()) {
    tables = paper.tables();
    std::sort(tables.begin(), tables.end(),
              [](const Table& a, const Table& b) { return a.name < b.name; });
  }
  return tables;
}

}  // namespace

namespace {

// How far off it is, relative; of a bound, on its wrong side.
double beyond(const Row& row) {
  CHECK(!row.at_most || !row.at_least, "{}: a bound on both sides", row.name);
  if (row.at_most) return row.relative_error();
  return row.at_least ? -row.relative_error() : std::abs(row.relative_error());
}

}  // namespace

double Row::relative_error() const {
  CHECK(published != 0, "{}: nothing is relative to 0 {}", name, unit);
  return ours / published - 1;
}

bool Row::ok() const {
  CHECK(band >= 0, "{}: a band of {}", name, band);
  return beyond(*this) <= band;
}

Outcome Row::outcome() const {
  if (!second.empty()) return Outcome::kNotPublished;
  if (!computed()) return Outcome::kNotReproducible;
  return beyond(*this) <= kHit ? Outcome::kHit : Outcome::kMiss;
}

const std::vector<Table>& published_tables() {
  static const std::vector<Table> tables = [] {
    std::vector<Table> all;
    for (const Paper& paper : kPapers) {
      const std::vector<Table>& of_paper = tables_of(paper);
      all.insert(all.end(), of_paper.begin(), of_paper.end());
    }
    return all;
  }();
  return tables;
}

Result<std::vector<Table>> reproduce(std::string_view name) {
  if (name.empty()) return published_tables();
  std::vector<Table> found;
  for (const Paper& paper : kPapers) {
    if (name.substr(0, name.find('/')) != paper.name) continue;
    for (const Table& table : tables_of(paper)) {
      if (table.name == name || name == paper.name) found.push_back(table);
    }
  }
  if (!found.empty()) return found;
  std::string known;
  for (const Table& table : published_tables()) known += (known.empty() ? "" : ", ") + table.name;
  return unusable(fmt::format("there is no published table \"{}\"", name), "one of " + known);
}

}  // namespace tombolo::reproduce
