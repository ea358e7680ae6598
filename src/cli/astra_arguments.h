// The words of `tombolo astra` on the command line: ASTRA-sim's, then ours.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/astra_command.h"

namespace tombolo::cli {

inline CLI::App* add_astra(CLI::App& app, AstraCommandOptions& options) {
  CLI::App* command = app.add_subcommand(
      "astra", "what ASTRA-sim's analytical binaries answer, from the same files");
  command->add_option("--workload-configuration", options.workload,
                      "PREFIX of Chakra traces, PREFIX.RANK.et");
  command->add_option("--job", options.job,
                      "job.toml, simulated without files; in place of --workload-configuration");
  command
      ->add_option("--granularity", options.granularity, "of a job's computations: layer, or stage")
      ->capture_default_str();
  command->add_option("--retarget", options.retarget,
                      "take the traces, as many as there are, for those of so many ranks, with "
                      "more or fewer data-parallel replicas");
  command
      ->add_option("--data-groups", options.data_groups,
                   "--retarget: names of all groups that join replicas; left out: found")
      ->delimiter(',');
  command->add_flag("--remote-parameters", options.remote_parameters,
                    "of a job with ZeRO 3: its shards live in remote memory");
  command->add_option("--system-configuration", options.system, "system.json");
  command->add_option("--network-configuration", options.network, "network.yml");
  command->add_option("--remote-memory-configuration", options.remote_memory,
                      "remote_memory.json; left out: there is none");
  command->add_option("--comm-group-configuration", options.comm_groups, "JSON, group to ranks");
  command->add_option("--logging-configuration", options.logging, "taken and ignored");
  command->add_option("--logging-folder", options.logging_folder, "taken and ignored");
  command->add_option("--num-queues-per-dim", options.queues, "queues per dimension")
      ->capture_default_str();
  command->add_option("--compute-scale", options.compute_scale, "1");
  command->add_option("--comm-scale", options.comm_scale, "1");
  command->add_option("--injection-scale", options.injection_scale, "of the endpoint delay");
  command->add_option("--rendezvous-protocol", options.rendezvous, "false");
  command->add_option("--law", options.law, "analytical, congestion or fluid")
      ->capture_default_str();
  command->add_flag("--spmd", options.spmd, "PREFIX.0.et stands for all ranks");
  command
      ->add_option("--collapse", options.collapse,
                   "off: simulate every rank, even where one could stand for several")
      ->capture_default_str();
  command->add_option("--set", options.set,
                      "a sweep: network.KEY or system.KEY=VALUE,VALUE,...; repeated: the grid");
  command->add_option("--jobs", options.threads, "threads of a sweep; left out: all cores");
  command->add_option("--csv", options.csv, "of a sweep: file for its rows");
  command->add_flag("--per-npu", options.per_npu, "with --json: when each NPU finishes");
  command->add_option("--trace", options.trace,
                      "Trace to write, for tombolo report and tombolo convert --to perfetto");
  command->add_option("--report", options.report, "HTML page to write: a picture of the run");
  command->add_option("--trace-ranks", options.trace_ranks, "how many ranks these two show")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_flag("--summary", options.summary,
                    "after the result lines: exposed time by cause, use of the dimensions");
  command->add_flag("--json", options.json, "one JSON document on stdout, nothing else");
  return command;
}

}  // namespace tombolo::cli
