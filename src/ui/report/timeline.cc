#include "ui/report/timeline.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "ui/report/figures.h"

namespace tombolo::report {
namespace {

using trace::Interval;
using trace::Lane;
using trace::Trace;

// In the order of the page: ranks, then links; in a run of graphs, rank by rank.
struct LaneKey {
  int32_t block = 0;  // 0: ranks, 1: links, 2: nodes of graphs
  int32_t rank = 0;
  int32_t order = 0;  // of a rank's lanes, where it has several
  int32_t part = -1;  // peer, or dimension
  Lane lane = Lane::kCompute;
  auto operator<=>(const LaneKey&) const = default;
};

const trace::RankLabel* label_of(const Trace& trace, int32_t rank) {
  for (const trace::RankLabel& label : trace.header.ranks) {
    if (label.rank == rank) return &label;
  }
  return nullptr;
}

// From what computes to what carries.
int32_t order_of(Lane lane) {
  constexpr Lane kOrder[] = {Lane::kHost,       Lane::kCompute, Lane::kRemoteMemory,
                             Lane::kCollective, Lane::kReceive, Lane::kDimension,
                             Lane::kLink};
  return static_cast<int32_t>(std::find(std::begin(kOrder), std::end(kOrder), lane) - kOrder);
}

// A rank's part in a gradient all-reduce is drawn among its computations, over the end of the last
// backward if it begins during it; so is the communication inside a pass.
LaneKey lane_of(const Interval& i) {
  if (i.action.kind == action::ActionKind::kNode) {
    const int32_t dimension = i.lane == Lane::kDimension ? i.action.stage : -1;
    return {2, i.rank, order_of(i.lane), i.lane == Lane::kLink ? i.peer : dimension, i.lane};
  }
  if (i.lane == Lane::kLink) return {1, i.rank, 0, i.peer, Lane::kLink};
  return {0, i.rank, 0, -1, Lane::kCompute};
}

std::string words_of(const LaneKey& key) {
  switch (key.lane) {
    case Lane::kCompute:
      return "accelerator";
    case Lane::kHost:
      return "host";
    case Lane::kRemoteMemory:
      return "remote memory";
    case Lane::kCollective:
      return "communicator";
    case Lane::kReceive:
      return "receives";
    case Lane::kDimension:
      return fmt::format("dimension {}", key.part);
    case Lane::kLink:
      break;
  }
  return fmt::format("link to rank {}", key.part);
}

// A rank that stands for others says so.
Value describe_lane_of_graph(const Trace& trace, const LaneKey& key) {
  const trace::RankLabel* label = label_of(trace, key.rank);
  const std::string others =
      label && label->stands_for > 1 ? fmt::format(" · for {} ranks", label->stands_for) : "";
  return Value::Table{{"kind", std::string(to_name(key.lane))},
                      {"rank", int64_t{key.rank}},
                      {"label", fmt::format("rank {}", key.rank)},
                      {"detail", words_of(key) + others}};
}

// What the page draws of a node: its name, and what kind of bar it is.
Value describe_node(const Interval& i) {
  const bool chunk = i.lane == Lane::kDimension && i.action.microbatch >= 0;
  const char* kind = i.lane == Lane::kDimension ? "message" : to_name(i.lane).data();
  return Value::Table{{"name", to_text(i.origin)},
                      {"kind", chunk ? "chunk" : kind},
                      {"chunk", int64_t{i.action.microbatch}}};
}

Value describe_lane(const Trace& trace, const LaneKey& key) {
  if (key.block == 2) return describe_lane_of_graph(trace, key);
  const Lane kind = key.lane;
  const int32_t rank = key.rank;
  const int32_t peer = key.part;
  const trace::RankLabel* from = label_of(trace, rank);
  const bool replicas = trace::has_replicas(trace.header);
  Value::Table lane{{"kind", std::string(to_name(kind))}, {"rank", int64_t{rank}}};
  if (replicas && from) {
    lane.emplace_back("stage", int64_t{from->stage});
    lane.emplace_back("replica", int64_t{from->replica});
  }
  const std::string pipeline = replicas && from ? fmt::format("pipeline {} · ", from->replica) : "";
  if (kind == Lane::kCompute) {
    lane.emplace_back("label", fmt::format("rank {}", rank));
    lane.emplace_back("detail",
                      from ? fmt::format("stage {} · {}{}", from->stage, pipeline, from->datacenter)
                           : std::string());
    lane.emplace_back("device", from ? from->device : std::string());
    lane.emplace_back("datacenter", from ? from->datacenter : std::string());
    return lane;
  }
  const trace::RankLabel* to = label_of(trace, peer);
  const std::string ranks = fmt::format("{}rank {} → {}", pipeline, rank, peer);
  lane.emplace_back("peer", int64_t{peer});
  if (!from || !to) {
    lane.emplace_back("label", ranks);
    lane.emplace_back("detail", std::string());
  } else if (from->datacenter == to->datacenter) {
    lane.emplace_back("label", from->datacenter);
    lane.emplace_back("detail", ranks);
  } else {
    lane.emplace_back("label", fmt::format("{} → {}", from->datacenter, to->datacenter));
    lane.emplace_back("detail", ranks);
  }
  return lane;
}

// Numbers the lanes: ranks first, then links, each in order.
std::map<LaneKey, int64_t> number_lanes(const Trace& trace) {
  std::map<LaneKey, int64_t> lanes;
  for (const trace::RankLabel& label : trace.header.ranks) {
    if (!trace.header.graph) lanes.try_emplace({0, label.rank, 0, -1, Lane::kCompute});
  }
  for (const Interval& i : trace.intervals) {
    lanes.try_emplace(lane_of(i));
  }
  int64_t next = 0;
  for (auto& [key, number] : lanes) number = next++;
  return lanes;
}

uint64_t zigzag(int64_t n) {
  return n < 0 ? (static_cast<uint64_t>(-(n + 1)) << 1) + 1 : static_cast<uint64_t>(n) << 1;
}

// The intervals of a lane in an iteration, as timeline.h says.
class Row {
 public:
  void add(int64_t action, int64_t start, int64_t duration, int64_t bytes) {
    append(zigzag(action - action_));
    append(zigzag(start - end_));
    append(static_cast<uint64_t>(duration));
    append(bytes == bytes_ ? 0 : static_cast<uint64_t>(bytes) + 1);
    action_ = action;
    end_ = start + duration;
    bytes_ = bytes;
  }
  size_t size() const { return text_.size(); }
  std::string take() { return std::move(text_); }

 private:
  void append(uint64_t number) {
    for (; number >= 32; number /= 32) text_ += kDigits[32 + number % 32];
    text_ += kDigits[number];
  }

  std::string text_;
  int64_t action_ = 0, end_ = 0, bytes_ = 0;
};

// Of one iteration.
struct Rows {
  std::vector<Row> of_lane;
  std::optional<SimDuration> cut;  // from here on, after its start, intervals are left out
};

// "loss" is the mean over all replicas; each one's own share of it would be a second, noisier
// curve.
bool is_curve(const std::string& name) { return name != "replica_loss" && !is_about_machine(name); }

}  // namespace

std::vector<size_t> spread(size_t count, size_t max) {
  std::vector<size_t> out;
  if (count <= max) {
    for (size_t i = 0; i < count; ++i) out.push_back(i);
    return out;
  }
  const size_t edge = max / 3;
  const size_t middle = max - 2 * edge;
  for (size_t i = 0; i < edge; ++i) out.push_back(i);
  // `middle` points inside the open range between the edges.
  const size_t between = count - 2 * edge;
  for (size_t i = 0; i < middle; ++i) out.push_back(edge + (2 * i + 1) * between / (2 * middle));
  for (size_t i = count - edge; i < count; ++i) out.push_back(i);
  return out;
}

std::vector<int64_t> chosen_iterations(const Trace& trace) {
  std::map<int64_t, size_t> intervals;
  for (const Interval& i : trace.intervals) {
    if (i.iteration > 0) ++intervals[i.iteration];
  }
  const std::vector<std::pair<int64_t, size_t>> all(intervals.begin(), intervals.end());
  for (size_t max = std::min(kIterationsMax, all.size());; --max) {
    std::vector<int64_t> chosen;
    size_t held = 0;
    for (const size_t at : spread(all.size(), max)) {
      chosen.push_back(all[at].first);
      held += all[at].second;
    }
    if (held <= kIntervalsMax || max <= 1) return chosen;
  }
}

std::vector<int64_t> matching_iterations(const Trace& trace, const std::vector<int64_t>& chosen) {
  std::vector<int64_t> all;
  for (const trace::IterationTime& time : trace::iteration_times(trace)) {
    all.push_back(time.iteration);
  }
  std::vector<int64_t> out;
  std::set_intersection(all.begin(), all.end(), chosen.begin(), chosen.end(),
                        std::back_inserter(out));
  const bool lacks_some = out.size() < chosen.size();
  if (lacks_some && (out.empty() || out.back() != all.back())) out.push_back(all.back());
  return out;
}

Value timeline(const Trace& trace, const std::vector<int64_t>& iterations, size_t bytes_max) {
  const std::map<LaneKey, int64_t> lanes = number_lanes(trace);
  const std::vector<trace::IterationTime> times = trace::iteration_times(trace);
  std::map<int64_t, Rows> rows;
  for (const int64_t iteration : iterations) rows[iteration].of_lane.resize(lanes.size());
  std::map<std::tuple<action::Action, std::string, Lane>, int64_t> action_numbers;
  Value::Array actions;
  size_t bytes = 0, prompts = 0;  // both bounded
  int64_t shown = 0, left_out = 0;

  for (const Interval& i : trace.intervals) {
    // The iteration it belongs to, or the last one that started before it.
    auto home = std::upper_bound(times.begin(), times.end(), i.start,
                                 [](SimTime at, const auto& time) { return at < time.start; });
    if (i.iteration > 0) {
      home = std::lower_bound(times.begin(), times.end(), i.iteration,
                              [](const auto& time, int64_t n) { return time.iteration < n; });
    } else if (home != times.begin()) {
      --home;
    }
    const auto found = rows.find(home->iteration);
    if (found == rows.end()) continue;
    Rows& row = found->second;
    const SimDuration after = i.start - home->start;
    const bool is_prompt = i.action.kind == action::ActionKind::kPrompt;
    const bool full = bytes >= bytes_max;
    if (full && !row.cut) row.cut = after;
    if (full || (is_prompt && prompts++ >= kIntervalsMax)) {
      ++left_out;
      continue;
    }
    const bool is_node = i.action.kind == action::ActionKind::kNode;
    const auto [action, is_new] = action_numbers.try_emplace(
        {i.action, is_node ? to_text(i.origin) : "", is_node ? i.lane : Lane{}},
        static_cast<int64_t>(actions.size()));
    if (is_new) {
      actions.push_back(is_node ? describe_node(i) : Value(to_text(i.action)));
      bytes += is_node ? to_text(i.origin).size() + 40 : 10;
    }
    Row& lane = row.of_lane[static_cast<size_t>(lanes.at(lane_of(i)))];
    const size_t before = lane.size();
    lane.add(action->second, after.ns, (i.end - i.start).ns, i.bytes);
    bytes += lane.size() - before;
    ++shown;
  }

  Value::Array lane_values;
  for (const auto& [key, number] : lanes) lane_values.push_back(describe_lane(trace, key));
  Value::Array iteration_values;
  for (const trace::IterationTime& time : times) {
    const auto found = rows.find(time.iteration);
    if (found == rows.end()) continue;
    Value::Array texts;
    for (Row& row : found->second.of_lane) texts.emplace_back(row.take());
    Value::Table iteration{{"iteration", time.iteration},
                           {"start_ns", time.start.ns},
                           {"duration_ns", (time.end - time.start).ns},
                           {"rows", std::move(texts)}};
    if (const auto cut = found->second.cut) iteration.emplace_back("cut_ns", cut->ns);
    iteration_values.push_back(std::move(iteration));
  }
  return Value::Table{{"lanes", std::move(lane_values)},
                      {"actions", std::move(actions)},
                      {"iterations", std::move(iteration_values)},
                      {"intervals", shown},
                      {"intervals_left_out", left_out}};
}

Value iteration_curve(const Trace& trace) {
  const std::vector<trace::IterationTime> times = trace::iteration_times(trace);
  Value::Array iteration, duration;
  for (const size_t at : spread(times.size(), kPointsMax)) {
    iteration.emplace_back(times[at].iteration);
    duration.emplace_back((times[at].end - times[at].start).ns);
  }
  return Value::Table{{"iteration", std::move(iteration)}, {"duration_ns", std::move(duration)}};
}

Value record_curves(const Trace& trace) {
  // Name, then iteration, then the lowest rank.
  std::map<std::string, std::map<int64_t, std::pair<int32_t, double>>> curves;
  for (const trace::Record& record : trace.records) {
    if (!std::isfinite(record.value) || !is_curve(record.name)) continue;
    auto& curve = curves[record.name];
    const auto [point, is_new] = curve.try_emplace(record.iteration, record.rank, record.value);
    if (!is_new && record.rank < point->second.first) point->second = {record.rank, record.value};
  }
  Value::Table out;
  for (const auto& [name, curve] : curves) {
    const std::vector<std::pair<int64_t, std::pair<int32_t, double>>> points(curve.begin(),
                                                                             curve.end());
    Value::Array iteration, value;
    for (const size_t at : spread(points.size(), kPointsMax)) {
      iteration.emplace_back(points[at].first);
      value.emplace_back(points[at].second.second);
    }
    out.emplace_back(
        name, Value::Table{{"iteration", std::move(iteration)}, {"value", std::move(value)}});
  }
  return out;
}

namespace {

template <class T>
void keep_newest(std::vector<T>& of) {
  of.erase(of.begin(), of.end() - std::min(std::ssize(of), static_cast<ptrdiff_t>(kDecisionsMax)));
}

// The part that decisions of all kinds have in common.
Value::Table decisions_table(int64_t changed, Value::Array reasons) {
  const int64_t all = std::ssize(reasons);
  keep_newest(reasons);
  return {{"changed", changed}, {"reasons", all}, {"newest", std::move(reasons)}};
}

}  // namespace

Value density_decisions(const Trace& trace) {
  std::map<int64_t, const trace::Record*> densities;
  std::map<int64_t, double> rates;
  for (const trace::Record& record : trace.records) {
    if (!std::isfinite(record.value)) continue;
    if (record.name == "line_rate") rates.try_emplace(record.iteration, record.value);
    if (record.name != "density") continue;
    const auto [at, is_new] = densities.try_emplace(record.iteration, &record);
    if (!is_new && record.rank < at->second->rank) at->second = &record;
  }
  if (densities.empty()) return {};
  int64_t changed = 0;
  Value::Array reasons;
  const trace::Record* before = nullptr;
  for (const auto& [iteration, record] : densities) {
    if (before && before->value != record->value) ++changed;
    if (!record->reason.empty()) {
      const auto rate = rates.find(iteration);
      reasons.push_back(
          Value::Table{{"iteration", iteration},
                       {"before", before ? Value(before->value) : Value()},
                       {"density", record->value},
                       {"line_bytes_per_s", rate == rates.end() ? Value() : Value(rate->second)},
                       {"reason", record->reason}});
    }
    before = record;
  }
  return decisions_table(changed, std::move(reasons));
}

Value batch_decisions(const Trace& trace) {
  struct Division {
    std::map<int32_t, int64_t> each;  // microbatches, by the rank that speaks for a pipeline
    std::string reason;
  };
  std::map<int64_t, Division> divisions;  // by iteration
  size_t pipelines = 0;
  for (const trace::Record& record : trace.records) {
    if (record.name != "microbatches" || !(record.value >= 0 && record.value <= 1e15)) continue;
    Division& division = divisions[record.iteration];
    division.each.try_emplace(record.rank, static_cast<int64_t>(record.value));
    if (!record.reason.empty()) division.reason = record.reason;
    pipelines = std::max(pipelines, division.each.size());
  }
  // An iteration that some pipeline lacks says nothing about the division.
  std::erase_if(divisions, [&](const auto& each) { return each.second.each.size() < pipelines; });
  if (divisions.empty()) return {};
  const bool each = pipelines <= kPipelinesEach;
  const auto list = [&](const Division& division) {
    Value::Array out;
    for (const auto& [rank, microbatches] : division.each) out.emplace_back(microbatches);
    if (each) return out;
    const auto [fewest, most] =
        std::minmax_element(division.each.begin(), division.each.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; });
    return Value::Array{fewest->second, most->second};
  };
  std::vector<std::pair<int64_t, const Division*>> turns;  // where it changed
  Value::Array reasons;
  const Division* before = nullptr;
  for (const auto& [iteration, division] : divisions) {
    if (before && before->each != division.each) {
      turns.emplace_back(iteration, &division);
      if (!division.reason.empty()) {
        reasons.push_back(Value::Table{{"iteration", iteration},
                                       {"before", list(*before)},
                                       {"microbatches", list(division)},
                                       {"reason", division.reason}});
      }
    }
    before = &division;
  }
  const int64_t changed = std::ssize(turns);
  keep_newest(turns);
  turns.insert(turns.begin(), {divisions.begin()->first, &divisions.begin()->second});
  turns.emplace_back(divisions.rbegin()->first, &divisions.rbegin()->second);
  std::vector<Value::Array> curves(each ? pipelines : 2);
  Value::Array iterations;
  for (const auto& [iteration, division] : turns) {
    iterations.emplace_back(iteration);
    Value::Array numbers = list(*division);
    for (size_t curve = 0; curve < curves.size(); ++curve)
      curves[curve].push_back(std::move(numbers[curve]));
  }
  Value::Table out{{"iteration", std::move(iterations)},
                   {"each", each},
                   {"pipelines", Value::Array(curves.begin(), curves.end())}};
  std::ranges::move(decisions_table(changed, std::move(reasons)), std::back_inserter(out));
  return out;
}

}  // namespace tombolo::report
