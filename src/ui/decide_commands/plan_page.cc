#include <algorithm>

#include "predict/cost/price_plan.h"
#include "ui/command/command.h"
#include "ui/decide_commands/decision_pages.h"
#include "ui/report/answer_values.h"
#include "ui/report/cluster_map.h"

namespace tombolo::decide_commands {
namespace {

using namespace report;

// "tensor 4, pipeline 4, data 8, zero 1; 64 microbatches of 1": those that are not 1 or off.
std::string parallelism_text(const Value& p) {
  std::string text;
  const auto add = [&](const char* key, double off) {
    const Value* value = p.find(key);
    if (!value) return;
    const double number = *number_at(p, key);
    if (number == off) return;
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, number);
  };
  add("tensor", 0);
  add("pipeline", 0);
  add("data", 0);
  for (const char* key : {"context", "expert", "virtual_stages"}) add(key, 1);
  add("zero", 0);
  if (text_at(p, "recompute") != "none") text += ", recompute " + text_at(p, "recompute");
  return text + fmt::format("; {} microbatches of {}", *number_at(p, "micro_batches"),
                            *number_at(p, "micro_batch"));
}

// "oregon 2, paris 1": stages along the pipeline.
std::string stages_text(const Value& plan) {
  std::string text, last;
  int64_t count = 0;
  const auto close = [&] {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", last, count);
    count = 0;
  };
  for (const std::string& place : texts_at(value_at(plan, "parallelism"), "datacenter_per_stage")) {
    if (place != last) close();
    last = place;
    ++count;
  }
  close();
  return text;
}

std::string layout_name(const Value& plan) {
  const Value& parallelism = value_at(plan, "parallelism");
  const std::string text = parallelism_text(parallelism);
  return parallelism.find("datacenter_per_stage") ? stages_text(plan) + "; " + text : text;
}

// "compute" of "compute_s".
const std::vector<HeatMapLayer>& part_colors() {
  static const std::vector<HeatMapLayer> kParts{{"compute", "--kind-F"},
                                                {"bubble", "--kind-RECV"},
                                                {"tensor communication", "--kind-SEND_F"},
                                                {"context communication", "--kind-W"},
                                                {"expert communication", "--kind-E"},
                                                {"pipeline communication", "--kind-SEND_B"},
                                                {"gradients", "--kind-REDUCE"},
                                                {"optimizer", "--kind-U"},
                                                {"overhead", "--kind-C"}};
  return kParts;
}

std::vector<double> layout_parts(const Value& plan, const std::vector<HeatMapLayer>& layers) {
  const Value& parts = value_at(plan, "parts");
  std::vector<double> values;
  for (const HeatMapLayer& layer : layers) {
    std::string key = layer.name + "_s";
    std::replace(key.begin(), key.end(), ' ', '_');
    values.push_back(parts.find(key) ? number_at(parts, key).value_or(0) : 0);
  }
  return values;
}

PlannerBars layout_bars(const Value::Array& top, bool mixed) {
  PlannerBars bars{.title = "Where the time of an iteration goes",
                   .parts = part_colors(),
                   .rows = {},
                   .note = "By the closed form; the simulated iteration is in the table."};
  if (mixed) {
    bars.parts = {{"first microbatch, there and back", "--kind-SEND_B"},
                  {"all others, at the pace of the slowest", "--kind-F"},
                  {"gradients and optimizer", "--kind-U"}};
  }
  for (size_t i = 0; i < top.size(); ++i) {
    PlannerBar bar{.row = static_cast<int64_t>(i) + 1, .name = layout_name(top[i]), .values = {}};
    if (mixed) {
      const Value& parts = value_at(top[i], "parts");
      const double microbatches = *number_at(value_at(top[i], "parallelism"), "micro_batches");
      bar.values = {*number_at(parts, "round_trip_s"),
                    (microbatches - 1) * *number_at(parts, "period_s"), *number_at(parts, "end_s")};
    } else {
      bar.values = layout_parts(top[i], bars.parts);
    }
    bars.rows.push_back(std::move(bar));
  }
  return bars;
}

PlannerChart layouts_chart(const Value::Array& top) {
  const bool priced = std::any_of(top.begin(), top.end(), [](const Value& plan) {
    return number_at(plan, "cost_usd").has_value();
  });
  PlannerChart chart{.title = priced ? "Time against cost" : "Time against memory",
                     .x = {"Iteration", PlannerKind::kTime},
                     .y = {priced ? "Cost of an iteration" : "Memory of a device",
                           priced ? PlannerKind::kMoney : PlannerKind::kBytes},
                     .points = {},
                     .note =
                         "The layouts that are listed; --top lists more. On the dashed line, no "
                         "other one of them is better in both."};
  for (size_t i = 0; i < top.size(); ++i) {
    const auto y = number_at(top[i], priced ? "cost_usd" : "memory_bytes");
    if (!y) continue;
    chart.points.push_back({.row = static_cast<int64_t>(i) + 1,
                            .name = layout_name(top[i]),
                            .x = *number_at(top[i], "iteration_s"),
                            .y = *y});
  }
  mark_front(chart.points);
  return chart;
}

HeatMapTable top_table(const Value::Array& top) {
  HeatMapTable table{.title = "Layouts, best first",
                     .columns = {"layout", "iteration", "simulated", "closed form", "tokens/s",
                                 "MFU", "memory", "cost", "devices"},
                     .figures = 8,
                     .rows = {},
                     .remark = "The first is recommended."};
  for (size_t i = 0; i < top.size(); ++i) {
    const Value& plan = top[i];
    table.rows.push_back(
        {fmt::format("{}. {}", i + 1, layout_name(plan)), time_of(number_at(plan, "iteration_s")),
         time_of(number_at(plan, "simulated_s")), time_of(number_at(plan, "closed_form_s")),
         figure_of(number_at(plan, "throughput")), percent_of(number_at(plan, "mfu")),
         bytes_of(number_at(plan, "memory_bytes")), money_of(number_at(plan, "cost_usd")),
         figure_of(number_at(plan, "devices"))});
  }
  return table;
}

// A line for each run of stages in one datacenter.
HeatMapTable stages_table(const Value& best) {
  HeatMapTable table{.title = "Stages of the recommended layout",
                     .columns = {"stage", "devices", "tensor", "layers", "forward", "backward",
                                 "memory", "of", "where"},
                     .figures = 7};
  for (const Value& stage : list_at(best, "placement")) {
    table.rows.push_back(
        {figure_of(number_at(stage, "stage")), figure_of(number_at(stage, "devices")),
         figure_of(number_at(stage, "tensor")), figure_of(number_at(stage, "layers")),
         time_of(number_at(stage, "forward_s")), time_of(number_at(stage, "backward_s")),
         bytes_of(number_at(stage, "memory_bytes")), bytes_of(number_at(stage, "device_bytes")),
         fmt::format("{}, {}", text_at(stage, "datacenter"), text_at(stage, "device"))});
  }
  return table;
}

// Where no Plan says it: of one datacenter.
std::vector<std::string> holdings_said(const Value& best) {
  const Value& p = value_at(best, "parallelism");
  return {
      fmt::format("{} pipelines of {} stages", *number_at(p, "data"), *number_at(p, "pipeline"))};
}

}  // namespace

std::string plan_page(const Value& answer, const plan::Job& job, const plan::Job& best_job,
                      const std::string& command) {
  const Value::Array& top = list_at(answer, "top");
  const Value& best = value_at(answer, "best");
  const bool mixed = value_at(best, "parallelism").find("datacenter_per_stage") != nullptr;
  PlannerPage page;
  page.title = "Plan of " + job.name;
  page.summary =
      fmt::format("{} on up to {} devices in {}, law {}, best by {}. Recommended: {}.",
                  job.model->name.empty() ? "model" : job.model->name, job.cluster.devices(),
                  job.cluster.datacenters.size() == 1
                      ? job.cluster.datacenters.front().name
                      : fmt::format("{} datacenters", job.cluster.datacenters.size()),
                  text_at(answer, "law"), text_at(answer, "objective"), layout_name(best));
  const bool simulated = number_at(best, "simulated_s").has_value();
  std::string of_iteration = simulated ? "simulated" : "by the closed form";
  if (const Value* band = answer.find("band"); band && !band->is_null()) {
    of_iteration +=
        fmt::format("; {} to {} in 8 of 10 published runs like it",
                    time_of(number_at(*band, "low_s")), time_of(number_at(*band, "high_s")));
  }
  page.cards = {{"Iteration", time_of(number_at(best, "iteration_s")), of_iteration},
                {"Tokens per second", figure_of(number_at(best, "throughput")),
                 percent_of(number_at(best, "mfu")) + " MFU"},
                {"Memory", bytes_of(number_at(best, "memory_bytes")), "of the fullest device"}};
  if (number_at(best, "cost_usd")) {
    const bool egress = best.find("egress_usd") && number_at(best, "egress_usd");
    page.cards.push_back({"Cost", money_of(number_at(best, "cost_usd")),
                          egress ? fmt::format("an iteration, of that {} for WAN traffic",
                                               money_of(number_at(best, "egress_usd")))
                                 : "of an iteration"});
  }
  if (const Value* strands = answer.find("strands")) {
    if (const Value* time = strands->find("simulated_s"); time && !time->is_null()) {
      page.cards.push_back({"With strands", time_of(number_at(*strands, "simulated_s")),
                            "overlapped passes of two microbatches"});
    }
  }
  const Result<plan::Plan> plan = cost::make_plan(best_job);
  page.map =
      map_of(job.cluster, plan ? holdings_of(*plan)
                               : Holdings([&](const std::string&) { return holdings_said(best); }));
  page.chart = layouts_chart(top);
  page.bars.push_back(layout_bars(top, mixed));
  page.tables.push_back(top_table(top));
  if (mixed) page.tables.push_back(stages_table(best));
  HeatMapTable refused{.title = "Why not", .columns = {"instead", "what it would take"}};
  for (const Value& why : list_at(answer, "why_not")) {
    const std::string family = text_at(why, "family");
    refused.rows.push_back({family, text_at(why, "text")});
  }
  if (!refused.rows.empty()) page.tables.push_back(std::move(refused));
  if (!job.cluster.wan.empty()) page.tables.push_back(links_table(job.cluster));
  page.notes = texts_at(answer, "notes");
  page.command = command;
  page.version = command::version();
  return render_planner(page);
}

Result<std::optional<AtomicFile>> open_page(const std::string& report, const std::string& out) {
  if (report.empty()) return std::optional<AtomicFile>();
  if (report == out)
    return unusable(fmt::format("--out and --report {}: one file for two answers", report),
                    "another name for one of them");
  return std::optional<AtomicFile>(TRY(AtomicFile::create(report)));
}

}  // namespace tombolo::decide_commands
