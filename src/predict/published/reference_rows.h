// How a row of each published table becomes a job (reference.h). Internal to this module.
//
// One function per table; each says in its .cc what the source leaves open. The building blocks
// below hold what the tables share: shapes of GPTs, and the machines.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/csv.h"
#include "base/result.h"
#include "predict/published/reference.h"

namespace tombolo::published {

// data/reference as it stood when the program was built, by file name, as in
// reference_file("mlperf_training_v3.1_gpt3_175b.csv"). CHECKs that it exists. The bytes live as
// long as the program.
std::string_view reference_file(std::string_view name);

namespace detail {

using RowReader = Result<ReferenceRow> (*)(const CsvRow& row);

// Academic runs, on A100 and V100 (reference_research.cc).
Result<ReferenceRow> korthikanti_row(const CsvRow& row);
Result<ReferenceRow> vtrain_row(const CsvRow& row);
Result<ReferenceRow> bloom_row(const CsvRow& row);
Result<ReferenceRow> v100_row(const CsvRow& row);
Result<ReferenceRow> misc_row(const CsvRow& row);

// What makers of stacks and machines publish (reference_vendors.cc).
Result<ReferenceRow> mosaicml_row(const CsvRow& row);
Result<ReferenceRow> nemo_row(const CsvRow& row);
Result<ReferenceRow> dgxc_row(const CsvRow& row);
Result<ReferenceRow> mlperf_row(const CsvRow& row);
Result<ReferenceRow> torchtitan_row(const CsvRow& row);
Result<ReferenceRow> simumax_row(const CsvRow& row);

// All rows of the program's copies of all tables, without their names and groups, which take as long as
// the rest. `take` may move a row away.
Status each_row_unnamed(const std::function<void(ReferenceRow&)>& take);

// A cell that is readable, but cannot be part of a job: a model without known shape, degrees that
// do not multiply to the devices. Infeasible; leaves out its row and no other.
tl::unexpected<Error> leave_out(const CsvRow& row, std::string_view column, const std::string& why);

// A decoder as Megatron-LM builds GPT: LayerNorm, GELU, learned positions, biases, tied embeddings.
struct GptShape {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t sequence = 2048;
  int64_t vocabulary = 51200;
};
model::Model gpt(const GptShape& shape);

// The preset that column "model" (after `prefix`) names, with the row's sequence and layers where
// it has them. Leaves out a row of which the preset is missing.
Result<model::Model> preset_of(const CsvRow& row, const std::string& prefix = {});

// As many of a catalog device as column "gpus" says, in nodes as they are sold, joined by
// `per_device`, one direction.
Result<cluster::Cluster> machines(const CsvRow& row, const std::string& device,
                                  BytesPerSecond per_device);
cluster::Cluster machines(cluster::Device device, int64_t devices, BytesPerSecond per_device);

// The network port of one device, by its generation.
BytesPerSecond port_of(const std::string& device);

// Reads a degree from the row, 1 where the table has none.
Result<int64_t> degree(const CsvRow& row, std::string_view column);

// Tensor, pipeline, data, context, expert, micro- and global batch, sequence, layers from the
// columns that most tables share; the columns that a table lacks stay as they are.
Status read_shared_columns(const CsvRow& row, plan::Job& job);

// The time of an iteration of the job at `tokens_per_device_second` tokens per second and device.
Seconds iteration_of(const plan::Job& job, double tokens_per_device_second);

// "llama3-8b 8xh100 tp2 ...": what tells rows of a table apart.
std::string name_of(const plan::Job& job);

}  // namespace detail
}  // namespace tombolo::published
