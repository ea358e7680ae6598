// The command line of tombolo-islands.
//
//   tombolo-islands run FILE [options] -- COMMAND...     tools/islands
//   tombolo-islands wanem FILE [options]                 tools/wanem
//   tombolo-islands exec HOST COMMAND...                 inside; an rsh agent for launchers
//   tombolo-islands trace [options]                      a synthetic rate trace, as CSV
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/wanem/fluctuation.h"

namespace tombolo::islands {

enum class Verb { kRun, kWanem, kExec, kTrace, kHelp };

struct Arguments {
  Verb verb = Verb::kHelp;
  std::string file;                  // run, wanem
  std::optional<double> byte_scale;  // run, wanem
  std::string host;                  // run: where; left out: the first. exec: name or address
  bool each = false;                 // run: on every host at once
  std::string counters;              // run, wanem: a file for the counters, written at the end
  uint64_t seed = 1;                 // run, wanem: of losses and jitter
  wanem::FluctuationOptions trace;
  std::vector<std::string> command;  // run, exec
  std::string text;                  // kHelp: what to print
};

// Unusable with one message where the words make no sense.
Result<Arguments> parse_arguments(std::vector<std::string> words);

}  // namespace tombolo::islands
