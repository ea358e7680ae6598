#include "spec/trace/machine_words.h"

#include <fmt/format.h>

namespace tombolo::trace {
namespace {

struct Told {
  std::optional<double> busy, own, lateness, too_busy;
  std::optional<bool> realtime;  // of all that said so
};

Told told_by(const Trace& trace) {
  Told told;
  for (const Record& record : trace.records) {
    if (record.name == kCpuBusyRecord) told.busy = record.value;
    if (record.name == kOwnBusyRecord) told.own = record.value;
    if (record.name == kLatenessRecord) told.lateness = record.value;
    if (record.name == kTooBusyRecord) told.too_busy = record.value;
    if (record.name == kRealtimeRecord)
      told.realtime = told.realtime.value_or(true) && record.value != 0;
  }
  return told;
}

}  // namespace

MachineWords machine_words(const Trace& trace) {
  const Told told = told_by(trace);
  MachineWords words{.busy_share = told.busy, .too_busy = told.too_busy.value_or(0) != 0};
  const bool emulated = told.lateness.has_value();
  if (!emulated && !words.too_busy) return words;
  std::vector<std::string> parts;
  if (told.busy) parts.push_back(fmt::format("{:.0f} % busy", 100 * *told.busy));
  if (told.own) parts.push_back(fmt::format("{:.0f} % with this run", 100 * *told.own));
  if (emulated)
    parts.push_back(fmt::format("emulated waits late by {:.1f} % of an iteration at most",
                                100 * *told.lateness));
  if (told.realtime.value_or(false)) parts.push_back("real-time scheduling");
  words.line = fmt::format("machine: {}: ", fmt::join(parts, ", "));
  if (!words.too_busy) {
    words.line += "fine";
  } else {
    words.line += "too busy for this figure to mean anything; try ";
    words.line +=
        emulated ? "a larger run.byte_scale or fewer ranks" : "again when nothing else runs";
  }
  return words;
}

}  // namespace tombolo::trace
