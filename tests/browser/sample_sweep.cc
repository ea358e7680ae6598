#include "sample_sweep.h"

namespace tombolo::report {

// Throughput is 1000 connections / latency, a tenth more with 1f1b; a million tokens cost 100 over
// that.
SweepChartPage sample_sweep() {
  SweepChartPage page;
  page.title = "What if: sample </script><b>hostile</b>";
  page.summary = "16 configurations, predicted by simulate: 15 ok, 1 infeasible, 0 unusable";
  page.cards = {{"Tokens per second: most", "440", "10 ms, 1f1b, 4"}};
  page.axes = {
      {.name = "cluster.wan.oregon-paris.one_way_latency",
       .texts = {"10 ms", "20 ms", "40 ms", "80 ms"},
       .numbers = {10, 20, 40, 80},
       .unit = "ms"},
      {.name = "parallelism.schedule", .texts = {"gpipe", "1f1b"}, .numbers = {}, .unit = {}},
      {.name = "connections", .texts = {"1", "4"}, .numbers = {1, 4}, .unit = {}}};
  SweepChartColumn status{.name = "status", .numbers = {}, .texts = {}};
  SweepChartColumn tokens{.name = "tokens_per_s", .numbers = {}, .texts = {}};
  SweepChartColumn cost{.name = "cost_per_million_tokens_usd", .numbers = {}, .texts = {}};
  for (const double latency : page.axes[0].numbers) {
    for (const double factor : {1.0, 1.1}) {
      for (const double connections : {1.0, 4.0}) {
        const bool feasible = latency < 80 || factor > 1 || connections > 1;
        const double rate = 1000 * connections / latency * factor;
        status.texts.emplace_back(feasible ? "ok" : "infeasible");
        tokens.numbers.push_back(feasible ? std::optional(rate) : std::nullopt);
        cost.numbers.push_back(feasible ? std::optional(100 / rate) : std::nullopt);
      }
    }
  }
  page.columns = {status, tokens, cost};
  page.charts = {{"Tokens per second", 1}, {"Cost of a million tokens (USD)", 2}};
  page.x = 0;
  page.by = 1;
  page.notes = {"a sample"};
  page.command = "tombolo sweep sample.toml --vary ...";
  page.version = "sample";
  return page;
}

}  // namespace tombolo::report
