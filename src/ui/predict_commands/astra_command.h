// `tombolo astra`: a drop-in for ASTRA-sim's analytical binaries. Docs: docs/guide/astra-sim.md.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "predict/astra/astra_ledger.h"
#include "predict/astra/astra_recorder.h"
#include "predict/astra/astra_run.h"
#include "spec/trace/trace.h"
#include "ui/command/command.h"

namespace tombolo::predict_commands {

// ASTRA-sim's options under their names, and ours behind them.
struct AstraCommandOptions {
  std::string workload;  // prefix of the files PREFIX.RANK.et
  std::string job;       // instead: a job, whose workload is made as `convert --to chakra` would
  std::string granularity = "layer";     // of the job's computations
  bool remote_parameters = false;        // of a job with ZeRO 3: its shards are in remote memory
  std::optional<int64_t> retarget;       // take the traces for those of this many ranks
  std::vector<std::string> data_groups;  // with it: groups that join replicas; empty: found
  std::string system;
  std::string network;
  std::string remote_memory;
  std::string comm_groups;  // empty or "empty": none
  std::string logging;      // taken and ignored, as is logging_folder: there is no log
  std::string logging_folder;
  int queues = 1;  // per dimension
  double compute_scale = 1, comm_scale = 1, injection_scale = 1;
  bool rendezvous = false;

  std::string law = "analytical";
  std::string groups;  // "ring" or "hierarchical"; empty: hierarchical with a job, else ring
  bool spmd = false;   // the file of rank 0 stands for all ranks
  std::string collapse = "on";
  std::vector<std::string> set;  // a sweep: "network.bandwidth=50,100"; see astra_sweep()
  int threads = 0;               // of a sweep; 0: as many as there are cores
  std::string csv;               // file for its rows
  bool per_npu =
      false;          // every rank's finish and exposed time in the JSON answer, every rank's lines
  std::string trace;  // file to write; empty: none
  std::string report;    // page to write; empty: none
  int trace_ranks = 64;  // in both
  bool summary = false;  // tables after the result lines
  bool json = false;
};
Status astra(const AstraCommandOptions& options, std::ostream& out);
command::Command add_astra(CLI::App& app);

// Figures of a run in addition to ASTRA-sim's lines: exposed time and use of the network. Keys
// "exposed", "dimensions" and "bytes_sent"; with per_npu also "per_npu_exposed".
void add_figures(Value::Table& json, const astra::AstraLedger& ledger, bool per_npu);

// The same as two tables for people.
std::string figures_text(const astra::AstraLedger& ledger);

// The run as a Trace, with the header filled in.
trace::Trace make_trace(const AstraCommandOptions& options, const astra::AstraAnswer& answer,
                        const astra::AstraLedger& ledger, astra::AstraRecorder& recorder);

// `tombolo astra --set KEY=VALUE,...`: one workload on every network and system of a grid.
//
//   --set network.bandwidth=50,100               every dimension
//   --set network.bandwidth[1]=25,50             the second
//   --set network.topology[0]=Ring,Switch
//   --set system.active-chunks-per-dimension=1,2
//   --set system.all-reduce-implementation=ring,direct
//
// Axes as sweep/sweep_axis.h reads them, the last varying fastest; a key of a list without a
// number means all its entries. Each point is what a single run with such files answers. Points are
// shared out to threads; rows come in the order of the grid, so the answer depends neither on the
// number of threads nor on chance. A point that cannot be simulated ends the sweep; the error names
// the first of the grid.
//
// The answer: a table, with --json one document, with --csv also a file.
Status astra_sweep(const AstraCommandOptions& options, const astra::AstraOptions& of_astra,
                   std::ostream& out);

}  // namespace tombolo::predict_commands
