#include <array>
#include <cmath>

#include "ui/command/command.h"
#include "ui/predict_commands/prediction_pages.h"
#include "ui/report/answer_values.h"
#include "ui/report/planner_page.h"

namespace tombolo::predict_commands {
namespace {

using namespace report;

constexpr std::array<std::pair<const char*, const char*>, 3> kFabrics{
    {{"clos", "Clos"}, {"rail_optimized", "rail-optimized"}, {"rail_only", "rail-only"}}};

void add_parts(const Value& answer, PlannerPage& page) {
  HeatMapTable table{
      .title = "What each fabric needs",
      .columns = {"fabric", "tiers", "switches", "with whole rails", "transceivers", "cost"},
      .figures = 5,
      .rows = {},
      .remark = fmt::format("Switches of {} ports at {} a port, transceivers at {}.",
                            figure_of(number_at(answer, "radix")),
                            money_of(number_at(answer, "switch_port_usd")),
                            money_of(number_at(answer, "transceiver_usd")))};
  PlannerBars bars{.title = "Cost of each fabric",
                   .kind = PlannerKind::kMoney,
                   .parts = {{"switch ports and transceivers", "--kind-F"}},
                   .rows = {},
                   .note = {}};
  for (const auto& [key, name] : kFabrics) {
    const Value& parts = value_at(answer, key);
    table.rows.push_back({name, figure_of(number_at(parts, "tiers")),
                          figure_of(number_at(parts, "switches")),
                          figure_of(number_at(parts, "switches_whole_rails")),
                          figure_of(number_at(parts, "transceivers")),
                          figure_of(number_at(parts, "cost_usd")) + " USD"});
    bars.rows.push_back({.row = 0, .name = name, .values = {*number_at(parts, "cost_usd")}});
  }
  page.tables.push_back(std::move(table));
  page.bars.push_back(std::move(bars));
}

void add_collectives(const Value& collectives, PlannerPage& page) {
  HeatMapTable table{.title = "Collectives",
                     .columns = {"law", "time", "operation", "fabric", "holds"},
                     .figures = 1,
                     .rows = {},
                     .remark = fmt::format("Of {}, on {} domains of {} GPUs.",
                                           bytes_of(number_at(collectives, "message_bytes")),
                                           figure_of(number_at(collectives, "domains")),
                                           figure_of(number_at(collectives, "domain")))};
  PlannerBars bars{
      .title = "Time of collectives of " + bytes_of(number_at(collectives, "message_bytes")),
      .parts = {{"collective", "--kind-SEND_F"}},
      .rows = {},
      .note = {}};
  for (const Value& law : list_at(collectives, "laws")) {
    const std::string name = text_at(law, "fabric") + ", " + text_at(law, "law");
    table.rows.push_back({text_at(law, "law"), time_of(number_at(law, "time_s")),
                          text_at(law, "operation"), text_at(law, "fabric"),
                          text_at(law, "holds") + "; " + text_at(law, "source")});
    bars.rows.push_back({.row = 0, .name = name, .values = {*number_at(law, "time_s")}});
  }
  page.tables.push_back(std::move(table));
  page.bars.push_back(std::move(bars));
}

void add_failures(const Value::Array& failures, PlannerPage& page) {
  HeatMapTable table{.title = "What a failure costs",
                     .columns = {"failed, and what is done", "bandwidth lost", "GPUs out",
                                 "GPUs moved", "pairs off the network", "pairs cut off",
                                 "all-gather x", "all-to-all x", "stated by"},
                     .figures = 7,
                     .rows = {},
                     .remark =
                         "Times after the remedy relative to those before. \"paper\": the "
                         "remedy is in section 4.1 of the rail-only paper; all numbers are "
                         "derived (docs/laws/rail_failures.md)."};
  for (const Value& each : failures) {
    const bool optical = *value_at(each, "optical").get<bool>();
    table.rows.push_back(
        {fmt::format("{}, {}; {}{}: {}", text_at(each, "failed"), text_at(each, "fabric"),
                     optical ? "with optical switches, " : "", text_at(each, "spare"),
                     text_at(each, "remedy")),
         percent_of(number_at(each, "bandwidth_lost")), figure_of(number_at(each, "gpus_out")),
         figure_of(number_at(each, "gpus_moved")), figure_of(number_at(each, "pairs_off_network")),
         figure_of(number_at(each, "pairs_cut_off")),
         figure_of(number_at(each, "all_gather_ratio")),
         figure_of(number_at(each, "all_to_all_ratio")), text_at(each, "claim")});
  }
  page.tables.push_back(std::move(table));
}

void add_job(const Value& job, PlannerPage& page) {
  HeatMapTable table{
      .title = "Iterations per dollar",
      .columns = {"fabric", "network per GPU", "network per GPU-hour", "forwarding", "iteration",
                  "cost of an iteration", "iterations per USD"},
      .figures = 6,
      .rows = {},
      .remark = fmt::format("{} at {} per GPU-hour without network; iteration: {}.",
                            text_at(job, "name"), money_of(number_at(job, "gpu_usd_per_hour")),
                            text_at(job, "iteration_source"))};
  PlannerBars bars{.title = "Cost of an iteration, network included",
                   .kind = PlannerKind::kMoney,
                   .parts = {{"devices and network", "--kind-U"}},
                   .rows = {},
                   .note = {}};
  for (const auto& [key, name] : {kFabrics[0], kFabrics[2]}) {
    const Value& fabric = value_at(job, key);
    table.rows.push_back({name, money_of(number_at(fabric, "network_usd_per_gpu")),
                          money_of(number_at(fabric, "network_usd_per_gpu_hour")),
                          time_of(number_at(fabric, "forwarding_s")),
                          time_of(number_at(fabric, "iteration_s")),
                          money_of(number_at(fabric, "iteration_usd")),
                          figure_of(number_at(fabric, "iterations_per_usd"))});
    bars.rows.push_back({.row = 0, .name = name, .values = {*number_at(fabric, "iteration_usd")}});
  }
  page.tables.push_back(std::move(table));
  page.bars.push_back(std::move(bars));
  page.cards.push_back({"Iterations per dollar",
                        fmt::format("{:+.2f} %", 100 * *number_at(job, "gain")),
                        "rail-only, relative to a Clos"});
}

std::string ranges_text(const Value& job, const char* key) {
  std::string out;
  for (const Value& range : list_at(job, key)) {
    const std::string first = figure_of(number_at(range, "first"));
    const std::string last = figure_of(number_at(range, "last"));
    out += (out.empty() ? "" : ", ") + (first == last ? first : first + "-" + last);
  }
  return out;
}

void add_tiling(const Value& tiling, PlannerPage& page) {
  HeatMapTable table{
      .title = "Several jobs, rail-only",
      .columns = {"job", "GPUs", "iteration", "in its fastest rectangle", "on a Clos", "rails",
                  "domains"},
      .figures = 4,
      .rows = {},
      .remark = fmt::format(
          "{} of {} GPUs in use; on a Clos {}. Iterations by the law {}.",
          figure_of(number_at(tiling, "gpus_in_use")), figure_of(number_at(tiling, "gpus")),
          figure_of(number_at(tiling, "clos_gpus_in_use")), text_at(tiling, "law"))};
  for (const Value& job : list_at(tiling, "jobs")) {
    const bool placed = *value_at(job, "placed").get<bool>();
    const Value::Array& rectangles = list_at(job, "rectangles");
    table.rows.push_back(
        {text_at(job, "name"), figure_of(number_at(job, "gpus")),
         placed ? time_of(number_at(job, "iteration_s")) : "no place",
         rectangles.empty() ? "-" : time_of(number_at(rectangles[0], "iteration_s")),
         time_of(number_at(job, "clos_iteration_s")),
         placed ? ranges_text(job, "rails") : text_at(job, "why_not"),
         placed ? ranges_text(job, "domains") : ""});
  }
  page.tables.push_back(std::move(table));
  page.cards.push_back({"GPUs in use", figure_of(number_at(tiling, "gpus_in_use")),
                        "of " + figure_of(number_at(tiling, "gpus")) + ", rail-only"});
}

}  // namespace

std::string fabric_page(const Value& answer, const std::string& command) {
  PlannerPage page;
  page.title = fmt::format("Fabrics of {} GPUs", figure_of(number_at(answer, "gpus")));
  page.summary =
      fmt::format("{} domains of {} GPUs, by {}.", figure_of(number_at(answer, "domains")),
                  figure_of(number_at(answer, "domain")), text_at(answer, "law_source"));
  const Value& rail = value_at(answer, "rail_only");
  page.cards = {{"Rail-only costs less by", percent_of(number_at(answer, "reduction")),
                 "relative to rail-optimized"},
                {"Rail-only", figure_of(number_at(rail, "cost_usd")) + " USD",
                 figure_of(number_at(rail, "switches")) + " switches"},
                {"Clos", figure_of(number_at(value_at(answer, "clos"), "cost_usd")) + " USD",
                 figure_of(number_at(value_at(answer, "clos"), "switches")) + " switches"}};
  page.notes = texts_at(answer, "notes");
  add_parts(answer, page);
  if (const Value* collectives = answer.find("collectives")) add_collectives(*collectives, page);
  if (const Value* failures = answer.find("failures"))
    add_failures(*failures->get<Value::Array>(), page);
  if (const Value* job = answer.find("job")) {
    add_job(*job, page);
    for (const std::string& note : texts_at(*job, "notes")) page.notes.push_back(note);
  }
  if (const Value* tiling = answer.find("tiling")) {
    add_tiling(*tiling, page);
    for (const std::string& note : texts_at(*tiling, "notes")) page.notes.push_back(note);
  }
  page.command = command;
  page.version = command::version();
  return render_planner(page);
}

}  // namespace tombolo::predict_commands
