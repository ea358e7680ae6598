// The words of `tombolo sweep` on the command line, for the two programs that read them.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace tombolo::cli {

inline CLI::App* add_sweep(CLI::App& app, SweepCommandOptions& options) {
  CLI::App* command = app.add_subcommand(
      "sweep", "many what-ifs of a job, in parallel: throughput and cost as CSV and charts");
  command->add_option("job", options.job, "job file (TOML)")->required();
  command
      ->add_option("--vary", options.vary,
                   "path=a,b,c of the job or its cluster, such as "
                   "\"cluster.wan.*.one_way_latency=10 ms..40 ms/4\"; several: their product")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--ask", options.ask, "simulate, estimate, plan or select")
      ->capture_default_str();
  command->add_option("--policy", options.policy,
                      "of simulate: another schedule than the job's, or best, which searches");
  command->add_option("--law", options.law, "of estimate and plan: tombolo or rail-only")
      ->capture_default_str();
  command->add_option("--objective", options.objective, "of plan: time, cost or throughput")
      ->capture_default_str();
  command->add_option("--out", options.out, "write all rows: rows.csv or rows.jsonl");
  command->add_option("--report", options.report, "HTML page to write, with charts");
  command->add_option("--x", options.x, "path along the charts; left out: the first");
  command->add_option("--y", options.y, "column of the first chart; left out: throughput");
  command->add_option("--by", options.by, "path with a line per value; left out: the second");
  command->add_option("--threads", options.threads, "0: as many as there are")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--json", options.json, "one JSON document on stdout, nothing else");
  return command;
}

}  // namespace tombolo::cli
