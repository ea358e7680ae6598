#include <string>
#include <utility>
#include <vector>

#include "spec/plan/plan_file.h"
#include "ui/report/figures.h"

namespace tombolo::report {
namespace {

using plan::Plan;

// Rows of a table of facts; what does not apply is left out by the caller.
class Facts {
 public:
  explicit Facts(std::string title) : title_(std::move(title)) {}
  void add(const char* key, std::string text) {
    rows_.push_back(Value::Array{Value(key), Value(std::move(text))});
  }
  void add(const char* key, int64_t number) { add(key, fmt::format("{}", number)); }
  Value take() { return Value::Table{{"title", title_}, {"rows", std::move(rows_)}}; }

 private:
  std::string title_;
  Value::Array rows_;
};

// 3312640 -> "3.31 M".
std::string count_brief(int64_t count) {
  const double number = static_cast<double>(count);
  if (number >= 1e9) return fmt::format("{:.3g} B", number / 1e9);
  if (number >= 1e6) return fmt::format("{:.3g} M", number / 1e6);
  if (number >= 1e3) return fmt::format("{:.3g} k", number / 1e3);
  return fmt::format("{}", count);
}

Value model_facts(const Plan& plan) {
  const model::Model& m = plan.model;
  Facts facts("Model");
  if (!m.name.empty()) facts.add("name", m.name);
  facts.add("parameters", count_brief(model::parameters(m)));
  facts.add("layers", m.layers);
  facts.add("hidden size", m.hidden);
  facts.add("heads", m.kv_heads == m.heads
                         ? fmt::format("{}", m.heads)
                         : fmt::format("{} ({} for keys and values)", m.heads, m.kv_heads));
  facts.add("feed-forward size", m.ffn);
  facts.add("vocabulary", m.vocabulary);
  facts.add("sequence", fmt::format("{} tokens", m.sequence));
  facts.add("made of", fmt::format("{}, {}, {} positions", to_name(m.norm), to_name(m.activation),
                                   to_name(m.positions)));
  return facts.take();
}

Value training_facts(const Plan& plan) {
  Facts facts("Training");
  facts.add("global batch", fmt::format("{} sequences", plan.training.global_batch));
  facts.add("microbatch", fmt::format("{} sequences", plan.training.micro_batch));
  facts.add("precision", std::string(to_name(plan.training.precision)));
  facts.add("recompute", std::string(to_name(plan.training.recompute)));
  facts.add("learning rate",
            fmt::format("{} → {}", plan.optimizer.learning_rate, plan.optimizer.learning_rate_min));
  facts.add("warm-up", fmt::format("{} steps", plan.optimizer.warmup_steps));
  facts.add("steps", plan.run.steps);
  if (plan.data && !plan.data->of_tokens()) facts.add("text", plan.data->text);
  if (plan.data && !plan.data->tokens.empty()) {
    facts.add("tokens", fmt::format("{}", fmt::join(plan.data->tokens, ", ")));
  }
  for (size_t k = 0; plan.data && k < plan.data->share.size(); ++k) {
    facts.add(fmt::format("tokens, share {}", k).c_str(),
              fmt::format("{}", fmt::join(plan.data->share[k].tokens, ", ")));
  }
  if (plan.checkpoint && plan.checkpoint->every > 0) {
    facts.add("checkpoint", fmt::format("every {} steps", plan.checkpoint->every));
  }
  return facts.take();
}

Value parallelism_facts(const Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  Facts facts("Parallelism");
  facts.add("pipeline", fmt::format("{} stage{}", p.pipeline, p.pipeline == 1 ? "" : "s"));
  if (p.data > 1) facts.add("replicas", fmt::format("{} pipelines (data = {})", p.data, p.data));
  facts.add("schedule", plan.schedule_name());
  if (p.sharing_in_use() == layout::Sharing::kTemporal) {
    facts.add("WAN",
              fmt::format("shared in time by cells of {} pipelines", p.pipelines_per_cell()));
  }
  facts.add("microbatches",
            fmt::format("{}{}", plan.microbatches(), p.data > 1 ? " per pipeline" : ""));
  facts.add("tensor", p.tensor);
  if (p.virtual_stages > 1) facts.add("virtual stages", p.virtual_stages);
  facts.add("ranks", static_cast<int64_t>(plan.ranks.size()));
  facts.add("bytes between stages", brief(plan.boundary) + " per microbatch");
  return facts.take();
}

std::string layers_text(const model::Slice& slice) {
  std::string out;
  if (slice.layers == 1) out = fmt::format("{}", slice.first_layer);
  if (slice.layers > 1) {
    out = fmt::format("{}–{}", slice.first_layer, slice.first_layer + slice.layers - 1);
  }
  if (slice.embedding) out = out.empty() ? "embedding" : "embedding, " + out;
  if (slice.head) out += out.empty() ? "head" : ", head";
  return out.empty() ? "–" : out;
}

std::string or_dash(Seconds s) { return s.value > 0 ? brief(s) : "–"; }
std::string or_dash(Bytes b) { return b.value > 0 ? brief(b) : "–"; }

// "0, 3, 5–7": of three in a row or more only the ends.
class Numbers {
 public:
  void add(int32_t number) {
    if (spans_.empty() || spans_.back().second + 1 != number) spans_.emplace_back(number, number);
    spans_.back().second = number;
  }
  std::string text() const {
    std::string out;
    for (const auto& [first, last] : spans_) {
      if (!out.empty()) out += ", ";
      out += fmt::format("{}", first);
      if (last > first) out += fmt::format("{}{}", last > first + 1 ? "–" : ", ", last);
    }
    return out;
  }

 private:
  std::vector<std::pair<int32_t, int32_t>> spans_;
};

// Of a stage, the replicas whose devices take this time.
Value::Table stage_row(const Plan& plan, int32_t stage, const plan::StageCost& cost) {
  Numbers ranks;
  std::string places, devices;
  const auto append_new = [](std::string& list, const std::string& name) {
    if (list.find(name) == std::string::npos) list += (list.empty() ? "" : ", ") + name;
  };
  for (const int32_t rank : plan.replicas_of(stage)) {
    if (&plan.cost_on(rank, stage) != &cost) continue;
    ranks.add(rank);
    append_new(places, plan.ranks[static_cast<size_t>(rank)].datacenter);
    append_new(devices, plan.device_of(rank).name);
  }
  const plan::Stage& all = plan.stages[static_cast<size_t>(stage)];
  return {{"stage", stage},
          {"ranks", ranks.text()},
          {"datacenter", places},
          {"device", devices},
          {"layers", plan.has_model() ? layers_text(all.slice) : "–"},
          {"forward", brief(cost.forward)},
          {"backward", brief(cost.backward)},
          {"recompute", or_dash(cost.recompute)},
          {"update", or_dash(cost.update)},
          {"gradients", or_dash(all.gradients)},
          {"reduce", or_dash(cost.reduce)},
          {"state", or_dash(all.state)}};
}

Value stage_rows(const Plan& plan) {
  Value::Array rows;
  for (int32_t s = 0; s < std::ssize(plan.stages); ++s) {
    const plan::Stage& stage = plan.stages[static_cast<size_t>(s)];
    rows.push_back(stage_row(plan, s, stage.cost));
    for (const plan::StageCostIn& other : stage.elsewhere) {
      rows.push_back(stage_row(plan, s, other.cost));
    }
  }
  return rows;
}

Value link_rows(const Plan& plan) {
  Value::Array rows;
  for (const cluster::WanLink& link : plan.cluster.wan) {
    const std::string& a = link.between[0];
    const std::string& b = link.between[1];
    std::string measured = "–";
    for (const plan::MeasuredLink& m : plan.measured_links) {
      if (m.between.size() == 2 && link.joins(m.between[0], m.between[1])) {
        measured = fmt::format("{} one way, {}", brief(m.one_way_latency), brief(m.rate));
      }
    }
    rows.push_back(
        Value::Table{{"between", fmt::format("{} ↔ {}", a, b)},
                     {"latency", brief(link.one_way_latency)},
                     {"node_pair", brief(link.node_pair_limit)},
                     {"path", link.path_limit ? brief(*link.path_limit) : "no limit"},
                     {"connections", link.connections},
                     {"window", link.tcp_window ? brief(*link.tcp_window) : "large enough"},
                     {"flow_rate", brief(cluster::flow_rate(link))},
                     {"measured", measured}});
  }
  return rows;
}

std::string summary(const Plan& plan) {
  std::string places;
  for (const layout::Placement& placement : plan.ranks) {
    if (places.find(placement.datacenter) != std::string::npos) continue;
    places += (places.empty() ? "" : ", ") + placement.datacenter;
  }
  const std::string what =
      plan.has_model() ? count_brief(model::parameters(plan.model)) + " parameters · " : "";
  const size_t count = plan.stages.size();
  const char* stages = count == 1 ? "stage" : "stages";
  const std::string pipelines =
      plan.replicas() > 1 ? fmt::format("{} pipelines of {} {}", plan.replicas(), count, stages)
                          : fmt::format("{} pipeline {}", count, stages);
  return fmt::format("{}{} on {} · {} microbatches{}, {}", what, pipelines, places,
                     plan.microbatches(), plan.replicas() > 1 ? " each" : "", plan.schedule_name());
}

}  // namespace

const char* explain(plan::CostSource source) {
  switch (source) {
    case plan::CostSource::kStageTimes:
      return "Stage durations were given in the job ([stage_times]).";
    case plan::CostSource::kProfile:
      return "Stage durations were measured on this machine by tombolo profile.";
    case plan::CostSource::kTombolo:
      return "Stage durations come from the law “tombolo”, operator by operator, with constants of "
             "device, fabric and software stack.";
    case plan::CostSource::kRoofline:
      return "Stage durations come from the law “roofline”: arithmetic and memory traffic at "
             "catalog speeds.";
  }
  return "";
}

Value plan_tables(const Plan& plan) {
  Value::Array facts;
  if (plan.has_model()) facts.push_back(model_facts(plan));
  facts.push_back(parallelism_facts(plan));
  facts.push_back(training_facts(plan));
  return Value::Table{{"summary", summary(plan)},
                      {"replicas", int64_t{plan.replicas()}},
                      {"ranks", static_cast<int64_t>(plan.ranks.size())},
                      {"cost_source", std::string(to_name(plan.cost_source))},
                      {"cost_sentence", explain(plan.cost_source)},
                      {"facts", std::move(facts)},
                      {"stages", stage_rows(plan)},
                      {"links", link_rows(plan)},
                      {"json", plan::to_json_text(plan)}};
}

}  // namespace tombolo::report
