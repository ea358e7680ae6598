#include "perform/observe/telemetry.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <deque>
#include <map>
#include <sstream>

#include "perform/kernels/messenger.h"
#include "spec/plan/adaptive_batch.h"

namespace tombolo::observe {
namespace {

using link::ConnectionStatistics;
using link::LinkStatistics;

using Label = prometheus::ClientMetric::Label;
using Labels = std::vector<Label>;

// What Prometheus scrapes: families of series. A family without a series is left out.
class Families {
 public:
  prometheus::MetricFamily& open(const char* name, const char* help,
                                 prometheus::MetricType type = prometheus::MetricType::Gauge) {
    return families_.emplace_back(prometheus::MetricFamily{
        .name = std::string("tombolo_") + name, .help = help, .type = type, .metric = {}});
  }
  void gauge(const char* name, const char* help, double value) { add(open(name, help), value); }

  static void add(prometheus::MetricFamily& family, double value, Labels labels = {}) {
    prometheus::ClientMetric& series = family.metric.emplace_back();
    series.label = std::move(labels);
    series.gauge.value = series.counter.value = value;  // the family's type says which counts
  }

  std::string text() const {
    std::vector<prometheus::MetricFamily> told;
    std::copy_if(families_.begin(), families_.end(), std::back_inserter(told),
                 [](const auto& family) { return !family.metric.empty(); });
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, told);
    return out.str();
  }

 private:
  std::deque<prometheus::MetricFamily> families_;  // references stay good
};

struct LinkMetric {
  const char* name;
  const char* help;
  double (*value)(const LinkStatistics& link);
};
constexpr LinkMetric kLinkMetrics[] = {
    {"link_goodput_bytes_per_second", "Bytes that reached the peer, over about a second.",
     [](const LinkStatistics& l) { return l.goodput().value; }},
    {"link_connections", "TCP connections of the link.",
     [](const LinkStatistics& l) { return static_cast<double>(l.connections.size()); }},
    {"link_spliced", "1: both ranks called the coordinator, which carries the link.",
     [](const LinkStatistics& l) { return l.through.empty() ? 0.0 : 1.0; }},
    {"link_connections_pulling", "Connections that carry messages.",
     [](const LinkStatistics& l) { return static_cast<double>(l.pulling()); }}};

struct ConnectionMetric {
  const char* name;
  const char* help;
  double (*value)(const ConnectionStatistics& connection);
  prometheus::MetricType type = prometheus::MetricType::Gauge;
};
constexpr ConnectionMetric kConnectionMetrics[] = {
    {"connection_goodput_bytes_per_second", "Bytes that reached the peer, over about a second.",
     [](const ConnectionStatistics& c) { return c.goodput.value; }},
    {"connection_acknowledged_bytes_total", "Bytes that reached the peer.",
     [](const ConnectionStatistics& c) { return static_cast<double>(c.acknowledged_bytes); },
     prometheus::MetricType::Counter},
    {"connection_retransmits_total", "TCP segments that were sent again.",
     [](const ConnectionStatistics& c) { return static_cast<double>(c.retransmits); },
     prometheus::MetricType::Counter},
    {"connection_round_trip_seconds", "TCP's smoothed round trip.",
     [](const ConnectionStatistics& c) { return c.round_trip.value; }},
    {"connection_pulls", "1: carries messages; 0: idle, the link chose fewer.",
     [](const ConnectionStatistics& c) { return c.pulls ? 1.0 : 0.0; }}};

Labels with(Labels labels, const char* name, std::string value) {
  labels.push_back({name, std::move(value)});
  return labels;
}

Value or_null(const std::optional<double>& number) { return number ? Value(*number) : Value(); }

struct LinkSeries {
  const LinkReport* report;
  Labels labels;
};

void add_links(const std::vector<LinkSeries>& links, Families& out) {
  for (const LinkMetric& metric : kLinkMetrics) {
    auto& family = out.open(metric.name, metric.help);
    for (const auto& [report, labels] : links) {
      Families::add(family, metric.value(report->link), labels);
    }
  }
  auto& silent = out.open("link_silent_seconds", "Since anything was heard of the peer.");
  for (const auto& [report, labels] : links) {
    Families::add(silent, seconds(report->silent).value, labels);
  }
  auto& queue = out.open("link_queue_bytes", "Bytes that wait for the link, by what they are.");
  for (const auto& [report, labels] : links) {
    for (const ClassQueue& q : report->queue) {
      Families::add(queue, static_cast<double>(q.bytes), with(labels, "urgency", q.urgency));
    }
  }
  const auto of_connection = [](const Labels& labels, const ConnectionStatistics& connection) {
    return with(labels, "connection", fmt::format("{}", connection.connection));
  };
  for (const ConnectionMetric& metric : kConnectionMetrics) {
    auto& family = out.open(metric.name, metric.help, metric.type);
    for (const auto& [report, labels] : links) {
      for (const ConnectionStatistics& c : report->link.connections) {
        Families::add(family, metric.value(c), of_connection(labels, c));
      }
    }
  }
  auto& info = out.open("connection_info", "1; the congestion control stands in the label.");
  for (const auto& [report, labels] : links) {
    for (const ConnectionStatistics& c : report->link.connections) {
      Families::add(info, 1,
                    with(of_connection(labels, c), "congestion_control", c.congestion_control));
    }
  }
}

Value link_status(size_t rank, const std::string& from, const LinkReport& report,
                  const std::string& to) {
  const LinkStatistics& link = report.link;
  Value::Table queue;
  for (const ClassQueue& q : report.queue) {
    queue.emplace_back(q.urgency, static_cast<int64_t>(q.bytes));
  }
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
  return Value(
      Value::Table{{"rank", static_cast<int64_t>(rank)},
                   {"peer", int64_t{link.peer}},
                   {"from", from},
                   {"to", to},
                   {"goodput_bytes_per_s", link.goodput().value},
                   {"pulling", link.pulling()},
                   {"congestion_control",
                    link.connections.empty() ? "" : link.connections[0].congestion_control},
                   {"round_trip_s", link.round_trip().value},
                   {"retransmits", static_cast<int64_t>(link.retransmits())},
                   {"silent_s", seconds(report.silent).value},
                   {"through", link.through},
                   {"tuned", link.tuned},
                   {"exploring", link.exploring},
                   {"reason", link.reason},
                   {"queue_bytes", Value(std::move(queue))},
                   {"connections", Value(std::move(connections))}});
}

}  // namespace

std::vector<LinkReport> link_reports(std::vector<LinkStatistics> links, int32_t launcher) {
  std::vector<LinkReport> out;
  for (LinkStatistics& link : links) {
    if (link.peer == launcher || !link.up) continue;
    std::map<std::string, uint64_t> queue;
    for (const char* name : {"pipeline", "gradients", "evaluation"}) queue[name] = 0;
    for (const auto& [urgency, bytes] : link.queued_bytes)
      queue[kernels::class_of(urgency)] += bytes;
    LinkReport& report = out.emplace_back();
    for (const auto& [name, bytes] : queue) report.queue.push_back({name, bytes});
    report.silent = round_to_ns(link.silence);
    report.link = std::move(link);
  }
  return out;
}

Telemetry::Telemetry(const plan::Plan& plan, const Clock& clock)
    : clock_(clock),
      begun_(clock.now()),
      steps_(plan.run.steps),
      schedule_(to_name(plan.parallelism.schedule)) {
  for (const layout::Placement& placement : plan.ranks)
    ranks_.push_back({.datacenter = placement.datacenter});
  if (plan.exchange && plan.exchange->density_changes() && plan.replicas_lie_apart()) {
    const double first = plan.exchange->density_in_use();
    density_ = {.before = first, .density = first, .reason = "the Plan's"};
  }
  if (plan.batch_changes()) {
    const std::vector<int64_t> first = plan::microbatches_of_all(plan);
    batch_ = {.before = first, .microbatches = first, .reason = "the Plan's"};
  }
}

// Spares, which are not ranks of the Plan, are not shown.
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

void Telemetry::add(int32_t rank, const stage::IterationReport& report) {
  std::lock_guard lock(mutex_);
  if (!knows(rank)) return;
  ranks_[rank].iteration = report.iteration;
  ranks_[rank].late_s = report.late_s;
}

void Telemetry::add(int32_t rank, const std::optional<Hang>& hang) {
  std::lock_guard lock(mutex_);
  if (!knows(rank)) return;
  ranks_[rank].hang = hang;
}

void Telemetry::add(int32_t rank, const trust::CertificateFacts& certificate) {
  std::lock_guard lock(mutex_);
  if (!knows(rank)) return;
  ranks_[rank].certificate = certificate;
}

void Telemetry::add(const Progress& progress) {
  std::lock_guard lock(mutex_);
  progress_ = progress;
}

void Telemetry::add(RunPhase phase) {
  std::lock_guard lock(mutex_);
  phase_ = phase;
  // A new epoch begins; its start message has the newest division.
  if (phase == RunPhase::kGathering) epoch_began_with_batch_ = true;
}

void Telemetry::add(const tune::DensityDecision& change) {
  std::lock_guard lock(mutex_);
  density_ = change;
  ++density_changes_;
}

void Telemetry::add(const tune::BatchDecision& change) {
  std::lock_guard lock(mutex_);
  batch_ = change;
  epoch_began_with_batch_ = false;
  ++batch_changes_;
}

// Whether no rank can have begun the first iteration of the newest division: a rank reports an iteration when it
// ends, and begins the next one.
bool Telemetry::is_batch_to_come() const {
  if (!batch_ || epoch_began_with_batch_) return false;
  int64_t newest = progress_ ? progress_->step : 0;
  for (const Rank& rank : ranks_) newest = std::max(newest, rank.iteration);
  return newest + 1 < batch_->first_iteration;
}

std::optional<double> Telemetry::silence_s(const Rank& rank) const {
  if (!rank.heard) return std::nullopt;
  return seconds(clock_.now() - *rank.heard).value;
}

std::optional<double> Telemetry::hang_s(const Rank& rank) const {
  if (!rank.hang) return std::nullopt;
  return seconds(clock_.now() - rank.hang->since).value;
}

std::string Telemetry::prometheus() const {
  std::lock_guard lock(mutex_);
  Families out;
  out.gauge("steps", "Steps that the run is to do.", static_cast<double>(steps_));
  out.gauge("steps_done", "Steps that all ranks have done.",
            progress_ ? static_cast<double>(progress_->step) : 0);
  out.gauge("run_seconds", "Time since the run began.", seconds(clock_.now() - begun_).value);
  if (progress_) {
    out.gauge("iteration_seconds", "Time of the last iteration.", progress_->iteration.value);
    if (progress_->tokens_per_s) {
      out.gauge("tokens_per_second", "Throughput of the last iteration.", *progress_->tokens_per_s);
    }
    out.gauge("wan_wait_share",
              "How much of the last iteration ranks waited for other datacenters.",
              progress_->wan_wait_share);
    if (progress_->loss) {
      out.gauge("loss_nats_per_token", "Training loss of the last step.", *progress_->loss);
    }
    if (progress_->gradient_norm) {
      out.gauge("gradient_norm", "Of the last step, before it was clipped.",
                *progress_->gradient_norm);
    }
    if (progress_->evaluation_loss) {
      out.gauge("evaluation_loss_nats_per_token", "Loss on held-out text, the newest.",
                *progress_->evaluation_loss);
    }
  }
  if (density_) {
    out.gauge("exchange_density", "Share of all numbers that each datacenter sends.",
              density_->density);
    Families::add(out.open("exchange_density_changes_total", "How often it was changed.",
                           prometheus::MetricType::Counter),
                  static_cast<double>(density_changes_));
    if (density_->rate.value > 0) {
      out.gauge("exchange_line_bytes_per_second",
                "What the line to other datacenters carried, when the density was changed.",
                density_->rate.value);
    }
  }
  if (batch_) {
    auto& each = out.open("replica_microbatches", "Microbatches of each pipeline in an iteration.");
    const auto& now = is_batch_to_come() ? batch_->before : batch_->microbatches;
    for (size_t i = 0; i < now.size(); ++i)
      Families::add(each, static_cast<double>(now[i]), {{"replica", std::to_string(i)}});
    Families::add(out.open("replica_microbatches_changes_total", "How often they were changed.",
                           prometheus::MetricType::Counter),
                  static_cast<double>(batch_changes_));
  }
  auto& silence = out.open("rank_silence_seconds", "Time since the rank was last heard.");
  auto& hang = out.open("rank_hang_seconds",
                        "Time since the last progress of a rank that has hung; 0: it has not.");
  auto& late =
      out.open("schedule_lateness_seconds",
               "What the machine cost an emulated rank's last iteration beyond its schedule.");
  auto& expires = out.open("certificate_expires_seconds",
                           "Until the certificate of the rank's host expires; negative: since.");
  const trust::WallTime now = trust::wall_time();
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const Labels labels{{"rank", fmt::format("{}", r)}, {"datacenter", ranks_[r].datacenter}};
    if (const auto& certificate = ranks_[r].certificate) {
      Families::add(expires, static_cast<double>((certificate->expires - now).count()),
                    with(labels, "host", certificate->name));
    }
    if (const auto s = silence_s(ranks_[r])) Families::add(silence, *s, labels);
    Families::add(hang, hang_s(ranks_[r]).value_or(0), labels);
    if (ranks_[r].late_s) Families::add(late, *ranks_[r].late_s, labels);
  }
  std::vector<LinkSeries> links;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    for (const LinkReport& report : ranks_[r].links) {
      links.push_back(
          {&report,
           {{"rank", fmt::format("{}", r)}, {"peer", fmt::format("{}", report.link.peer)}}});
    }
  }
  add_links(links, out);
  return out.text();
}

// What is wrong with the rank, in words; empty: nothing.
std::string Telemetry::trouble(size_t rank) const {
  const Rank& of = ranks_[rank];
  if (!of.hang) return "";
  return hang_text(fmt::format("rank {} ({})", rank, of.datacenter), *of.hang, clock_.now());
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
                                       {"late_s", or_null(rank.late_s)},
                                       {"hang_s", or_null(hang_s(rank))},
                                       {"trouble", trouble(r)}}));
    for (const LinkReport& report : rank.links) {
      const auto peer = static_cast<size_t>(report.link.peer);
      links.push_back(link_status(r, rank.datacenter, report,
                                  peer < ranks_.size() ? ranks_[peer].datacenter : ""));
    }
  }
  Value::Table out{{"phase", std::string(to_name(phase_))},
                   {"steps_done", progress_ ? progress_->step : int64_t{0}},
                   {"steps", steps_},
                   {"schedule", schedule_},
                   {"run_s", seconds(clock_.now() - begun_).value}};
  const auto add = [&](const char* name, std::optional<double> value) {
    out.emplace_back(name, or_null(value));
  };
  add("loss", progress_ ? progress_->loss : std::nullopt);
  add("evaluation_loss", progress_ ? progress_->evaluation_loss : std::nullopt);
  add("iteration_s", progress_ ? std::optional(progress_->iteration.value) : std::nullopt);
  add("tokens_per_s", progress_ ? progress_->tokens_per_s : std::nullopt);
  add("wan_wait_share", progress_ ? std::optional(progress_->wan_wait_share) : std::nullopt);
  add("remaining_s", progress_ ? std::optional(progress_->remaining.value) : std::nullopt);
  if (density_) {
    out.emplace_back("density", Value(Value::Table{{"now", density_->density},
                                                   {"before", density_->before},
                                                   {"first_iteration", density_->first_iteration},
                                                   {"changes", density_changes_},
                                                   {"reason", density_->reason}}));
  }
  if (batch_) {
    const auto list = [](const std::vector<int64_t>& of) {
      return Value(Value::Array(of.begin(), of.end()));
    };
    const bool is_to_come = is_batch_to_come();
    const std::vector<int64_t>& changed = batch_->microbatches;
    out.emplace_back("microbatches",
                     Value(Value::Table{{"now", list(is_to_come ? batch_->before : changed)},
                                        {"next", is_to_come ? list(changed) : Value()},
                                        {"before", list(batch_->before)},
                                        {"first_iteration", batch_->first_iteration},
                                        {"changes", batch_changes_},
                                        {"reason", batch_->reason}}));
  }
  out.emplace_back("ranks", Value(std::move(ranks)));
  out.emplace_back("links", Value(std::move(links)));
  return Value(std::move(out));
}

}  // namespace tombolo::observe
