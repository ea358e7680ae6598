#include <algorithm>
#include <map>
#include <numeric>
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
// in, what it sends. Collectives have a track of their own, as NCCL's have, because a reduction may
// run during a backward pass. Bars of one track must not overlap, or Perfetto drops them: a lane gets
// as many tracks as it needs (messages on a long link, receives, chunks in a dimension).
struct TrackKey {
  int32_t rank = 0;
  Lane lane = Lane::kCompute;
  int32_t which = 0;  // peer of a link, dimension of the network
  auto operator<=>(const TrackKey&) const = default;
};

TrackKey key_of(const Interval& interval) {
  // What a pass communicates inside follows its computation.
  if (action::is_inside_a_pass(interval.action.kind)) return {.rank = interval.rank};
  const bool in_dimension = interval.lane == Lane::kDimension;
  return {interval.rank, interval.lane,
          interval.lane == Lane::kLink ? interval.peer
          : in_dimension               ? interval.action.stage
                                       : 0};
}

std::string lane_name(const TrackKey& key, const Interval& interval) {
  switch (key.lane) {
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
      return fmt::format("dimension {}", key.which);
    case Lane::kLink:
      break;
  }
  return fmt::format("link to rank {}", key.which);
}

// Asked in order of start.
class Threads {
 public:
  struct Thread {
    int64_t number = 0;
    std::string name;
    bool is_new = false;
  };

  // The first track of its lane that is free again. A bar without length covers nothing.
  Thread find(const Interval& interval) {
    const TrackKey key = key_of(interval);
    std::vector<Track>& tracks = tracks_[key];
    size_t t = 0;
    const bool covers = interval.end > interval.start;
    while (covers && t < tracks.size() && tracks[t].until > interval.start) ++t;
    const bool is_new = t == tracks.size();
    if (is_new) tracks.push_back({number_of(key, t), interval.end});
    tracks[t].until = std::max(tracks[t].until, interval.end);
    return {tracks[t].number,
            lane_name(key, interval) + (t == 0 ? "" : fmt::format(" ({})", t + 1)), is_new};
  }

 private:
  struct Track {
    int64_t number = 0;
    SimTime until;
  };

  // Threads are listed by number. Peers may be many, so other tracks are numbered from far above
  // them.
  int64_t number_of(const TrackKey& key, size_t t) {
    constexpr int32_t kFirst = 1 << 30;
    if (t == 0 && key.lane == Lane::kCompute) return 0;
    if (t == 0 && key.lane == Lane::kCollective) return 1;
    if (t == 0 && key.lane == Lane::kLink && key.which >= 0 && key.which < kFirst - 2)
      return key.which + 2;
    return kFirst + count_[key.rank]++;
  }

  std::map<TrackKey, std::vector<Track>> tracks_;
  std::map<int32_t, int64_t> count_;  // of tracks from kFirst on, by rank
};

// The intervals' numbers, in order of start: files may have another one.
std::vector<size_t> by_start(const std::vector<Interval>& intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return intervals[a].start < intervals[b].start; });
  return order;
}

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
  std::vector<int64_t> numbers(trace.intervals.size());
  for (const size_t i : by_start(trace.intervals)) {
    const Interval& interval = trace.intervals[i];
    const Threads::Thread thread = threads.find(interval);
    numbers[i] = thread.number;
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
  const auto thread_of = [&](const Interval& interval) {
    return numbers[static_cast<size_t>(&interval - trace.intervals.data())];
  };
  for (const Interval& message : trace.intervals) {
    if (message.lane != Lane::kLink) continue;
    const Interval* consumer = consumer_of(message, computed);
    if (!consumer) continue;
    writer.event(fmt::format(R"("ph":"s","name":"message","cat":"message","id":{},"pid":{},)"
                             R"("tid":{},"ts":{})",
                             arrow, message.rank, thread_of(message),
                             microseconds(message.start.ns)));
    writer.event(fmt::format(R"("ph":"f","bp":"e","name":"message","cat":"message","id":{},)"
                             R"("pid":{},"tid":{},"ts":{})",
                             arrow, consumer->rank, thread_of(*consumer),
                             microseconds(consumer->start.ns)));
    ++arrow;
  }
  for (const Record& record : trace.records) {
    writer.event(fmt::format(R"("ph":"C","name":{},"pid":{},"ts":{},"args":{{"value":{}}})",
                             quoted(record.name), record.rank, microseconds(record.at.ns),
                             to_json(Value(record.value), -1)));
    if (record.reason.empty()) continue;
    writer.event(
        fmt::format(R"("ph":"i","s":"p","name":{},"cat":"decision","pid":{},"tid":0,"ts":{},)"
                    R"("args":{{"iteration":{},"reason":{}}})",
                    quoted(fmt::format("{} {:g}", record.name, record.value)), record.rank,
                    microseconds(record.at.ns), record.iteration, quoted(record.reason)));
  }
  return writer.take();
}

}  // namespace tombolo::trace
