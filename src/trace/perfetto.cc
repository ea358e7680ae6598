#include "trace/perfetto.h"

#include <map>
#include <set>
#include <tuple>

#include "base/json.h"

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
// not overlap, and a sum that runs beside a backward pass would.
int64_t thread_of(const Interval& interval) {
  switch (interval.lane) {
    case Lane::kCompute:
      return 0;
    case Lane::kCollective:
      return 1;
    case Lane::kLink:
      break;
  }
  return int64_t{interval.peer} + 2;
}

std::string thread_name(const Interval& interval) {
  switch (interval.lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kCollective:
      return "collectives";
    case Lane::kLink:
      break;
  }
  return fmt::format("link to rank {}", interval.peer);
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

void name_lanes(const Trace& trace, Writer& writer) {
  const bool replicas = has_replicas(trace.header);
  for (const RankLabel& label : trace.header.ranks) {
    writer.name(
        "process_name", label.rank, 0,
        fmt::format("{}: rank {}, stage {}{} ({})", label.datacenter, label.rank, label.stage,
                    replicas ? fmt::format(", pipeline {}", label.replica) : "", label.device));
  }
  std::set<std::pair<int32_t, int64_t>> lanes;
  for (const Interval& interval : trace.intervals) {
    const int64_t thread = thread_of(interval);
    if (!lanes.emplace(interval.rank, thread).second) continue;
    writer.name("thread_name", interval.rank, thread, thread_name(interval));
  }
}

// What takes a message's content: F, or R where the stage recomputes, or B.
const Interval* consumer_of(
    const Interval& message,
    const std::map<std::tuple<int64_t, int32_t, ActionKind, int32_t>, const Interval*>& computed) {
  const auto find = [&](ActionKind kind) -> const Interval* {
    const auto at =
        computed.find({message.iteration, message.peer, kind, message.action.microbatch});
    return at == computed.end() ? nullptr : at->second;
  };
  if (message.action.kind == ActionKind::kSendActivation) return find(ActionKind::kForward);
  if (const Interval* recompute = find(ActionKind::kRecompute)) return recompute;
  if (const Interval* backward = find(ActionKind::kBackward)) return backward;
  return find(ActionKind::kBackwardInput);
}

}  // namespace

std::string to_perfetto(const Trace& trace) {
  Writer writer;
  name_lanes(trace, writer);
  std::map<std::tuple<int64_t, int32_t, ActionKind, int32_t>, const Interval*> computed;
  for (const Interval& interval : trace.intervals) {
    writer.event(fmt::format(R"("ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},)"
                             R"("args":{{"iteration":{},"microbatch":{},"bytes":{}}})",
                             quoted(to_text(interval.action)), to_name(interval.lane),
                             interval.rank, thread_of(interval), microseconds(interval.start.ns),
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
                             arrow, message.rank, thread_of(message),
                             microseconds(message.start.ns)));
    writer.event(fmt::format(R"("ph":"f","bp":"e","name":"message","cat":"message","id":{},)"
                             R"("pid":{},"tid":0,"ts":{})",
                             arrow, consumer->rank, microseconds(consumer->start.ns)));
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
