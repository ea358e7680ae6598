// Job: what a person writes (TOML), and how it becomes a Plan.
//
// Its parallelism is explicit; "auto" is refused by name (open_job.h reads jobs that leave it
// open).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/file.h"
#include "base/result.h"
#include "spec/layout/divisions.h"
#include "spec/plan/exchange_settings.h"
#include "spec/plan/plan.h"
#include "spec/plan/settings.h"

namespace tombolo::plan {

// [stage_times]: durations that were measured or imagined, instead of a cost law. A text holds for
// all stages; a list has one entry per stage. The last stage never recomputes.
struct StageTimes {
  std::vector<Seconds> forward;
  std::vector<Seconds> backward;
  std::vector<Seconds> backward_weight;  // of a backward, what its W takes; empty: half
  std::vector<Seconds> recompute;        // empty: none
  std::optional<Seconds> transfer;       // one microbatch over a WAN link; inside a datacenter 0
  std::optional<Seconds> latency;        // after its last byte has left; left out: the link's
  std::optional<int64_t> in_flight;  // microbatches a device has memory for; left out: any number
  std::optional<Seconds> reduce;     // gradient all-reduce among the replicas; left out: none
  // A forward co-executed with the backward of the rank's other stage, by the forward's stage: both
  // together; and when the forward's result is there, left out: at the end. Empty: they are not.
  std::vector<Seconds> pair;
  std::vector<Seconds> pair_forward;
};

struct Job : Decisions {
  std::string file;
  std::optional<model::Model> model;  // may be left out with [stage_times]
  std::optional<StageTimes> stage_times;
  std::optional<Selection> selection;  // for tombolo select alone
  std::vector<std::string> notes;      // what it says that no law counts
  std::string constants;               // of a Plan read as a job: Plan::constants
};

// Of a job file, or of a Plan: job_value.h says what a Plan says as a job. Paths inside the file
// ([model].config, [cluster].file, [data].text and tokens, [checkpoint].directory) are relative to
// it.
Result<Job> parse_job(std::string_view text, const std::string& file);
Result<Job> read_job(const std::string& path);
Result<Job> job_from_value(const Value& value, const std::string& file);  // of a parsed file
// The keys of job files and of cluster files, for `tombolo help`.
std::vector<KeyEntry> job_keys();
std::vector<KeyEntry> cluster_keys();

// What each stage of a pipeline holds, in the order of the model: pipeline x virtual_stages of
// them, as even as possible (model::stage_slice) or as [parallelism].layers_per_stage says, of each
// stage or of each position of the pipeline.
std::vector<model::Slice> split_layers(const model::Model& model,
                                       const layout::Parallelism& parallelism);

// Whether the model and the batch divide as [parallelism] says (layout/divisions.h).
Status check_divisions(const Job& job);

// Unusable where the job puts replicas of a stage into several datacenters, or gives pipelines
// different numbers of microbatches: for searches, which keep the replicas of each stage together and
// all pipelines alike.
Status check_pipelines_are_free(const Job& job);

// Splits the layers evenly, and lays contiguous stages evenly over the datacenters in the order of
// the file (as far as their devices go; all replicas of a stage in one datacenter), unless
// [parallelism] says where they lie. In one datacenter devices follow [parallelism].order. Its
// stages have no memory yet, and no times but those of [stage_times]: cost::make_plan prices them.
// Infeasible where the cluster has too few devices. Whether a stage fits into memory depends on the
// schedule: schedule::check_memory.
Result<Plan> lay_out(const Job& job);

// A sentence for each kind of device that does not multiply in training.precision, and is counted as
// fast as at 16 bits. Among the notes of every job that is read.
std::vector<std::string> notes_on_precision(const Decisions& asked);
// What is said of WAN links that no prediction counts.
std::vector<std::string> notes_on_wan(const cluster::Cluster& cluster);

// A Job as the text that people write: for `tombolo plan --out job.toml`.
//
// Everything is resolved: the model field by field, the cluster in the file, a device by name where
// the catalog has it. Paths are written relative to the folder of the new file. Reads back equal by
// parse_job, but for the notes.
//
// `path` is where the text will be written. `comment` stands above it, line by line.
std::string to_toml_text(const Job& job, const std::string& path, const std::string& comment);

// The tables [exchange], [data], [run], [checkpoint] and [prefill] of a Job or of a Plan, as the file at `path`
// says them.
template <class JobOrPlan>
void append_run_tables(Value::Table& file, const JobOrPlan& said, const std::string& path) {
  if (said.exchange) {
    Exchange exchange = *said.exchange;
    if (std::string& profile = exchange.convergence_profile; !profile.empty())
      profile = path_seen_from(path, profile);
    file.emplace_back("exchange", write_fields(exchange));
  }
  if (said.data) {
    Data data = *said.data;
    change_paths(data, [&](const std::string& name) { return path_seen_from(path, name); });
    file.emplace_back("data", write_fields(data));
  }
  Run run = said.run;
  if (run.init) run.init = path_seen_from(path, *run.init);
  file.emplace_back("run", write_fields(run));
  if (said.checkpoint) {
    Checkpoint checkpoint = *said.checkpoint;
    checkpoint.directory = path_seen_from(path, checkpoint.directory);
    file.emplace_back("checkpoint", write_fields(checkpoint));
  }
  if (said.prefill) file.emplace_back("prefill", write_fields(*said.prefill));
}

}  // namespace tombolo::plan
