#include <algorithm>
#include <cmath>

#include "predict/cost/price_plan.h"
#include "ui/command/command.h"
#include "ui/command/time_uses.h"
#include "ui/predict_commands/prediction_pages.h"
#include "ui/report/answer_values.h"
#include "ui/report/cluster_map.h"

namespace tombolo::predict_commands {
namespace {

using namespace report;

constexpr Seconds kSimulatedFor{5};

struct BarPart {
  const char* key;
  HeatMapLayer layer;
};

// A bar of the parts of a table of the answer that are there; without any, no bar.
PlannerBars one_bar(std::string title, PlannerKind kind, std::string name, const Value& table,
                    const std::vector<BarPart>& parts) {
  PlannerBars bars{.title = std::move(title), .kind = kind, .parts = {}, .rows = {}, .note = {}};
  PlannerBar bar{.row = 0, .name = std::move(name), .values = {}};
  for (const BarPart& part : parts) {
    if (!table.find(part.key)) continue;
    const auto value = number_at(table, part.key);
    if (!value || *value <= 0) continue;
    bars.parts.push_back(part.layer);
    bar.values.push_back(*value);
  }
  if (!bar.values.empty()) bars.rows.push_back(std::move(bar));
  return bars;
}

PlannerBars time_bars(const Value& answer, const Result<plan::Plan>& plan) {
  const Value& parts = value_at(answer, "parts");
  const std::string title = "Where the time of an iteration goes";
  if (parts.is_null()) {  // played: no closed form is behind it
    PlannerBars bars = time_use_bars();
    const Seconds iteration{*number_at(answer, "iteration_s")};
    const auto uses = plan ? command::time_uses(*plan, iteration, kSimulatedFor) : std::nullopt;
    if (uses) bars.rows.push_back({.row = 0, .name = "iteration", .values = uses->in_order()});
    return bars;
  }
  if (!parts.find("round_trip_s")) {
    return one_bar(title, PlannerKind::kTime, "iteration", parts,
                   {{"compute_s", {"compute", "--kind-F"}},
                    {"bubble_compute_s", {"bubble: compute", "--kind-RECV"}},
                    {"bubble_comm_s", {"bubble: communication", "--idle"}},
                    {"tensor_comm_s", {"tensor communication", "--kind-SEND_F"}},
                    {"context_comm_s", {"context communication", "--kind-W"}},
                    {"expert_comm_s", {"expert communication", "--kind-E"}},
                    {"pipeline_comm_s", {"pipeline communication", "--kind-SEND_B"}},
                    {"sync_s", {"gradients", "--kind-REDUCE"}},
                    {"optimizer_s", {"optimizer", "--kind-U"}},
                    {"overhead_s", {"host, once", "--kind-C"}}});
  }
  const double microbatches = *number_at(value_at(answer, "parallelism"), "micro_batches");
  const Value::Table phases{{"first", *number_at(parts, "round_trip_s")},
                            {"others", (microbatches - 1) * *number_at(parts, "period_s")},
                            {"end", *number_at(parts, "end_s")}};
  return one_bar(title, PlannerKind::kTime, "iteration", phases,
                 {{"first", {"first microbatch, there and back", "--kind-SEND_B"}},
                  {"others", {"all others, at the pace of the slowest", "--kind-F"}},
                  {"end", {"gradients and optimizer", "--kind-U"}}});
}

PlannerBars memory_bars(const Value& memory) {
  const bool fits = *value_at(memory, "fits").get<bool>();
  PlannerBars bars = one_bar("Memory of the fullest device", PlannerKind::kBytes,
                             fits ? "in use: fits" : "needed: does not fit", memory,
                             {{"parameters_bytes", {"parameters", "--kind-F"}},
                              {"gradients_bytes", {"gradients", "--kind-SEND_B"}},
                              {"optimizer_bytes", {"optimizer", "--kind-U"}},
                              {"activations_bytes", {"activations", "--kind-R"}},
                              {"workspace_bytes", {"workspace", "--kind-W"}},
                              {"prefill_bytes", {"model of [prefill]", "--kind-PROMPT"}}});
  if (bars.rows.empty()) return bars;
  bars.parts.push_back({"usable on the device", "--kind-RECV"});
  PlannerBar device{.row = 0, .name = "device", .values = std::vector<double>(bars.parts.size())};
  bars.rows.front().values.push_back(0);
  device.values.back() = *number_at(memory, "device_bytes");
  bars.rows.push_back(std::move(device));
  return bars;
}

PlannerBars money_bars(const Value& answer) {
  const auto cost = number_at(answer, "cost_usd");
  const auto egress = answer.find("egress_usd") ? number_at(answer, "egress_usd") : std::nullopt;
  const Value::Table kinds{{"devices", cost ? Value(*cost - egress.value_or(0)) : Value()},
                           {"egress", egress ? Value(*egress) : Value()}};
  return one_bar(
      "Cost of an iteration", PlannerKind::kMoney, "iteration", kinds,
      {{"devices", {"devices", "--kind-F"}}, {"egress", {"WAN traffic", "--kind-SEND_B"}}});
}

// Where no Plan says it: what the answer says of its stages.
std::vector<std::string> holdings_said(const Value& answer, const std::string& datacenter) {
  const Value& p = value_at(answer, "parallelism");
  const double data = *number_at(value_at(p, "data"), "degree");
  const Value* placement = answer.find("placement");
  if (!placement) {
    return {fmt::format("{} pipelines of {} stages", data,
                        *number_at(value_at(p, "pipeline"), "degree"))};
  }
  std::vector<std::string> lines;
  for (const Value& stage : *placement->get<Value::Array>()) {
    if (text_at(stage, "datacenter") == datacenter)
      lines.push_back(fmt::format("stage {}", *number_at(stage, "stage")));
  }
  return lines;
}

std::string degree_text(const Value& p, const char* name) {
  const Value* degree = p.find(name);
  return degree ? figure_of(number_at(*degree, "degree")) : "-";
}

HeatMapTable figures_table(const Value& answer) {
  const Value& p = value_at(answer, "parallelism");
  HeatMapTable table{.title = "Figures", .columns = {"", "figure"}, .figures = 1, .rows = {}};
  const auto add = [&](const char* what, std::string figure) {
    if (figure != "-" && !figure.empty()) table.rows.push_back({what, std::move(figure)});
  };
  add("iteration", time_of(number_at(answer, "iteration_s")));
  add("iteration, simulated", time_of(number_at(answer, "simulated_s")));
  if (const Value& band = value_at(answer, "band"); !band.is_null()) {
    add("8 of 10 published runs like it, from", time_of(number_at(band, "low_s")));
    add("to", time_of(number_at(band, "high_s")));
  }
  add("MFU", percent_of(number_at(answer, "mfu")));
  add("HFU, with recomputation", percent_of(number_at(answer, "hfu")));
  add("cost of an iteration", money_of(number_at(answer, "cost_usd")));
  add("devices in use", figure_of(number_at(answer, "devices")));
  add("devices in the cluster", figure_of(number_at(answer, "devices_in_cluster")));
  for (const char* name : {"tensor", "pipeline", "data", "context", "expert"})
    add(name, degree_text(p, name));
  add("virtual stages", figure_of(number_at(p, "virtual_stages")));
  add("microbatches", figure_of(number_at(p, "micro_batches")));
  return table;
}

HeatMapTable placement_table(const Value& answer) {
  HeatMapTable table{.title = "Stages",
                     .columns = {"stage", "devices", "tensor", "layers", "forward", "backward",
                                 "memory", "of", "where"},
                     .figures = 7};
  const Value* placement = answer.find("placement");
  if (!placement) return table;
  for (const Value& stage : *placement->get<Value::Array>()) {
    table.rows.push_back(
        {figure_of(number_at(stage, "stage")), figure_of(number_at(stage, "devices")),
         figure_of(number_at(stage, "tensor")), figure_of(number_at(stage, "layers")),
         time_of(number_at(stage, "forward_s")), time_of(number_at(stage, "backward_s")),
         bytes_of(number_at(stage, "memory_bytes")), bytes_of(number_at(stage, "device_bytes")),
         fmt::format("{}, {}", text_at(stage, "datacenter"), text_at(stage, "device"))});
  }
  return table;
}

}  // namespace

std::string estimate_page(const Value& answer, const plan::Job& job, const std::string& command) {
  const Value& memory = value_at(answer, "memory");
  PlannerPage page;
  page.title = "Estimate of " + job.name;
  page.summary = fmt::format("{}, {:.3g} B parameters, on {} devices, by the law {}: {}.",
                             job.model->name.empty() ? "model" : job.model->name,
                             static_cast<double>(model::parameters(*job.model)) / 1e9,
                             figure_of(number_at(answer, "devices")), text_at(answer, "law"),
                             text_at(answer, "law_source"));
  const auto simulated = number_at(answer, "simulated_s");
  page.cards = {{"Iteration", time_of(number_at(answer, "iteration_s")),
                 simulated ? time_of(simulated) + " simulated" : "by a closed form"}};
  if (number_at(answer, "mfu"))
    page.cards.push_back({"MFU", percent_of(number_at(answer, "mfu")),
                          percent_of(number_at(answer, "hfu")) + " HFU, with recomputation"});
  page.cards.push_back({"Memory", bytes_of(number_at(memory, "total_bytes")),
                        "of " + bytes_of(number_at(memory, "device_bytes"))});
  if (number_at(answer, "cost_usd"))
    page.cards.push_back({"Cost", money_of(number_at(answer, "cost_usd")), "of an iteration"});
  const Result<plan::Plan> plan = cost::make_plan(job);
  page.map =
      map_of(job.cluster, plan ? holdings_of(*plan) : Holdings([&](const std::string& datacenter) {
               return holdings_said(answer, datacenter);
             }));
  page.bars = {time_bars(answer, plan), memory_bars(memory), money_bars(answer)};
  page.tables.push_back(figures_table(answer));
  if (HeatMapTable stages = placement_table(answer); !stages.rows.empty())
    page.tables.push_back(std::move(stages));
  if (!job.cluster.wan.empty()) page.tables.push_back(links_table(job.cluster));
  page.notes = texts_at(answer, "notes");
  page.command = command;
  page.version = command::version();
  return render_planner(page);
}

}  // namespace tombolo::predict_commands
