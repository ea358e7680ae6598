#include "spec/schedule/ascii.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/check.h"

namespace tombolo::schedule {
namespace {

using action::ActionKind;
using trace::Interval;

char letter_of(const action::Action& action) {
  const auto number = static_cast<char>(std::max(action.microbatch, 0) % 10);
  switch (action.kind) {
    case ActionKind::kForward:
    case ActionKind::kSendActivation:
      return static_cast<char>('0' + number);
    case ActionKind::kBackward:
    case ActionKind::kSendGradient:
      return static_cast<char>('a' + number);
    case ActionKind::kRecompute:
      return static_cast<char>('A' + number);
    case ActionKind::kBackwardInput:
      return static_cast<char>('k' + number);
    case ActionKind::kBackwardWeight:
      return static_cast<char>('K' + number);
    case ActionKind::kReduceGradients:
      return '+';
    case ActionKind::kUpdate:
      return '*';
    default:
      return '?';
  }
}

// What a pass communicates inside is drawn as the pass: this is about who does what in which order.
action::Action pass_of(const Interval& interval) {
  const auto* part = std::get_if<trace::PassPart>(&interval.origin);
  return part ? part->pass : interval.action;
}

struct Grid {
  SimTime start;
  int64_t slot = 1;  // ns per column
  int64_t columns = 0;
  bool exact = false;
};

char pipeline_of(const Interval& interval, const PipelineShape& shape) {
  return static_cast<char>('0' + interval.rank % shape.replicas % 10);
}

Grid choose_grid(const std::vector<const Interval*>& intervals, int width) {
  SimTime start = intervals.front()->start;
  SimTime end = intervals.front()->end;
  for (const Interval* interval : intervals) {
    start = std::min(start, interval->start);
    end = std::max(end, interval->end);
  }
  int64_t common = (end - start).ns;
  for (const Interval* interval : intervals) {
    common = std::gcd(common, (interval->start - start).ns);
    common = std::gcd(common, (interval->end - start).ns);
  }
  const int64_t span = std::max<int64_t>((end - start).ns, 1);
  common = std::max<int64_t>(common, 1);
  if (span / common <= width) return {start, common, span / common, true};
  const int64_t slot = (span - 1) / width + 1;
  return {start, slot, (span - 1) / slot + 1, false};
}

// A row: each column shows what takes most of its slot, the earlier one of two alike.
template <class Letter>
std::string draw_row(const std::vector<const Interval*>& intervals, const Grid& grid,
                     const Letter& letter) {
  std::string row(static_cast<size_t>(grid.columns), '.');
  std::vector<int64_t> taken(static_cast<size_t>(grid.columns), 0);
  for (const Interval* interval : intervals) {
    const int64_t from = (interval->start - grid.start).ns;
    const int64_t to = (interval->end - grid.start).ns;
    for (int64_t column = from / grid.slot; column < grid.columns && column * grid.slot < to;
         ++column) {
      const int64_t share =
          std::min(to, (column + 1) * grid.slot) - std::max(from, column * grid.slot);
      if (share <= taken[column]) continue;
      taken[column] = share;
      row[column] = letter(*interval);
    }
  }
  return row;
}

// The rows from top to bottom: ranks, or pipelines with their stages.
struct Row {
  int32_t replica = 0;
  int32_t stage = 0;
  int32_t rank = 0;
  bool beside = false;  // what runs concurrently with the row above
  std::string name = {};
  std::vector<const Interval*> intervals = {};
};

bool is_forward(const Interval& interval) {
  return interval.lane == trace::Lane::kCompute && interval.action.kind == ActionKind::kForward;
}

// The backwards that run concurrently with a forward of the row, taken out of it.
Row take_beside(Row& row) {
  Row beside{row.replica, row.stage, row.rank, true, "with it", {}};
  std::vector<const Interval*> forwards;
  std::copy_if(row.intervals.begin(), row.intervals.end(), std::back_inserter(forwards),
               [](const Interval* interval) { return is_forward(*interval); });
  std::erase_if(row.intervals, [&](const Interval* interval) {
    if (interval->lane != trace::Lane::kCompute || interval->action.kind != ActionKind::kBackward) {
      return false;
    }
    // Forwards of a rank follow one another: the last one that begins before this ends decides.
    const auto next = std::partition_point(
        forwards.begin(), forwards.end(),
        [&](const Interval* forward) { return forward->start < interval->end; });
    const bool found = next != forwards.begin() && interval->start < next[-1]->end;
    if (found) beside.intervals.push_back(interval);
    return found;
  });
  return beside;
}

std::vector<Row> rows_of(const trace::Trace& trace,
                         const std::map<int32_t, std::vector<const Interval*>>& by_rank) {
  const bool replicas = trace::has_replicas(trace.header);
  std::vector<Row> rows;
  for (const auto& [rank, intervals] : by_rank) {
    Row row{.rank = rank, .name = fmt::format("{}", rank), .intervals = intervals};
    for (const trace::RankLabel& label : trace.header.ranks) {
      if (label.rank != rank) continue;
      row.name = fmt::format("{} {}", label.datacenter, rank);
      if (!replicas) continue;
      row.replica = label.replica;
      row.stage = label.stage;
      row.name += fmt::format(", stage {}", label.stage);
    }
    Row beside = take_beside(row);
    rows.push_back(std::move(row));
    if (!beside.intervals.empty()) rows.push_back(std::move(beside));
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.replica, a.stage, a.rank, a.beside) <
           std::tie(b.replica, b.stage, b.rank, b.beside);
  });
  return rows;
}

// What pipelines of a cell share: one boundary in one direction.
struct SharedRow {
  std::string name = {};
  std::vector<Interval> transfers = {};  // without their latency
};

std::string datacenter_of(const trace::Trace& trace, int32_t rank) {
  for (const trace::RankLabel& label : trace.header.ranks) {
    if (label.rank == rank) return label.datacenter;
  }
  return fmt::format("{}", rank);
}

// Which pipelines share it, where that is not the only cell.
std::string whose(const PipelineShape& shape, int32_t boundary, int32_t replica) {
  const std::vector<int32_t> sharers = shape.sharers(boundary, replica);
  if (sharers.size() < static_cast<size_t>(shape.cell)) {
    return fmt::format(", pipelines {}", fmt::join(sharers, " "));
  }
  return shape.cell < shape.replicas ? fmt::format(", cell {}", replica / shape.cell) : "";
}

// By boundary, direction and those that share it.
std::vector<SharedRow> shared_rows(const trace::Trace& trace, const AsciiOptions& options) {
  std::vector<SharedRow> rows;
  if (!options.shape) return rows;
  const PipelineShape& shape = *options.shape;
  std::map<std::tuple<int32_t, bool, int32_t>, SharedRow> by_link;
  for (const Interval& interval : trace.intervals) {
    if (interval.lane != trace::Lane::kLink || interval.iteration != options.iteration) continue;
    if (!action::is_send(interval.action.kind)) continue;  // messages that sum gradients
    const bool gradients = interval.action.kind == ActionKind::kSendGradient;
    const int32_t boundary = interval.action.stage - (gradients ? 1 : 0);
    if (boundary < 0 || boundary + 1 >= shape.stages || !shape.shares(boundary)) continue;
    const int32_t replica = interval.rank % shape.replicas;
    const int32_t first = shape.first_sharer(boundary, replica);
    if (first < 0) continue;
    SharedRow& row = by_link[{boundary, gradients, first}];
    if (row.name.empty()) {
      row.name = fmt::format("{} -> {}", datacenter_of(trace, interval.rank),
                             datacenter_of(trace, interval.peer)) +
                 whose(shape, boundary, replica);
    }
    row.transfers.push_back(interval);
    if (options.times) {
      SimTime& end = row.transfers.back().end;
      end = std::max(interval.start, end - options.times->latency_over(boundary, replica));
    }
  }
  for (auto& [link, row] : by_link) rows.push_back(std::move(row));
  return rows;
}

std::vector<const Interval*> pointers_to(const std::vector<Interval>& intervals) {
  std::vector<const Interval*> out;
  for (const Interval& interval : intervals) out.push_back(&interval);
  return out;
}

}  // namespace

std::string draw_ascii(const trace::Trace& trace, const AsciiOptions& options) {
  CHECK(options.width >= 10, "a width of {} columns", options.width);
  std::map<int32_t, std::vector<const Interval*>> by_rank;
  std::vector<const Interval*> all;
  for (const Interval& interval : trace.intervals) {
    if (interval.lane == trace::Lane::kLink || interval.iteration != options.iteration) continue;
    by_rank[interval.rank].push_back(&interval);
    all.push_back(&interval);
  }
  if (all.empty()) return {};
  const bool sums = std::any_of(all.begin(), all.end(), [](const Interval* interval) {
    return interval->action.kind == ActionKind::kReduceGradients;
  });
  const bool split = std::any_of(all.begin(), all.end(), [](const Interval* interval) {
    return interval->action.kind == ActionKind::kBackwardInput;
  });
  const std::vector<SharedRow> shared = shared_rows(trace, options);
  for (const SharedRow& row : shared) {
    for (const Interval& transfer : row.transfers) all.push_back(&transfer);
  }
  const Grid grid = choose_grid(all, options.width);

  const bool replicas = trace::has_replicas(trace.header);
  const std::vector<Row> rows = rows_of(trace, by_rank);
  constexpr std::string_view kPipeline = "of pipeline";
  size_t widest = shared.empty() ? 0 : kPipeline.size();
  for (const SharedRow& row : shared) widest = std::max(widest, row.name.size());
  for (const Row& row : rows) widest = std::max(widest, row.name.size());
  std::string out;
  const auto draw = [&](std::string_view name, const auto& intervals, const auto& letter) {
    out += fmt::format("{:>{}} |{}|\n", name, widest, draw_row(intervals, grid, letter));
  };
  int32_t above = -1;
  for (const Row& row : rows) {
    if (replicas && row.replica != above) out += fmt::format("pipeline {}\n", row.replica);
    above = row.replica;
    draw(row.name, row.intervals, [](const Interval& i) { return letter_of(pass_of(i)); });
  }
  if (!shared.empty()) out += "links shared in time\n";
  for (const SharedRow& row : shared) {
    const std::vector<const Interval*> transfers = pointers_to(row.transfers);
    draw(row.name, transfers, [](const Interval& i) { return letter_of(i.action); });
    draw(kPipeline, transfers, [&](const Interval& i) { return pipeline_of(i, *options.shape); });
  }
  out += fmt::format(
      "a column is {}{}; 0-9 forward, a-j backward, {}A-J recompute of microbatch 0-9 (mod 10), "
      "{}* update, . idle\n",
      brief(seconds(SimDuration{grid.slot})), grid.exact ? "" : " and shows what takes most of it",
      split ? "k-t its input half, K-T its weight half, " : "",
      sums ? "+ gradient all-reduce, " : "");
  return out;
}

}  // namespace tombolo::schedule
