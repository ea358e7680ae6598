#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/text_table.h"
#include "decide/sweep/sweep_axis.h"
#include "decide/sweep/sweep_path.h"
#include "ui/command/answer.h"
#include "ui/predict_commands/astra_command.h"
#include "ui/predict_commands/astra_job.h"

namespace tombolo::predict_commands {
namespace {

using sweep::SweepGrid;

struct Row {
  int64_t npus = 0, finish_ns = 0;
  int64_t exposed_ns = 0;  // of the rank that finishes last: what is not computation
  int64_t events = 0, simulated = 0;
};

Row row_of(const astra::AstraAnswer& answer) {
  Row out;
  out.npus = answer.npus;
  out.events = static_cast<int64_t>(answer.report.events);
  out.simulated = static_cast<int64_t>(answer.report.ranks.size());
  for (const astra::RankReport& rank : answer.report.ranks) {
    if (rank.finish.ns < out.finish_ns) continue;
    out.finish_ns = rank.finish.ns;
    out.exposed_ns = rank.finish.ns - rank.computing.ns;
  }
  return out;
}

class AstraSweep {
 public:
  AstraSweep(const AstraCommandOptions& options, const astra::AstraOptions& of_astra)
      : options_(options), of_astra_(of_astra) {}

  Status prepare() {
    std::vector<sweep::SweepAxis> axes;
    for (const std::string& text : options_.set) {
      axes.push_back(TRY(sweep::parse_sweep_axis(text)));
    }
    grid_ = TRY(SweepGrid::make(std::move(axes)));
    const network::Topology topology = TRY(network::read_topology(options_.network));
    Value::Array blocks, npus, bandwidth, latency;
    for (size_t d = 0; d < topology.dimensions(); ++d) {
      const network::Dimension& dimension = topology.dimension(d);
      blocks.emplace_back(std::string(to_name(dimension.block)));
      npus.emplace_back(int64_t{dimension.npus});
      bandwidth.emplace_back(dimension.bandwidth);
      latency.emplace_back(dimension.latency);
    }
    Value::Table file{{"topology", std::move(blocks)},
                      {"npus_count", std::move(npus)},
                      {"bandwidth", std::move(bandwidth)},
                      {"latency", std::move(latency)}};
    const double of_a_flow = topology.dimension(topology.dimensions() - 1).flow_bandwidth;
    if (of_a_flow > 0) file.emplace_back("flow-bandwidth", of_a_flow);
    files_ = Value::Table{
        {"system", TRY(parse_json(TRY(read_file(options_.system, 1 << 24)), options_.system))},
        {"network", std::move(file)}};
    if (!options_.job.empty()) {
      const auto granularity = options_.granularity == "stage" ? workload::Granularity::kStage
                                                               : workload::Granularity::kLayer;
      workload_ = TRY(workload_of_job(options_.job, {granularity, options_.remote_parameters}));
    }
    return {};
  }

  const SweepGrid& grid() const { return *grid_; }

  Result<std::vector<Row>> run(int threads) const {
    const auto size = static_cast<size_t>(grid_->size());
    std::vector<std::optional<Result<Row>>> found(size);
    std::atomic<size_t> failed{size};  // no point after the first that failed is needed
    parallel_for(size, threads, [&](size_t i) {
      if (i >= failed) return;
      found[i] = point(static_cast<int64_t>(i));
      if (*found[i]) return;
      for (size_t first = failed; i < first && !failed.compare_exchange_weak(first, i);) {
      }
    });
    std::vector<Row> out;
    for (size_t i = 0; i < size; ++i) {
      out.push_back(TRY(during(std::move(*found[i]), "simulating " + name(i))));
    }
    return out;
  }

 private:
  const AstraCommandOptions& options_;
  const astra::AstraOptions& of_astra_;
  std::optional<SweepGrid> grid_;
  Value files_;
  std::optional<workload::Workload> workload_;  // of a job

  std::string name(size_t point) const {
    std::string out;
    for (size_t axis = 0; axis < grid_->axes().size(); ++axis) {
      out += fmt::format("{}{}={}", axis == 0 ? "" : ", ", grid_->axes()[axis].path,
                         sweep::sweep_text(grid_->value(static_cast<int64_t>(point), axis)));
    }
    return out;
  }

  // A value for a list is one for each of its entries.
  Status put(Value& files, const std::string& key, const Value& value) const {
    const size_t dot = key.find('.');
    const Value* part = files.find(key.substr(0, dot));
    if (part == nullptr || dot == std::string::npos) {
      return unusable(fmt::format("--set {}: names neither file", key),
                      "network.bandwidth or system.active-chunks-per-dimension");
    }
    const Value* old = part->find(key.substr(dot + 1));
    const bool each = old != nullptr && old->get<Value::Array>() && !value.get<Value::Array>();
    TRY(TRY(sweep::SweepPath::parse(each ? key + ".*" : key)).put(files, value));
    return {};
  }

  Result<astra::AstraSystem> system_at(int64_t point) const {
    Value files = files_;
    for (size_t axis = 0; axis < grid_->axes().size(); ++axis) {
      TRY(put(files, grid_->axes()[axis].path, grid_->value(point, axis)));
    }
    // JSON is YAML.
    network::Topology topology =
        TRY(network::parse_topology(to_json(*files.find("network"), -1), options_.network));
    return astra::make_astra_system(
        std::move(topology),
        TRY(astra::parse_system(to_json(*files.find("system"), -1), options_.system, /*line*/ 0)),
        of_astra_);
  }

  Result<Row> point(int64_t point) const {
    const astra::AstraSystem system = TRY(system_at(point));
    if (workload_) return row_of(TRY(run_job(*workload_, system, of_astra_)).answer);
    if (options_.retarget) {
      return row_of(
          TRY(run_retargeted({*options_.retarget, options_.data_groups}, system, of_astra_)));
    }
    const astra::RankPrograms workload =
        TRY(astra::read_workload(of_astra_.workload, system.topology, system.settings));
    astra::MachineOptions machine = of_astra_.machine;
    machine.memory = &system.memory;
    return row_of(TRY(
        astra::run_astra(system.topology, system.settings, workload, machine, of_astra_.collapse)));
  }
};

using CsvLine = std::vector<std::string>;

std::vector<CsvLine> csv_lines_of(const SweepGrid& grid, const std::vector<Row>& rows) {
  std::vector<CsvLine> lines(1 + rows.size());
  for (const sweep::SweepAxis& axis : grid.axes()) lines[0].push_back(axis.path);
  for (const char* name : {"npus", "finish_ns", "exposed_ns", "events", "simulated_ranks"}) {
    lines[0].emplace_back(name);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t axis = 0; axis < grid.axes().size(); ++axis) {
      lines[i + 1].push_back(sweep::sweep_text(grid.value(static_cast<int64_t>(i), axis)));
    }
    const Row& row = rows[i];
    for (const int64_t n : {row.npus, row.finish_ns, row.exposed_ns, row.events, row.simulated}) {
      lines[i + 1].push_back(fmt::format("{}", n));
    }
  }
  return lines;
}

std::string csv_of(const std::vector<CsvLine>& lines) {
  std::string out;
  for (const CsvLine& line : lines) out += csv_line(line);
  return out;
}

void print_table(std::ostream& out, const std::vector<CsvLine>& lines) {
  TextTable table(std::vector<TextTable::Column>(lines[0].begin(), lines[0].end()));
  for (size_t i = 1; i < lines.size(); ++i) table.row(lines[i]);
  out << table.text();
}

Value::Table json_of(const SweepGrid& grid, const std::vector<Row>& rows) {
  Value::Array out;
  for (size_t i = 0; i < rows.size(); ++i) {
    Value::Table row;
    for (size_t axis = 0; axis < grid.axes().size(); ++axis) {
      row.emplace_back(grid.axes()[axis].path, grid.value(static_cast<int64_t>(i), axis));
    }
    row.emplace_back("npus", rows[i].npus);
    row.emplace_back("finish_ns", rows[i].finish_ns);
    row.emplace_back("exposed_ns", rows[i].exposed_ns);
    row.emplace_back("events", rows[i].events);
    row.emplace_back("simulated_ranks", rows[i].simulated);
    out.emplace_back(std::move(row));
  }
  return {{"rows", std::move(out)}};
}

}  // namespace

Status astra_sweep(const AstraCommandOptions& options, const astra::AstraOptions& of_astra,
                   std::ostream& out) {
  CHECK(!options.set.empty(), "a sweep over nothing");
  AstraSweep sweep(options, of_astra);
  TRY(sweep.prepare());
  const std::vector<Row> rows = TRY(sweep.run(threads_or_all(options.threads)));
  const std::vector<CsvLine> lines = csv_lines_of(sweep.grid(), rows);
  if (!options.csv.empty()) TRY(write_file(options.csv, csv_of(lines)));
  if (options.json) {
    command::print_json(out, json_of(sweep.grid(), rows));
  } else {
    print_table(out, lines);
  }
  return {};
}

}  // namespace tombolo::predict_commands
