#include "perform/launch/telemetry.h"

#include <map>

#include "perform/runtime/messenger.h"

namespace tombolo::launch {
namespace {

using link::ConnectionStatistics;
using link::LinkStatistics;

// One metric of Prometheus' text format: its head once, then a line per series.
class Metric {
 public:
  Metric(std::string& out, std::string name, const char* type, const char* help)
      : out_(out), name_("tombolo_" + std::move(name)) {
    head_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type);
  }
  void add(double value, const std::string& labels = "") {
    out_ += std::exchange(head_, "");  // not where there is no series
    out_ += labels.empty() ? fmt::format("{} {}\n", name_, value)
                           : fmt::format("{}{{{}}} {}\n", name_, labels, value);
  }

 private:
  std::string& out_;
  std::string name_, head_;
};

// Prometheus' rules for what stands between quotes.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string class_of(link::Urgency urgency) {
  // urgency_of() puts what is no micro-batch at the end of an iteration.
  const auto of = [](uint64_t tensor) { return runtime::urgency_of({0, tensor}) & UINT32_MAX; };
  const uint64_t within = urgency & UINT32_MAX;
  return within == of(runtime::kReplicaTensor)      ? "gradients"
         : within == of(runtime::kEvaluationTensor) ? "evaluation"
                                                    : "pipeline";
}

Value or_null(const std::optional<double>& number) { return number ? Value(*number) : Value(); }

}  // namespace

std::vector<LinkReport> link_reports(std::vector<LinkStatistics> links, int32_t launcher) {
  std::vector<LinkReport> out;
  for (LinkStatistics& link : links) {
    if (link.peer == launcher || !link.up) continue;
    std::map<std::string, uint64_t> queue;
    for (const char* name : {"pipeline", "gradients", "evaluation"}) queue[name] = 0;
    for (const auto& [urgency, bytes] : link.queued_bytes) queue[class_of(urgency)] += bytes;
    LinkReport& report = out.emplace_back();
    for (const auto& [name, bytes] : queue) report.queue.push_back({name, bytes});
    report.link = std::move(link);
  }
  return out;
}

Telemetry::Telemetry(const plan::Plan& plan, const Clock& clock)
    : clock_(clock),
      begun_(clock.now()),
      steps_(plan.run.steps),
      schedule_(plan.parallelism.schedule) {
  for (const plan::Placement& placement : plan.ranks)
    ranks_.push_back({.datacenter = placement.datacenter});
}

// Spares, which have no seat in the Plan, are not shown.
void Telemetry::heard(int32_t rank) {
  std::lock_guard lock(mutex_);
  if (!knows(rank)) return;
  ranks_[rank].heard = clock_.now();
}

void Telemetry::add(int32_t rank, std::vector<LinkReport> links) {
  std::lock_guard lock(mutex_);
  if (!knows(rank)) return;
  ranks_[rank].links = std::move(links);
}

void Telemetry::add(int32_t rank, const runtime::IterationReport& report) {
  std::lock_guard lock(mutex_);
  if (!knows(rank)) return;
  ranks_[rank].iteration = report.iteration;
  ranks_[rank].late_s = report.late_s;
}

void Telemetry::add(const Progress& progress) {
  std::lock_guard lock(mutex_);
  progress_ = progress;
}

std::optional<double> Telemetry::silence_s(const Rank& rank) const {
  if (!rank.heard) return std::nullopt;
  return seconds(clock_.now() - *rank.heard).value;
}

std::string Telemetry::prometheus() const {
  std::lock_guard lock(mutex_);
  std::string out;
  const auto one = [&](const char* name, const char* help, double value) {
    Metric(out, name, "gauge", help).add(value);
  };
  one("steps", "Steps that the run is to do.", static_cast<double>(steps_));
  one("steps_done", "Steps that all ranks have done.",
      progress_ ? static_cast<double>(progress_->step) : 0);
  one("run_seconds", "Time since the run began.", seconds(clock_.now() - begun_).value);
  if (progress_) {
    one("iteration_seconds", "Time of the last iteration.", progress_->iteration.value);
    one("tokens_per_second", "Throughput of the last iteration.", progress_->tokens_per_s);
    if (progress_->loss)
      one("loss_nats_per_token", "Training loss of the last step.", *progress_->loss);
    if (progress_->evaluation_loss)
      one("evaluation_loss_nats_per_token", "Loss on held-out text, the newest.",
          *progress_->evaluation_loss);
  }
  Metric silence(out, "rank_silence_seconds", "gauge", "Time since the rank was last heard.");
  const auto rank_label = [&](size_t rank) {
    return fmt::format("rank=\"{}\",datacenter={}", rank, quoted(ranks_[rank].datacenter));
  };
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (const auto s = silence_s(ranks_[r])) silence.add(*s, rank_label(r));
  }
  Metric late(out, "schedule_lateness_seconds", "gauge",
              "What the machine cost an emulated rank's last iteration beyond its schedule.");
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].late_s) late.add(*ranks_[r].late_s, rank_label(r));
  }
  const auto each_link = [&](auto&& visit) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (const LinkReport& report : ranks_[r].links)
        visit(report, fmt::format("rank=\"{}\",peer=\"{}\"", r, report.link.peer));
    }
  };
  const auto link = [&](const char* name, const char* type, const char* help, auto&& value) {
    Metric metric(out, name, type, help);
    each_link([&](const LinkReport& report, const std::string& labels) {
      metric.add(static_cast<double>(value(report.link)), labels);
    });
  };
  link("link_goodput_bytes_per_second", "gauge",
       "Bytes that reached the peer, over about a second.",
       [](const LinkStatistics& l) { return l.goodput().value; });
  link("link_connections", "gauge", "TCP connections of the link.",
       [](const LinkStatistics& l) { return l.connections.size(); });
  link("link_spliced", "gauge", "1: both ranks called the coordinator, which carries the link.",
       [](const LinkStatistics& l) { return l.through.empty() ? 0 : 1; });
  link("link_connections_pulling", "gauge", "Connections that carry messages.",
       [](const LinkStatistics& l) { return l.pulling(); });
  {
    Metric queue(out, "link_queue_bytes", "gauge",
                 "Bytes that wait for the link, by what they are.");
    each_link([&](const LinkReport& report, const std::string& labels) {
      for (const ClassQueue& q : report.queue)
        queue.add(static_cast<double>(q.bytes),
                  fmt::format("{},urgency={}", labels, quoted(q.urgency)));
    });
  }
  const auto connection = [&](const char* name, const char* type, const char* help, auto&& value) {
    Metric metric(out, name, type, help);
    each_link([&](const LinkReport& report, const std::string& labels) {
      for (const ConnectionStatistics& c : report.link.connections)
        metric.add(static_cast<double>(value(c)),
                   fmt::format("{},connection=\"{}\"", labels, c.connection));
    });
  };
  connection("connection_goodput_bytes_per_second", "gauge",
             "Bytes that reached the peer, over about a second.",
             [](const ConnectionStatistics& c) { return c.goodput.value; });
  connection("connection_acknowledged_bytes_total", "counter", "Bytes that reached the peer.",
             [](const ConnectionStatistics& c) { return c.acknowledged_bytes; });
  connection("connection_retransmits_total", "counter", "TCP segments that were sent again.",
             [](const ConnectionStatistics& c) { return c.retransmits; });
  connection("connection_round_trip_seconds", "gauge", "TCP's smoothed round trip.",
             [](const ConnectionStatistics& c) { return c.round_trip.value; });
  connection("connection_pulls", "gauge", "1: carries messages; 0: idle, the link chose fewer.",
             [](const ConnectionStatistics& c) { return c.pulls ? 1 : 0; });
  Metric info(out, "connection_info", "gauge", "1; the congestion control stands in the label.");
  each_link([&](const LinkReport& report, const std::string& labels) {
    for (const ConnectionStatistics& c : report.link.connections)
      info.add(1, fmt::format("{},connection=\"{}\",congestion_control={}", labels, c.connection,
                              quoted(c.congestion_control)));
  });
  return out;
}

Value Telemetry::status() const {
  std::lock_guard lock(mutex_);
  Value::Array ranks, links;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const Rank& rank = ranks_[r];
    ranks.push_back(Value(Value::Table{{"rank", static_cast<int64_t>(r)},
                                       {"datacenter", rank.datacenter},
                                       {"iteration", rank.iteration},
                                       {"heard_s_ago", or_null(silence_s(rank))},
                                       {"late_s", or_null(rank.late_s)}}));
    for (const LinkReport& report : rank.links) {
      const LinkStatistics& link = report.link;
      const auto peer = static_cast<size_t>(link.peer);
      Value::Table queue;
      for (const ClassQueue& q : report.queue)
        queue.emplace_back(q.urgency, static_cast<int64_t>(q.bytes));
      Value::Array connections;
      for (const ConnectionStatistics& c : link.connections) {
        connections.push_back(
            Value(Value::Table{{"pulls", c.pulls},
                               {"congestion_control", c.congestion_control},
                               {"goodput_bytes_per_s", c.goodput.value},
                               {"acknowledged_bytes", static_cast<int64_t>(c.acknowledged_bytes)},
                               {"retransmits", static_cast<int64_t>(c.retransmits)},
                               {"round_trip_s", c.round_trip.value}}));
      }
      links.push_back(Value(
          Value::Table{{"rank", static_cast<int64_t>(r)},
                       {"peer", int64_t{link.peer}},
                       {"from", rank.datacenter},
                       {"to", peer < ranks_.size() ? ranks_[peer].datacenter : ""},
                       {"goodput_bytes_per_s", link.goodput().value},
                       {"pulling", link.pulling()},
                       {"congestion_control",
                        link.connections.empty() ? "" : link.connections[0].congestion_control},
                       {"round_trip_s", link.round_trip().value},
                       {"retransmits", static_cast<int64_t>(link.retransmits())},
                       {"through", link.through},
                       {"tuned", link.tuned},
                       {"exploring", link.exploring},
                       {"reason", link.reason},
                       {"queue_bytes", Value(std::move(queue))},
                       {"connections", Value(std::move(connections))}}));
    }
  }
  Value::Table out{{"steps_done", progress_ ? progress_->step : int64_t{0}},
                   {"steps", steps_},
                   {"schedule", schedule_},
                   {"run_s", seconds(clock_.now() - begun_).value}};
  const auto add = [&](const char* name, std::optional<double> value) {
    out.emplace_back(name, or_null(value));
  };
  add("loss", progress_ ? progress_->loss : std::nullopt);
  add("evaluation_loss", progress_ ? progress_->evaluation_loss : std::nullopt);
  add("iteration_s", progress_ ? std::optional(progress_->iteration.value) : std::nullopt);
  add("tokens_per_s", progress_ ? std::optional(progress_->tokens_per_s) : std::nullopt);
  add("remaining_s", progress_ ? std::optional(progress_->remaining.value) : std::nullopt);
  out.emplace_back("ranks", Value(std::move(ranks)));
  out.emplace_back("links", Value(std::move(links)));
  return Value(std::move(out));
}

}  // namespace tombolo::launch
