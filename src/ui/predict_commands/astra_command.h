// `tombolo astra`: a drop-in for ASTRA-sim's analytical binaries. Docs: docs/astra-sim.md.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "ui/command/command.h"

namespace tombolo::predict_commands {

// ASTRA-sim's options under their names, and ours behind them.
struct AstraCommandOptions {
  std::string workload;  // prefix of the files PREFIX.RANK.et
  std::string job;       // instead: a job, whose workload is made as `convert --to chakra` would
  std::string granularity = "layer";     // of the job's computations
  bool remote_parameters = false;        // of a job with ZeRO 3: its shards are in remote memory
  std::optional<int64_t> retarget;       // take the traces for those of so many ranks
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
  bool spmd = false;  // the file of rank 0 stands for all ranks
  std::string collapse = "on";
  std::vector<std::string> set;  // a sweep: "network.bandwidth=50,100"; see astra_sweep.h
  int threads = 0;               // of a sweep; 0: as many as there are cores
  std::string csv;               // file for its rows
  bool per_npu = false;          // every rank's finish and exposed time in the JSON answer
  std::string trace;             // file to write; empty: none
  std::string report;            // page to write; empty: none
  int trace_ranks = 64;          // in both
  bool summary = false;          // tables after the result lines
  bool json = false;
};
Status astra(const AstraCommandOptions& options, std::ostream& out);
command::Command add_astra(CLI::App& app);

}  // namespace tombolo::predict_commands
