#include "ui/predict_commands/strand_page.h"

#include <algorithm>

#include "ui/command/command.h"
#include "ui/report/stream_chart.h"

namespace tombolo::predict_commands {

using strand::Exposure;
using strand::StrandAnswer;

namespace {

std::string degrees_text(const plan::Job& job) {
  const layout::Parallelism& p = job.parallelism;
  std::string out = fmt::format("tensor {}", p.tensor);
  if (p.context > 1) out += fmt::format(", context {}", p.context);
  if (p.expert > 1) out += fmt::format(", expert {}", p.expert);
  return out + (p.sequence_parallel ? ", sequence parallel" : "");
}

const char* color_of(strand::Kind kind, bool forward) {
  switch (kind) {
    case strand::Kind::kTensor:
      return "--kind-SEND_F";
    case strand::Kind::kContext:
      return "--kind-SEND_B";
    case strand::Kind::kExpert:
      return "--kind-E";
    default:
      return forward ? "--kind-F" : "--kind-B";
  }
}

}  // namespace

std::string strand_headline(const plan::Job& job, const StrandAnswer& answer) {
  return fmt::format("{} on {}, {}: {} + {} operators",
                     job.model->name.empty() ? "model" : job.model->name,
                     job.cluster.datacenters[0].device.name, degrees_text(job),
                     answer.pair.forward().size(), answer.pair.backward().size());
}

// What communication is for, where it hides and where it does not.
std::vector<std::vector<std::string>> exposure_rows(const Exposure& e) {
  std::vector<std::vector<std::string>> rows;
  const auto share = [&](double seconds) {
    return fmt::format("{:.1f} %", 100 * seconds / e.seconds);
  };
  rows.push_back({"computation", brief(Seconds{e.computation}), share(e.computation), ""});
  rows.push_back(
      {"its slow-down during communication", brief(Seconds{e.slowdown}), share(e.slowdown), ""});
  for (size_t cause = 0; cause < strand::kCommunicationKinds; ++cause) {
    if (e.communication[cause] == 0) continue;
    rows.push_back(
        {fmt::format("waiting for {} communication", to_name(strand::kCommunications[cause])),
         brief(Seconds{e.waiting[cause]}), share(e.waiting[cause]),
         fmt::format("of {} alone", brief(Seconds{e.communication[cause]}))});
  }
  if (e.standing > 0) {
    rows.push_back({"barriers and launches", brief(Seconds{e.standing}), share(e.standing), ""});
  }
  return rows;
}

std::string strand_page(const StrandCommandOptions& options, const plan::Job& job,
                        const StrandAnswer& a) {
  report::StreamChartPage page;
  page.title = "Strands of " + job.name;
  page.summary =
      strand_headline(job, a) + "; forward of one microbatch together with backward of another";
  page.cards = {{"Gain", fmt::format("{:.3f}", a.expected_gain()),
                 fmt::format("above {:.3f} in 19 cases of 20", a.gain.low)},
                {"A layer, both ways", brief(Seconds{a.paired}),
                 brief(Seconds{a.sequential}) + " one after the other"},
                {"Communication hidden", fmt::format("{:.1f} %", 100 * a.exposure.hidden_share()),
                 "of " + brief(Seconds{a.exposure.communication_total()})},
                {"Memory", brief(a.memory_more), "more: a layer's activations"}};
  page.rows = {"computation", "local link", "cross link"};
  page.end = 1e6 * a.paired;
  for (const strand::OperatorRun& run : a.runs) {
    const strand::Operator& op = a.pair[run.op];
    page.blocks.push_back({.name = op.name,
                           .row = static_cast<int64_t>(op.stream),
                           .start = 1e6 * run.start,
                           .end = 1e6 * run.end,
                           .color = color_of(op.kind, run.op < a.pair.forward().size())});
  }
  for (const report::HeatMapLayer& each :
       {report::HeatMapLayer{"forward", "--kind-F"}, report::HeatMapLayer{"backward", "--kind-B"},
        report::HeatMapLayer{"tensor communication", "--kind-SEND_F"},
        report::HeatMapLayer{"keys and values", "--kind-SEND_B"},
        report::HeatMapLayer{"tokens to experts", "--kind-E"}}) {
    if (std::any_of(page.blocks.begin(), page.blocks.end(),
                    [&](const report::StreamBlock& block) { return block.color == each.color; })) {
      page.legend.push_back(each);
    }
  }
  page.tables = {{.title = "Where the time goes",
                  .columns = {"", "time", "of all", ""},
                  .figures = 2,
                  .rows = exposure_rows(a.exposure)}};
  page.notes = a.notes;
  if (!a.refused.empty()) page.notes.insert(page.notes.begin(), "Not worth it: " + a.refused);
  page.command = "tombolo strand " + options.job;
  page.version = command::version();
  return report::render_streams(page);
}

}  // namespace tombolo::predict_commands
