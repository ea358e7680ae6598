#include <algorithm>
#include <cctype>

#include "base/parallel.h"
#include "predict/cost/price_plan.h"
#include "ui/command/command.h"
#include "ui/command/time_uses.h"
#include "ui/decide_commands/decision_pages.h"
#include "ui/report/answer_values.h"
#include "ui/report/cluster_map.h"

namespace tombolo::decide_commands {
namespace {

using namespace report;

// For the bar of a way: about a hundred MB of intervals while it is simulated.
constexpr Seconds kSimulatedFor{5};
constexpr int kAtOnce = 4;

PlannerBars way_bars(const Value::Array& ways, const std::vector<across::Way>& found, int threads) {
  PlannerBars bars = time_use_bars();
  const size_t count = std::min(ways.size(), kPlannerBarsMax);
  std::vector<std::optional<command::TimeUses>> uses(count);
  parallel_for(count, std::min(threads, kAtOnce), [&](size_t i) {
    const Result<plan::Plan> plan = cost::make_plan(found[i].job);
    if (plan) uses[i] = command::time_uses(*plan, found[i].iteration, kSimulatedFor);
  });
  bool left_out = false;
  for (size_t i = 0; i < count; ++i) {
    left_out = left_out || !uses[i];
    if (!uses[i]) continue;
    bars.rows.push_back({.row = static_cast<int64_t>(i) + 1,
                         .name = text_at(ways[i], "way"),
                         .values = uses[i]->in_order()});
  }
  if (left_out)
    bars.note +=
        " Ways whose simulation takes long are left out: tombolo simulate says it of them.";
  return bars;
}

std::string spaced(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

// "WAN rate" of "wan_rate".
std::string axis_name(const std::string& axis) {
  std::string name = spaced(axis);
  if (name.starts_with("wan")) name.replace(0, 3, "WAN");
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

// Where all links are alike, what a factor of 1 stands for.
void set_one(const std::string& axis, const cluster::Cluster& cluster, PlannerRanges& ranges) {
  const auto of_all = [&](auto get) -> std::optional<double> {
    for (const cluster::WanLink& link : cluster.wan)
      if (get(link) != get(cluster.wan.front())) return {};
    return cluster.wan.empty() ? std::nullopt : std::optional(get(cluster.wan.front()));
  };
  if (axis.find("rate") != std::string::npos) {
    ranges.one = of_all([](const cluster::WanLink& link) { return link.node_pair_limit.value; });
  } else if (axis.find("latency") != std::string::npos) {
    ranges.one = of_all([](const cluster::WanLink& link) { return link.one_way_latency.value; });
    ranges.one_kind = PlannerKind::kTime;
  }
}

// Of each axis from where on which way wins.
std::vector<PlannerRanges> way_ranges(const Value& answer, const Value::Array& ways,
                                      const cluster::Cluster& cluster) {
  std::vector<PlannerRanges> out;
  for (const Value& each : list_at(answer, "break_even")) {
    const std::string axis = text_at(each, "axis");
    PlannerRanges ranges{
        .title = axis_name(axis), .axis = axis_name(axis) + ", times that of the job", .here = 1.0};
    set_one(axis, cluster, ranges);
    for (const Value& entry : list_at(each, "ranges")) {
      PlannerRange range{.from = number_at(entry, "from_factor").value_or(0),
                         .name = text_at(entry, "way")};
      for (size_t i = 0; i < ways.size(); ++i) {
        if (text_at(ways[i], "way") == range.name) range.row = static_cast<int64_t>(i) + 1;
      }
      ranges.ranges.push_back(std::move(range));
    }
    out.push_back(std::move(ranges));
  }
  return out;
}

PlannerChart ways_chart(const Value::Array& ways) {
  const bool target = ways.front().find("target_s") != nullptr;
  const char* time = target ? "target_s" : "s_per_dense_step";
  const char* cost = target ? "target_usd" : "usd_per_dense_step";
  const bool priced = std::any_of(
      ways.begin(), ways.end(), [&](const Value& way) { return number_at(way, cost).has_value(); });
  PlannerChart chart{.title = priced ? "Time against cost" : "Time against memory",
                     .x = {target ? "Time to the target" : "Time of an iteration times its steps",
                           PlannerKind::kTime},
                     .y = {!priced  ? "Memory of a device"
                           : target ? "Cost to the target"
                                    : "Cost, times its steps",
                           priced ? PlannerKind::kMoney : PlannerKind::kBytes},
                     .points = {},
                     .note =
                         "Steps to the same loss are counted. Numbers are rows of the table; on "
                         "the dashed line, no other way is better in both."};
  for (size_t i = 0; i < ways.size(); ++i) {
    const auto y = number_at(ways[i], priced ? cost : "memory_bytes");
    if (!y) continue;
    chart.points.push_back({.row = static_cast<int64_t>(i) + 1,
                            .name = text_at(ways[i], "way"),
                            .x = *number_at(ways[i], time),
                            .y = *y,
                            .on_front = *value_at(ways[i], "on_front").get<bool>()});
  }
  if (!priced) mark_front(chart.points);
  return chart;
}

HeatMapTable ways_table(const Value::Array& ways, const std::vector<std::string>& why_not) {
  const bool target = ways.front().find("target_s") != nullptr;
  HeatMapTable table{
      .title = "All ways",
      .columns = {"way", "iteration", "tokens/s", "MFU", "steps x", "across WAN", "memory", "cost"},
      .figures = target ? 9 : 7,
      .rows = {},
      .remark =
          "Iteration, bytes across and cost are of one iteration; steps x: "
          "steps to the same loss, relative to dense."};
  if (target) table.columns.insert(table.columns.end(), {"to the target", "its cost"});
  table.columns.push_back("why not");
  for (size_t i = 0; i < ways.size(); ++i) {
    const Value& way = ways[i];
    const bool beyond = !text_at(way, "steps_beyond").empty();
    std::vector<std::string> row{
        fmt::format("{}. {}", i + 1, text_at(way, "way")),
        time_of(number_at(way, "iteration_s")),
        figure_of(number_at(way, "tokens_per_s")),
        percent_of(number_at(way, "mfu")),
        fmt::format("{:.2f}{}", *number_at(way, "steps_factor"), beyond ? "?" : ""),
        bytes_of(number_at(way, "wan_bytes")),
        bytes_of(number_at(way, "memory_bytes")),
        money_of(number_at(way, "cost_usd"))};
    if (target) {
      row.push_back(time_of(number_at(way, "target_s")));
      row.push_back(money_of(number_at(way, "target_usd")));
    }
    row.push_back(i == 0 ? "recommended" : why_not[i]);
    table.rows.push_back(std::move(row));
  }
  return table;
}

HeatMapTable layouts_table(const Value::Array& ways) {
  HeatMapTable table{.title = "Layouts of the ways", .columns = {"way", "layout"}};
  for (size_t i = 0; i < ways.size(); ++i) {
    table.rows.push_back(
        {fmt::format("{}. {}", i + 1, text_at(ways[i], "way")), text_at(ways[i], "layout")});
  }
  return table;
}

std::vector<std::string> way_notes(const Value& answer, const Value::Array& ways) {
  std::vector<std::string> notes;
  const auto add = [&](std::string note) {
    if (std::find(notes.begin(), notes.end(), note) == notes.end())
      notes.push_back(std::move(note));
  };
  for (const Value& way : ways) {
    if (!text_at(way, "steps_source").empty()) add("steps: " + text_at(way, "steps_source"));
  }
  for (const Value& way : ways) {
    if (const std::string beyond = text_at(way, "steps_beyond"); !beyond.empty())
      add(fmt::format("? {}: {}; the factor is the nearest that is known", text_at(way, "way"),
                      beyond));
  }
  for (const std::string& note : texts_at(answer, "notes")) add(note);
  add(fmt::format("{} layouts simulated", figure_of(number_at(answer, "simulated"))));
  if (*value_at(answer, "stopped").get<bool>()) add("stopped before all ways were compared");
  return notes;
}

}  // namespace

std::string across_page(const Value& answer, const plan::Job& job,
                        const std::vector<across::Way>& found,
                        const std::vector<std::string>& why_not, int threads,
                        const std::string& command) {
  const Value::Array& ways = list_at(answer, "ways");
  const Value& best = value_at(answer, "best");
  PlannerPage page;
  page.title = "Which way across: " + job.name;
  page.summary =
      fmt::format("{} over {} devices in {} datacenters, best by {}. Recommended: {}; {}.",
                  job.model->name.empty() ? "model" : job.model->name, job.cluster.devices(),
                  job.cluster.datacenters.size(), text_at(answer, "objective"),
                  text_at(best, "way"), text_at(best, "layout"));
  page.cards = {{"Iteration", time_of(number_at(best, "iteration_s")), text_at(best, "way")},
                {"Tokens per second", figure_of(number_at(best, "tokens_per_s")),
                 percent_of(number_at(best, "mfu")) + " MFU"},
                {"Memory", bytes_of(number_at(best, "memory_bytes")), "of the fullest device"},
                {"Across the WAN", bytes_of(number_at(best, "wan_bytes")), "an iteration"}};
  if (number_at(best, "cost_usd"))
    page.cards.push_back({"Cost", money_of(number_at(best, "cost_usd")), "of an iteration"});
  if (best.find("target_s")) {
    page.cards.push_back({"To the target", time_of(number_at(best, "target_s")),
                          number_at(best, "target_usd")
                              ? "for " + money_of(number_at(best, "target_usd"))
                              : "no price"});
  }
  const Result<plan::Plan> plan = cost::make_plan(found.front().job);
  const Holdings none = [](const std::string&) { return std::vector<std::string>{}; };
  page.map = map_of(job.cluster, plan ? holdings_of(*plan) : none);
  page.chart = ways_chart(ways);
  page.bars.push_back(way_bars(ways, found, threads));
  page.ranges = way_ranges(answer, ways, job.cluster);
  page.tables.push_back(ways_table(ways, why_not));
  page.tables.push_back(layouts_table(ways));
  HeatMapTable missed{.title = "No way", .columns = {"way", "why not"}};
  for (const Value& each : list_at(answer, "no_ways"))
    missed.rows.push_back({text_at(each, "way"), text_at(each, "reason")});
  if (!missed.rows.empty()) page.tables.push_back(std::move(missed));
  if (!job.cluster.wan.empty()) page.tables.push_back(links_table(job.cluster));
  page.notes = way_notes(answer, ways);
  page.command = command;
  page.version = command::version();
  return render_planner(page);
}

}  // namespace tombolo::decide_commands
