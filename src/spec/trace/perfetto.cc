#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "base/json.h"
#include "spec/trace/trace_file.h"

namespace tombolo::trace {
namespace {

// Exact: a double would round nanoseconds of long traces away. Written as text into the JSON.
std::string microseconds(int64_t ns) {
  const uint64_t size = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

std::string quoted(const std::string& text) { return to_json(Value(text), -1); }

// A rank's tracks, as profilers of real devices lay them out: what it computes, what it takes part
// in, what it sends. Collectives have a track of their own, as NCCL's have: bars of one track must
// not overlap, and a sum that runs beside a backward pass would. Where bars of a lane do overlap
// (receives, chunks in a dimension), it gets as many tracks as it needs.
std::string lane_name(const Interval& interval) {
  switch (interval.lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kCollective:
      return interval.action.kind == action::ActionKind::kNode ? "communicator" : "collectives";
    case Lane::kHost:
      return "host";
    case Lane::kRemoteMemory:
      return "remote memory";
    case Lane::kReceive:
      return "receives";
    case Lane::kDimension:
      return fmt::format("dimension {}", interval.action.stage);
    case Lane::kLink:
      break;
  }
  return fmt::format("link to rank {}", interval.peer);
}

// Threads are listed by number. Peers may be many, so other tracks are numbered from far above
// them.
class Threads {
 public:
  struct Thread {
    int64_t number = 0;
    std::string name;
    bool is_new = false;
  };

  Thread find(const Interval& interval) {
    // Co-executed passes begin together: the second one lies beside the track.
    if (interval.lane == Lane::kCompute) {
      SimTime& until = computes_until_[interval.rank];
      if (interval.start < until) return beside(interval);
      until = interval.end;
    }
    // What a pass communicates inside follows its computation, and overlaps nothing there.
    if (interval.lane == Lane::kCompute || action::is_inside_a_pass(interval.action.kind))
      return first_time(interval, 0);
    if (interval.lane == Lane::kCollective) return first_time(interval, 1);
    if (interval.lane == Lane::kLink) return first_time(interval, int64_t{interval.peer} + 2);
    // The first track of its lane that is free again.
    std::vector<Track>& tracks = tracks_[{interval.rank, interval.lane, interval.action.stage}];
    size_t t = 0;
    while (t < tracks.size() && tracks[t].until > interval.start) ++t;
    const bool is_new = t == tracks.size();
    if (is_new) tracks.push_back({kFirst + count_[interval.rank]++, {}});
    tracks[t].until = interval.end;
    return {tracks[t].number, lane_name(interval) + (t == 0 ? "" : fmt::format(" ({})", t + 1)),
            is_new};
  }

 private:
  struct Track {
    int64_t number = 0;
    SimTime until;
  };
  std::set<std::pair<int32_t, int64_t>> known_;
  std::map<std::tuple<int32_t, Lane, int32_t>, std::vector<Track>> tracks_;
  static constexpr int64_t kFirst = 1 << 30;
  std::map<int32_t, int64_t> count_;

  std::map<int32_t, SimTime> computes_until_;  // by rank

  Thread beside(const Interval& interval) {
    SimTime& until = computes_until_[interval.rank];
    until = std::max(until, interval.end);
    std::vector<Track>& tracks = tracks_[{interval.rank, Lane::kCompute, 0}];
    const bool is_new = tracks.empty();
    if (is_new) tracks.push_back({kFirst + count_[interval.rank]++, {}});
    return {tracks.front().number, "compute beside it", is_new};
  }

  Thread first_time(const Interval& interval, int64_t number) {
    return {number, lane_name(interval), known_.emplace(interval.rank, number).second};
  }
};

class Writer {
 public:
  void event(const std::string& fields) { out_ += (out_.empty() ? "\n{" : ",\n{") + fields + "}"; }
  void name(const char* what, int64_t process, int64_t thread, const std::string& name) {
    event(fmt::format(R"("ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}})", what,
                      process, thread, quoted(name)));
  }
  std::string take() {
    return R"({"displayTimeUnit":"ns","traceEvents":[)" + std::move(out_) + "\n]}\n";
  }

 private:
  std::string out_;
};

std::string process_name(const RankLabel& label, const Header& header) {
  if (header.graph) {
    const std::string others =
        label.stands_for > 1 ? fmt::format(" (stands for {})", label.stands_for) : "";
    return fmt::format("rank {}{}", label.rank, others);
  }
  return fmt::format("{}: rank {}, stage {}{} ({})", label.datacenter, label.rank, label.stage,
                     has_replicas(header) ? fmt::format(", pipeline {}", label.replica) : "",
                     label.device);
}

// What takes a message's content: F, or R where the stage recomputes, or B.
const Interval* consumer_of(
    const Interval& message,
    const std::map<std::tuple<int64_t, int32_t, action::ActionKind, int32_t>, const Interval*>&
        computed) {
  const auto find = [&](action::ActionKind kind) -> const Interval* {
    const auto at =
        computed.find({message.iteration, message.peer, kind, message.action.microbatch});
    return at == computed.end() ? nullptr : at->second;
  };
  if (message.action.kind == action::ActionKind::kSendActivation)
    return find(action::ActionKind::kForward);
  if (const Interval* recompute = find(action::ActionKind::kRecompute)) return recompute;
  if (const Interval* backward = find(action::ActionKind::kBackward)) return backward;
  return find(action::ActionKind::kBackwardInput);
}

std::string label_of(const Interval& interval) {
  const auto* of_graph = std::get_if<GraphPart>(&interval.origin);
  return of_graph ? of_graph->name : action::to_text(interval.action);
}

}  // namespace

std::string to_perfetto(const Trace& trace) {
  Writer writer;
  for (const RankLabel& label : trace.header.ranks) {
    writer.name("process_name", label.rank, 0, process_name(label, trace.header));
  }
  Threads threads;
  std::vector<int64_t> numbers;
  for (const Interval& interval : trace.intervals) {
    const Threads::Thread thread = threads.find(interval);
    numbers.push_back(thread.number);
    if (thread.is_new) writer.name("thread_name", interval.rank, thread.number, thread.name);
  }
  std::map<std::tuple<int64_t, int32_t, action::ActionKind, int32_t>, const Interval*> computed;
  for (size_t i = 0; i < trace.intervals.size(); ++i) {
    const Interval& interval = trace.intervals[i];
    writer.event(fmt::format(R"("ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},)"
                             R"("args":{{"iteration":{},"microbatch":{},"bytes":{}}})",
                             quoted(label_of(interval)), to_name(interval.lane), interval.rank,
                             numbers[i], microseconds(interval.start.ns),
                             microseconds((interval.end - interval.start).ns), interval.iteration,
                             interval.action.microbatch, interval.bytes));
    if (interval.lane == Lane::kCompute) {
      computed.emplace(std::tuple{interval.iteration, interval.rank, interval.action.kind,
                                  interval.action.microbatch},
                       &interval);
    }
  }
  int64_t arrow = 0;
  for (const Interval& message : trace.intervals) {
    if (message.lane != Lane::kLink) continue;
    const Interval* consumer = consumer_of(message, computed);
    if (!consumer) continue;
    writer.event(fmt::format(R"("ph":"s","name":"message","cat":"message","id":{},"pid":{},)"
                             R"("tid":{},"ts":{})",
                             arrow, message.rank, int64_t{message.peer} + 2,
                             microseconds(message.start.ns)));
    writer.event(fmt::format(R"("ph":"f","bp":"e","name":"message","cat":"message","id":{},)"
                             R"("pid":{},"tid":{},"ts":{})",
                             arrow, consumer->rank,
                             numbers[static_cast<size_t>(consumer - trace.intervals.data())],
                             microseconds(consumer->start.ns)));
    ++arrow;
  }
  for (const Record& record : trace.records) {
    writer.event(fmt::format(R"("ph":"C","name":{},"pid":{},"ts":{},"args":{{"value":{}}})",
                             quoted(record.name), record.rank, microseconds(record.at.ns),
                             to_json(Value(record.value), -1)));
  }
  return writer.take();
}

}  // namespace tombolo::trace
