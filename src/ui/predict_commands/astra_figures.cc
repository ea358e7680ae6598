#include <algorithm>
#include <filesystem>

#include "base/fields.h"
#include "base/text_table.h"
#include "ui/predict_commands/astra_command.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {
namespace {

using trace::ExposedTime;

struct Part {
  const char* name;
  const char* key;
  SimDuration ExposedTime::*time;
};
constexpr Part kParts[] = {
    {"compute", "compute_ns", &ExposedTime::compute},
    {"host", "host_ns", &ExposedTime::host},
    {"local memory", "local_memory_ns", &ExposedTime::local_memory},
    {"remote memory", "remote_memory_ns", &ExposedTime::remote_memory},
    {"communication", "communication_ns", &ExposedTime::communication},
    {"idle", "idle_ns", &ExposedTime::idle},
};

double share(SimDuration part, SimDuration whole) {
  return whole.ns > 0 ? 100 * static_cast<double>(part.ns) / static_cast<double>(whole.ns) : 0;
}

std::string bytes_text(double bytes) { return brief(Bytes{bytes}); }

// What was typed, but for defaults.
std::string astra_command_line(const AstraCommandOptions& options) {
  std::string line = "tombolo astra";
  const auto add = [&](const char* option, const std::string& value, const char* usual = "") {
    if (value != usual) line += fmt::format(" {}={}", option, value);
  };
  add("--workload-configuration", options.workload);
  add("--job", options.job);
  add("--granularity", options.granularity, "layer");
  if (options.retarget) line += fmt::format(" --retarget={}", *options.retarget);
  std::string groups;
  for (const auto& group : options.data_groups) {
    groups += fmt::format("{}{}", groups.empty() ? "" : ",", group);
  }
  add("--data-groups", groups);
  add("--system-configuration", options.system);
  add("--network-configuration", options.network);
  add("--remote-memory-configuration", options.remote_memory);
  add("--comm-group-configuration", options.comm_groups);
  add("--num-queues-per-dim", fmt::format("{}", options.queues), "1");
  add("--injection-scale", fmt::format("{}", options.injection_scale), "1");
  add("--law", options.law, "analytical");
  add("--groups", options.groups);
  add("--collapse", options.collapse, "on");
  if (options.spmd) line += " --spmd";
  if (options.rendezvous) line += " --rendezvous-protocol=true";
  if (options.remote_parameters) line += " --remote-parameters";
  add("--trace-ranks", fmt::format("{}", options.trace_ranks), "64");
  add("--trace", options.trace);
  add("--report", options.report);
  return line;
}

}  // namespace

void add_figures(Value::Table& json, const astra::AstraLedger& ledger, bool per_npu) {
  const int32_t last = ledger.last();
  Value last_json = write_fields(ledger.exposed(last));
  last_json.get<Value::Table>()->emplace(last_json.get<Value::Table>()->begin(), "npu",
                                         int64_t{last});
  json.emplace_back("exposed", Value::Table{{"last", std::move(last_json)},
                                            {"mean", write_fields(ledger.exposed_mean())}});
  json.emplace_back("bytes_sent", ledger.bytes_sent());
  Value::Array dimensions;
  for (const trace::DimensionUse& use : ledger.dimensions()) {
    dimensions.push_back(write_fields(use));
  }
  json.emplace_back("dimensions", std::move(dimensions));
  if (!per_npu) return;
  Value::Table columns;
  for (const Part& part : kParts) {
    Value::Array column;
    for (int32_t npu = 0; npu < ledger.npus(); ++npu) {
      column.emplace_back((ledger.exposed(npu).*part.time).ns);
    }
    columns.emplace_back(part.key, std::move(column));
  }
  json.emplace_back("per_npu_exposed", std::move(columns));
}

std::string figures_text(const astra::AstraLedger& ledger) {
  const int32_t last = ledger.last();
  const ExposedTime of_last = ledger.exposed(last);
  const ExposedTime mean = ledger.exposed_mean();
  TextTable times({text_column("predicted: where the time goes"),
                   fmt::format("rank {}, last", last), "", "mean of ranks", ""},
                  "");
  for (const Part& part : kParts) {
    const SimDuration a = of_last.*part.time, b = mean.*part.time;
    times.row({fmt::format("  {}", part.name), brief(seconds(a)),
               fmt::format("{:.1f} %", share(a, of_last.total())), brief(seconds(b)),
               fmt::format("{:.1f} %", share(b, mean.total()))});
  }
  const std::vector<trace::DimensionUse> uses = ledger.dimensions();
  TextTable dimensions(
      {text_column("predicted: dimensions"), "sent", "per NPU", "most", "busy", "most"}, "");
  for (const trace::DimensionUse& use : uses) {
    dimensions.row({"  " + use.label, bytes_text(static_cast<double>(use.bytes)),
                    bytes_text(use.bytes_mean), bytes_text(static_cast<double>(use.bytes_max)),
                    fmt::format("{:.1f} %", 100 * use.busy_mean),
                    fmt::format("{:.1f} %", 100 * use.busy_max)});
  }
  return "\n" + times.text() + dimensions.text();
}

trace::Trace make_trace(const AstraCommandOptions& options, const astra::AstraAnswer& answer,
                        const astra::AstraLedger& ledger, astra::AstraRecorder& recorder) {
  trace::Trace out = recorder.take(ledger);
  trace::Header& header = out.header;
  const std::filesystem::path workload = options.job.empty() ? options.workload : options.job;
  header.name = options.job.empty() ? workload.filename().string() : workload.stem().string();
  header.command = astra_command_line(options);
  header.version = command::version();
  header.fingerprint = answer.report.fingerprint;
  const auto add = [&](const char* what, std::string text) {
    if (!text.empty()) header.graph->inputs.push_back({what, std::move(text)});
  };
  add("network", answer.topology);
  add("NPUs", fmt::format("{}", answer.npus));
  add("law", options.law);
  add("job", options.job);
  if (options.job.empty()) {
    add("workload",
        options.spmd ? options.workload + ".0.et, for all ranks" : options.workload + ".RANK.et");
  }
  if (options.retarget) add("retargeted", fmt::format("to {} ranks", *options.retarget));
  add("system file", options.system);
  add("network file", options.network);
  add("remote memory file", options.remote_memory);
  add("group file", options.comm_groups == "empty" ? "" : options.comm_groups);
  add("roofline", answer.roofline ? "computations last as peak and memory allow" : "");
  add("simulated ranks", fmt::format("{}", answer.report.ranks.size()));
  return out;
}

}  // namespace tombolo::predict_commands
