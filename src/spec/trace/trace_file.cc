#include "spec/trace/trace_file.h"

#include "base/check.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/json.h"

namespace tombolo::trace {

// fields.h finds a description in the namespace of its type.
template <class Archive>
void describe(Archive& a, RankLabel& label) {
  a.required("rank", label.rank);
  a.required("stage", label.stage);
  a.optional("replica", label.replica);
  a.required("datacenter", label.datacenter);
  a.required("device", label.device);
  if (Archive::kReads || label.stands_for != 1) a.optional("stands_for", label.stands_for);
}

template <class Archive>
void describe(Archive& a, GraphRun& run) {
  a.optional("inputs", run.inputs);
  a.optional("exposed", run.exposed);
  a.optional("dimensions", run.dimensions);
  a.optional("left_out", run.left_out);
}

template <class Archive>
void describe(Archive& a, Record& record) {
  a.required("record", record.name);
  a.required("iteration", record.iteration);
  a.required("rank", record.rank);
  a.required("at_ns", record.at.ns);
  a.required("value", record.value);
  a.optional("reason", record.reason);
}

namespace {

// The lines of the file as structs, so that one description reads and writes them.
struct IntervalLine {
  std::string action;
  Interval interval;
  std::string name = {};  // its origin
};
struct EndLine {
  bool end = true;
  int64_t intervals = 0;
  int64_t records = 0;
};
struct HeaderLine {
  int tombolo_trace = kTraceVersion;
  Header header;
};

template <class Archive>
void describe(Archive& a, HeaderLine& line) {
  a.required("tombolo_trace", line.tombolo_trace);
  a.check(line.tombolo_trace == kTraceVersion, "tombolo_trace",
          fmt::format("this program reads version {}", kTraceVersion));
  Header& header = line.header;
  a.required("provenance", header.provenance);
  a.optional("name", header.name);
  a.optional("command", header.command);
  a.optional("version", header.version);
  a.optional("plan_digest", header.plan_digest);
  a.optional("fingerprint", header.fingerprint);
  // Seeds use all 64 bits; a text keeps them from being read as a signed or rounded number.
  std::string seed = fmt::format("{}", header.seed);
  a.optional("seed", seed);
  if constexpr (Archive::kReads) {
    a.check(seed.size() <= 20 && seed.find_first_not_of("0123456789") == std::string::npos, "seed",
            "wanted decimal digits in quotes");
    if (a.ok()) header.seed = std::strtoull(seed.c_str(), nullptr, 10);
  }
  a.optional("byte_scale", header.byte_scale);
  if (Archive::kReads || header.overlaps) a.optional("overlaps", header.overlaps);
  if (Archive::kReads || header.cycle != 1) a.optional("cycle", header.cycle);
  a.check(header.cycle >= 1, "cycle", "must be at least 1");
  a.optional("ranks", header.ranks);
  if (Archive::kReads || !header.plan.is_null()) a.optional("plan", header.plan);
  a.optional("graph", header.graph);
}

template <class Archive>
void describe(Archive& a, IntervalLine& line) {
  Interval& interval = line.interval;
  a.required("action", line.action);
  a.required("lane", interval.lane);
  a.required("rank", interval.rank);
  if (Archive::kReads || interval.peer >= 0) a.optional("peer", interval.peer);
  a.required("iteration", interval.iteration);
  a.required("start_ns", interval.start.ns);
  a.required("end_ns", interval.end.ns);
  if (Archive::kReads || interval.bytes != 0) a.optional("bytes", interval.bytes);
  a.optional("name", line.name);
  if (Archive::kReads || interval.part != 0) a.optional("part", interval.part);
  a.check(interval.part >= 0, "part", "must not be negative");
  a.check(interval.end >= interval.start, "end_ns", "lies before start_ns");
  a.check(interval.rank >= 0, "rank", "must not be negative");
  a.check(interval.bytes >= 0, "bytes", "must not be negative");
  a.check(interval.iteration >= 0, "iteration", "must not be negative");
}

template <class Archive>
void describe(Archive& a, EndLine& line) {
  a.required("end", line.end);
  a.required("intervals", line.intervals);
  a.required("records", line.records);
}

template <typename Line>
void append_line(std::string& out, const Line& line) {
  out += to_json(write_fields(line), -1);
  out += '\n';
}

Status read_origin(IntervalLine& line) {
  Interval& interval = line.interval;
  if (action::is_inside_a_pass(interval.action.kind)) {
    interval.origin = PassPart{TRY(action::parse_action(line.name))};
  } else if (!line.name.empty()) {
    interval.origin = GraphPart{std::move(line.name)};
  }
  return {};
}

Status parse_line(const Value& value, const std::string& name, Trace& trace) {
  if (value.find("action")) {
    IntervalLine line = TRY(read_fields<IntervalLine>(value, name));
    Result<action::Action> action = action::parse_action(line.action);
    if (!action) {
      action.error().message = fmt::format("{}:{}: {}", name, value.line, action.error().message);
      return fail(action.error());
    }
    line.interval.action = *action;
    TRY(during(read_origin(line), fmt::format("reading {}:{}", name, value.line)));
    trace.intervals.push_back(std::move(line.interval));
  } else {
    trace.records.push_back(TRY(read_fields<Record>(value, name)));
  }
  return {};
}

// What parse_trace refuses is not written in the first place.
void check(const Interval& interval) {
  CHECK(interval.end >= interval.start, "rank {} is at work from {} to {} ns", interval.rank,
        interval.start.ns, interval.end.ns);
  CHECK(interval.rank >= 0 && interval.iteration >= 0 && interval.bytes >= 0,
        "rank {} has {} bytes in iteration {}", interval.rank, interval.bytes, interval.iteration);
  CHECK(interval.action.stage >= 0 && interval.action.microbatch >= -1,
        "an action of stage {} and microbatch {}", interval.action.stage,
        interval.action.microbatch);
}

}  // namespace

std::string to_json_lines(const Trace& trace) {
  std::string out;
  append_line(out, HeaderLine{kTraceVersion, trace.header});
  for (const Interval& interval : trace.intervals) {
    check(interval);
    append_line(out,
                IntervalLine{action::to_text(interval.action), interval, to_text(interval.origin)});
  }
  for (const Record& record : trace.records) append_line(out, record);
  append_line(out, EndLine{true, static_cast<int64_t>(trace.intervals.size()),
                           static_cast<int64_t>(trace.records.size())});
  return out;
}

Result<Trace> parse_trace(std::string_view text, const std::string& name) {
  Trace trace;
  bool has_header = false;
  int line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const size_t line_feed = text.find('\n');
    const std::string_view line = text.substr(0, line_feed);
    text.remove_prefix(line_feed == std::string_view::npos ? text.size() : line_feed + 1);
    const auto is_json = parse_json(line, name, line_number);
    if (has_header) TRY(is_json);
    const Value value = is_json ? *is_json : Value();
    if (!has_header) {
      if (!value.find("tombolo_trace")) {
        return unusable(fmt::format("{}:1: this is not a Trace file: its first line has no "
                                    "\"tombolo_trace\"",
                                    name),
                        "a file that tombolo simulate or tombolo train wrote");
      }
      trace.header = TRY(read_fields<HeaderLine>(value, name)).header;
      has_header = true;
    } else if (value.find("end")) {
      const EndLine end = TRY(read_fields<EndLine>(value, name));
      if (end.intervals != static_cast<int64_t>(trace.intervals.size()) ||
          end.records != static_cast<int64_t>(trace.records.size()) || !text.empty()) {
        return unusable(
            fmt::format("{}:{}: the count in the last line does not fit the lines "
                        "before it",
                        name, line_number));
      }
      return trace;
    } else {
      TRY(parse_line(value, name, trace));
    }
  }
  return unusable(
      fmt::format("{}:{}: the file is truncated: its last line is missing", name, line_number),
      "writing it again; the run that made it may have been interrupted");
}

Status write_trace(const std::string& path, const Trace& trace) {
  return write_file(path, to_json_lines(trace));
}

Result<Trace> read_trace(const std::string& path) {
  const std::string text = TRY(read_file(path));
  return parse_trace(text, path);
}

}  // namespace tombolo::trace
