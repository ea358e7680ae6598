// Commands that decide: plan, select, sweep.
//
// Each is a function over plain options that writes its answer to a stream. Its add_NAME function
// defines its words on the command line (ui/command/command.h).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decide/geo/mixed.h"
#include "spec/plan/open_job.h"
#include "ui/command/command.h"

namespace tombolo::decide_commands {

struct PlanCommandOptions {
  std::string job;
  std::string law = "tombolo";
  std::string objective = "time";  // time, cost or throughput
  int top = 5;
  Seconds simulate_for = search::Finals{}.at_most;  // of a core; 0: nothing is simulated
  int threads = 0;                                  // 0: as many as the machine has
  bool all_devices = false;                         // none may stay idle
  bool no_pruning = false;                          // evaluate every configuration
  double memory_margin = 0;                         // of each device's memory, left free
  std::string out;        // plan.json or job.toml of the best; empty: none
  std::string export_to;  // megatron or torchtitan; empty: neither
  bool across = false;    // compare the ways over several datacenters
  double tokens = 0;      // across: the target, of dense training; 0: none
  // across: law, off, or a file of tombolo tune; empty: of the job, or law
  std::string steps_factor;
  std::vector<int64_t> local_steps;  // across: between outer steps, in addition to 30
  Seconds deadline;                  // across: to the target; 0: none
  Dollars budget;                    // across: to the target; 0: none
  int64_t way = 1;                   // across: the row that is written
  Seconds time_limit;                // over several datacenters; 0: none
  std::string report;                // HTML page to write; empty: none
  std::string command;               // what the page says made it
  bool json = false;
};
Status plan(const PlanCommandOptions& options, std::ostream& out);
command::Command add_plan(CLI::App& app);

struct SelectCommandOptions {
  std::string job;
  std::string order;    // availability, price, distance or file; empty: [selection].order
  std::string report;   // HTML page to write; empty: none
  std::string command;  // what the page says made it
  bool json = false;
};
Status select(const SelectCommandOptions& options, std::ostream& out);
command::Command add_select(CLI::App& app);

struct SweepCommandOptions {
  std::string job;
  std::vector<std::string> vary;   // "path=a,b,c", each an axis of the grid
  std::string ask = "simulate";    // sweep::SweepAsk
  std::string policy;              // of simulate: a schedule, or "best"; empty: the job's
  std::string law = "tombolo";     // of estimate and plan
  std::string objective = "time";  // of plan
  std::string out;                 // rows.csv or rows.jsonl; empty: none
  std::string report;              // HTML page to write; empty: none
  std::string x, y, by;            // of its charts; empty: chosen
  int threads = 0;                 // 0: as many as the machine has
  bool json = false;
};
class ProcessGroup;  // process_group.h: the processes that share the grid; null: this one alone
Status sweep(const SweepCommandOptions& options, std::ostream& out, ProcessGroup* group = nullptr);
command::Command add_sweep(CLI::App& app, ProcessGroup* group = nullptr);

// `tombolo plan` over several datacenters: what geo::search_mixed found, for people, programs and
// files.
struct MixedPlanOptions {
  std::string job;  // as it was given
  geo::MixedOptions search;
  std::string out;      // plan.json or job.toml of the best; empty: none
  std::string report;   // HTML page to write; empty: none
  std::string command;  // what the page says made it
  bool json = false;
};

// --out of `tombolo plan`: the Plan of a job with explicit parallelism (.json), or the job with a comment
// (.toml). What was written, for people.
Result<std::string> write_layout(const plan::Job& job, const std::string& path,
                                 const std::string& comment);

// Of a search that ended early: what a plan that was not looked at may be better by.
std::string stopped_text(double gap, search::Objective objective);

// "(simulated)", and the closed form where it differs by more than search::kApart.
std::string time_source(const std::optional<Seconds>& simulated, Seconds closed_form);
Value finals_json(const search::FinalCounts& counts);

// `tombolo plan --across` (decide/across/ways.h).
// `convergence_profile`: of the job; empty: it has none.
Status plan_across(const plan::OpenJob& open, const PlanCommandOptions& options,
                   const std::string& convergence_profile, std::ostream& out);

Status plan_mixed(const plan::OpenJob& open, const MixedPlanOptions& options, std::ostream& out);

}  // namespace tombolo::decide_commands
