// Published measurements of real training runs, each row as a job that a law can be asked about.
//
// data/reference/*.csv holds what others measured, with source, licence and caveats in its '#'
// lines; the program carries a copy. A row here is that row as a plan::Job: its model, its
// parallelism, the machines as their makers describe them. What the source does not say and we
// had to suppose stands in `assumptions`, row by row. Nothing in a job is fitted to its result.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "spec/plan/job.h"

namespace tombolo::published {

struct ReferenceRow {
  std::string table;
  std::string name;  // short, unique in its table
  plan::Job job;
  std::optional<Seconds> iteration;  // left out: it ran out of memory
  std::optional<Bytes> memory;       // measured peak of one device
  bool out_of_memory = false;
  bool ordering_only = false;  // too noisy for percent; its order among its group counts
  std::string group;           // rows of one group are comparable: same model, devices and batch
  std::vector<std::string> assumptions;
};

// `devices` of a catalog device in the machines that are sold: nodes of 8 or 4, a scale-up domain
// of a node or a rack, and per device a port of 100 (V100), 200 (A100), 400 or 800 Gbps (GB300).
cluster::Datacenter machines_as_sold(const cluster::Device& device, int64_t devices);

// The tables by their short names, sorted: "bloom", "dgxc", ...
std::vector<std::string> reference_names();

// The name of a table's file, as in "bigscience_bloom_a100_topology_sweep.csv".
Result<std::string> reference_file_name(std::string_view table);

// What could not become a job, and why: one message per row.
struct ReferenceTable {
  std::string name;
  std::vector<ReferenceRow> rows;
  std::vector<std::string> left_out;
};

// Reads a table from `folder`, or from the program's copy where that is empty. Unusable: a cell
// that cannot be read, an unknown table. A model that we have no shape of leaves its row out.
Result<ReferenceTable> read_reference_table(const std::string& folder, std::string_view table);

// Only its rows.
Result<std::vector<ReferenceRow>> read_reference(const std::string& folder, std::string_view table);

// Published memory of one device by kind, without a time: Korthikanti et al. 2022, figures 1 and 7.
//
// Figure 1 has GiB of weights with optimizer, or of activations, on the first pipeline stage;
// figure 7 has activations as percent of those with tensor parallelism alone. The runs are those of
// table 5.
struct ReferenceMemory {
  enum class Kind { kState, kActivations };
  std::string name;  // "fig7 22B selective+seq"
  plan::Job job;
  Kind kind = Kind::kActivations;
  std::optional<plan::Job> baseline;  // `published` is percent of this job's; left out: GiB
  double published = 0;
};

// From `folder`, or the program's copy where that is empty.
Result<std::vector<ReferenceMemory>> read_reference_memory(const std::string& folder);

}  // namespace tombolo::published
