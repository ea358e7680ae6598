#include "predict/published/reference.h"

#include <set>

#include "base/file.h"
#include "predict/published/reference_rows.h"

namespace tombolo::published {
namespace {

struct Source {
  const char* name;
  const char* file;
  detail::RowReader read;
};

constexpr Source kSources[] = {
    {"bloom", "bigscience_bloom_a100_topology_sweep.csv", detail::bloom_row},
    {"dgxc", "nvidia_dgxc_step_time.csv", detail::dgxc_row},
    {"korthikanti", "korthikanti2022_table5_iter_time.csv", detail::korthikanti_row},
    {"misc", "misc_published_iteration_times.csv", detail::misc_row},
    {"mlperf", "mlperf_training_v3.1_gpt3_175b.csv", detail::mlperf_row},
    {"mosaicml", "mosaicml_mpt_fsdp_throughput.csv", detail::mosaicml_row},
    {"nemo", "nvidia_nemo_megatron_bridge_throughput.csv", detail::nemo_row},
    {"simumax", "simumax_b200_megatron.csv", detail::simumax_row},
    {"torchtitan", "torchtitan_llama3_h100.csv", detail::torchtitan_row},
    {"v100", "bigscience_v100_megatron_jeanzay.csv", detail::v100_row},
    {"vtrain-multinode", "vtrain_megatron_deepspeed_a100_multinode.csv", detail::vtrain_row},
    {"vtrain-singlenode", "vtrain_megatron_deepspeed_a100_singlenode.csv", detail::vtrain_row}};

Result<Source> find_source(std::string_view table) {
  for (const Source& source : kSources) {
    if (source.name == table) return source;
  }
  std::string hint = nearest_name(table, reference_names());
  if (hint.empty()) hint = fmt::format("one of {}", fmt::join(reference_names(), ", "));
  return unusable(fmt::format("there is no reference table \"{}\"", table), hint);
}

std::string group_of(const ReferenceRow& row) {
  const plan::Job& job = row.job;
  const model::Model& m = *job.model;
  std::string group =
      fmt::format("{} {}x{} {} heads, {} tokens, {} {}, {}", m.name, m.layers, m.hidden, m.heads,
                  m.sequence, job.cluster.devices(), job.cluster.datacenters[0].device.name,
                  to_name(job.training.precision));
  // Where only the order counts, batches are part of what is compared: how full a pipeline is.
  if (!row.ordering_only) group += fmt::format(", batch {}", job.training.global_batch);
  return group;
}

// What is true of every table: a row says a time or that there is none, and its batch can be divided.
Status check(const CsvRow& csv, const ReferenceRow& row) {
  if (!row.iteration && !row.out_of_memory) {
    return unusable(fmt::format("{}:{}: neither a time nor out of memory", csv.file(), csv.line()));
  }
  const plan::Training& t = row.job.training;
  const int64_t together = t.micro_batch * row.job.parallelism.data;
  if (t.global_batch % together != 0) {
    return unusable(fmt::format("{}:{}: a batch of {} is no multiple of microbatch x data = {}",
                                csv.file(), csv.line(), t.global_batch, together));
  }
  return {};
}

// Names it and its group.
void finish(const Source& source, const CsvRow& csv, std::set<std::string>& names,
            ReferenceRow& row) {
  row.table = source.name;
  row.group = group_of(row);
  row.name = detail::name_of(row.job);
  if (!names.insert(row.name).second) {
    row.name += fmt::format(" (line {})", csv.line());
    names.insert(row.name);
  }
  row.job.name = row.name;
  row.job.file = fmt::format("{}:{}", csv.file(), csv.line());
}

// Each row of a text as it is read, to `take`, which may move it away; of one that cannot become a job why, to `leave_out`.
template <class Take, class LeaveOut>
Status read_rows(const Source& source, std::string_view text, const std::string& file,
                 const Take& take, const LeaveOut& leave_out) {
  for (const CsvRow& csv : TRY(parse_csv(text, file))) {
    Result<ReferenceRow> row = source.read(csv);
    if (!row && row.error().code == ErrorCode::kInfeasible) {
      leave_out(std::move(row.error().message));
      continue;
    }
    if (!row) return fail(std::move(row.error()));
    TRY(check(csv, *row));
    take(csv, *row);
  }
  return {};
}

}  // namespace

std::vector<std::string> reference_names() {
  std::vector<std::string> names;
  for (const Source& source : kSources) names.push_back(source.name);
  return names;
}

Result<std::string> reference_file_name(std::string_view table) {
  return std::string(TRY(find_source(table)).file);
}

Result<ReferenceTable> read_reference_table(const std::string& folder, std::string_view table) {
  const Source source = TRY(find_source(table));
  std::string file = source.file, text;
  if (folder.empty()) {
    text = reference_file(file);
  } else {
    file = folder + "/" + file;
    text = TRY(during(read_file(file), fmt::format("reading the reference table {}", table)));
  }
  ReferenceTable out;
  out.name = source.name;
  std::set<std::string> names;
  const auto take = [&](const CsvRow& csv, ReferenceRow& row) {
    finish(source, csv, names, row);
    out.rows.push_back(std::move(row));
  };
  const auto leave_out = [&](std::string why) { out.left_out.push_back(std::move(why)); };
  TRY(read_rows(source, text, file, take, leave_out));
  return out;
}

Result<std::vector<ReferenceRow>> read_reference(const std::string& folder,
                                                 std::string_view table) {
  return TRY(read_reference_table(folder, table)).rows;
}

Status detail::each_row_unnamed(const std::function<void(ReferenceRow&)>& take) {
  for (const Source& source : kSources) {
    TRY(read_rows(
        source, reference_file(source.file), source.file,
        [&](const CsvRow&, ReferenceRow& row) { take(row); }, [](std::string) {}));
  }
  return {};
}

}  // namespace tombolo::published
