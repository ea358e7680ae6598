#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>

#include "base/text_table.h"
#include "predict/workload/traffic.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"
#include "ui/command/output_files.h"
#include "ui/command/words.h"
#include "ui/predict_commands/predict_commands.h"
#include "ui/report/heat_map.h"

namespace tombolo::predict_commands {
namespace {

using namespace workload;

constexpr TrafficKind kKinds[] = {TrafficKind::kTensor, TrafficKind::kContext, TrafficKind::kExpert,
                                  TrafficKind::kData, TrafficKind::kPipeline};
constexpr PairReach kWhere[] = {PairReach::kDomain, PairReach::kRail, PairReach::kOtherRail,
                                PairReach::kOtherDatacenter};
constexpr int64_t kTextSide = 32;   // two maps stand side by side in 80 columns
constexpr int64_t kPageSide = 256;  // of the report's maps and of the CSV
constexpr int64_t kDomainsShown = 4;

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

// "0.0326 %", "99.9961 %": shares of pairs are close to nothing and to all.
std::string share_text(double part) {
  if (part == 0 || part == 1) return part == 0 ? "0 %" : "100 %";
  if (part >= 0.999) return fmt::format("{:.4f} %", 100 * part);
  return part >= 0.1 ? fmt::format("{:.1f} %", 100 * part) : fmt::format("{:.3g} %", 100 * part);
}

const char* where_text(PairReach reach) {
  switch (reach) {
    case PairReach::kDomain:
      return "in the domain";
    case PairReach::kRail:
      return "on the rail";
    case PairReach::kOtherRail:
      return "across rails";
    case PairReach::kOtherDatacenter:
      return "to other datacenters";
  }
  return "";
}

// "96.9 % in the domain, 3.1 % on the rail".
std::string places_text(const KindTraffic& kind) {
  const double all = kind.total().bytes.value;
  std::string out;
  for (const PairReach reach : kWhere) {
    if (kind.at(reach).bytes.value <= 0) continue;
    const double part = share(kind.at(reach).bytes.value, all);
    out += out.empty() ? "" : ", ";
    out +=
        part == 1 ? where_text(reach) : fmt::format("{} {}", share_text(part), where_text(reach));
  }
  return out;
}

std::string headline(const plan::Job& job, const Traffic& traffic) {
  const layout::Parallelism& p = job.parallelism;
  const std::string tensor = p.tensor_per_stage.empty()
                                 ? fmt::format("{}", p.tensor)
                                 : fmt::format("{} by stage", fmt::join(p.tensor_per_stage, " "));
  std::string degrees = fmt::format("tensor {}, pipeline {}, data {}", tensor, p.pipeline, p.data);
  if (p.context > 1) degrees += fmt::format(", context {}", p.context);
  if (p.expert > 1) degrees += fmt::format(", expert {}", p.expert);
  const std::string model = job.model->name.empty() ? "model" : job.model->name;
  return fmt::format("{} on {} GPU{} in domains of {}: {}", model, grouped(traffic.gpus()),
                     traffic.gpus() == 1 ? "" : "s", traffic.domain_size(), degrees);
}

// One sentence on what rail-only networks would have to forward.
std::string forwarding_text(const TrafficSummary& s) {
  const Forwarding& f = s.forwarding;
  const bool apart = std::any_of(std::begin(kKinds), std::end(kKinds), [&](TrafficKind kind) {
    return s.of(kind).at(PairReach::kOtherDatacenter).pairs > 0;
  });
  if (f.bytes.value == 0) {
    return fmt::format(
        "nothing crosses rails{}: a rail-only network has a path for every byte, "
        "without forwarding",
        apart ? " inside a datacenter" : "");
  }
  std::string out = fmt::format(
      "{} ({} of all) cross rails: a rail-only network forwards them through a domain first",
      brief(f.bytes), share_text(share(f.bytes.value, s.bytes().value)));
  if (f.busiest_own.value > 0) {
    out += fmt::format("; the busiest domain carries {} instead of {}, {:.3g} times as much",
                       brief(f.busiest_own + f.busiest_forwarded), brief(f.busiest_own),
                       1 + f.busiest_forwarded / f.busiest_own);
  } else {
    out += fmt::format("; the busiest domain carries {}, otherwise nothing",
                       brief(f.busiest_forwarded));
  }
  if (s.of(TrafficKind::kPipeline).at(PairReach::kOtherRail).bytes.value > 0) {
    out +=
        "; stages do not fill whole domains: with every other domain laid out backwards, or with "
        "tensor x context x data a multiple of the domain, they would meet on the same rails";
  }
  return out;
}

std::vector<std::vector<std::string>> kind_rows(const TrafficSummary& s) {
  std::vector<std::vector<std::string>> rows;
  for (const TrafficKind kind : kKinds) {
    const KindTraffic& t = s.of(kind);
    const PairTraffic all = t.total();
    if (all.pairs == 0) continue;
    rows.push_back({std::string(to_name(kind)), brief(all.bytes), brief(t.gpu_max),
                    share_text(share(all.bytes.value, s.bytes().value)), grouped(all.pairs),
                    share_text(share(static_cast<double>(all.pairs), static_cast<double>(s.pairs))),
                    places_text(t)});
  }
  rows.push_back({"none", "", "", "", grouped(s.pairs_without_traffic),
                  share_text(share(static_cast<double>(s.pairs_without_traffic),
                                   static_cast<double>(s.pairs))),
                  ""});
  return rows;
}

// GPUs in the separate map of the first domains. There is such a map if these are not all GPUs.
int64_t first_domains(const Traffic& traffic) {
  return std::min(kDomainsShown * traffic.domain_size(), traffic.gpus());
}

std::string map_title(const TrafficMatrix& matrix, const Traffic& traffic) {
  const bool all = matrix.count == traffic.gpus();
  std::string out = all ? fmt::format("all {} GPUs", grouped(matrix.count))
                        : fmt::format("the first {} GPUs", grouped(matrix.count));
  if (matrix.per_block > 1) out += fmt::format(", by {}", grouped(matrix.per_block));
  return out;
}

// The kind with most bytes in a cell, and how many bytes there are in all.
std::pair<TrafficKind, double> cell_of(const TrafficMatrix& m, int64_t from, int64_t to) {
  TrafficKind most = TrafficKind::kTensor;
  double sum = 0;
  for (const TrafficKind kind : kKinds) {
    sum += m.at(kind, from, to);
    if (m.at(kind, from, to) > m.at(most, from, to)) most = kind;
  }
  return {most, sum};
}

// A letter per cell: that of the kind, capital from a tenth of the largest cell on.
std::vector<std::string> letters(const TrafficMatrix& m) {
  double largest = 0;
  for (int64_t from = 0; from < m.side; ++from) {
    for (int64_t to = 0; to < m.side; ++to) {
      largest = std::max(largest, cell_of(m, from, to).second);
    }
  }
  std::vector<std::string> rows;
  for (int64_t from = 0; from < m.side; ++from) {
    std::string row;
    for (int64_t to = 0; to < m.side; ++to) {
      const auto [kind, bytes] = cell_of(m, from, to);
      const char letter = to_name(kind)[0];
      row += bytes <= 0              ? '.'
             : bytes >= largest / 10 ? static_cast<char>(std::toupper(letter))
                                     : letter;
    }
    rows.push_back(row);
  }
  return rows;
}

void print_maps(std::ostream& out, const Traffic& traffic) {
  const TrafficMatrix all = traffic.matrix(0, traffic.gpus(), kTextSide);
  std::vector<std::string> left = letters(all), right;
  std::string left_title = map_title(all, traffic), right_title;
  if (first_domains(traffic) < traffic.gpus()) {
    const TrafficMatrix few = traffic.matrix(0, first_domains(traffic), kTextSide);
    right = letters(few);
    right_title = map_title(few, traffic);
  }
  const size_t width = std::max(left_title.size(), left.front().size()) + 3;
  out << fmt::format("\n  {:<{}}{}\n", left_title, right.empty() ? 0 : width, right_title);
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const std::string a = i < left.size() ? left[i] : "", b = i < right.size() ? right[i] : "";
    out << fmt::format("  {:<{}}{}\n", a, b.empty() ? 0 : width, b);
  }
  out << "  rows send, columns receive; the letter is that of the kind with most bytes, a capital "
         "from a\n  tenth of the largest cell on; on the diagonal what stays within\n";
}

void print_text(std::ostream& out, const plan::Job& job, const Traffic& traffic,
                const TrafficSummary& s) {
  out << fmt::format("{}: {}\n", job.name, headline(job, traffic));
  out << fmt::format("predicted traffic of one iteration: {}\n\n", brief(s.bytes()));
  TextTable table(
      {text_column(), "bytes", "GPU max", "of bytes", "pairs", "of pairs", text_column("where")});
  for (const auto& row : kind_rows(s)) table.row({row.begin(), row.end()});
  out << table.text() << "\n  " << forwarding_text(s) << "\n";
  for (const std::string& note : traffic.notes()) out << "  note: " << note << "\n";
  print_maps(out, traffic);
}

Value kind_json(const KindTraffic& kind, const TrafficSummary& s) {
  Value::Table by_reach;
  for (const PairReach reach : kWhere) {
    std::string key(to_name(reach));
    std::replace(key.begin(), key.end(), '-', '_');
    by_reach.emplace_back(
        key, Value::Table{{"bytes", kind.at(reach).bytes.value}, {"pairs", kind.at(reach).pairs}});
  }
  const PairTraffic all = kind.total();
  return Value::Table{
      {"bytes", all.bytes.value},
      {"gpu_max_bytes", kind.gpu_max.value},
      {"share_of_bytes", share(all.bytes.value, s.bytes().value)},
      {"pairs", all.pairs},
      {"share_of_pairs", share(static_cast<double>(all.pairs), static_cast<double>(s.pairs))},
      {"by_reach", std::move(by_reach)}};
}

Value::Table to_json(const Traffic& traffic, const TrafficSummary& s) {
  Value::Table by_kind;
  for (const TrafficKind kind : kKinds) {
    by_kind.emplace_back(std::string(to_name(kind)), kind_json(s.of(kind), s));
  }
  Value::Array notes;
  for (const std::string& note : traffic.notes()) notes.push_back(note);
  const Forwarding& f = s.forwarding;
  return {
      {"provenance", "predicted"},
      {"law", "traffic"},
      {"gpus", s.gpus},
      {"domain", traffic.domain_size()},
      {"bytes", s.bytes().value},
      {"pairs", s.pairs},
      {"pairs_without_traffic", s.pairs_without_traffic},
      {"share_of_pairs_without_traffic",
       share(static_cast<double>(s.pairs_without_traffic), static_cast<double>(s.pairs))},
      {"by_kind", std::move(by_kind)},
      {"forwarding", Value::Table{{"bytes", f.bytes.value},
                                  {"share_of_bytes", share(f.bytes.value, s.bytes().value)},
                                  {"domains_bytes", f.domains.value},
                                  {"busiest_domain_bytes", f.busiest_own.value},
                                  {"busiest_domain_forwarded_bytes", f.busiest_forwarded.value}}},
      {"notes", notes}};
}

// "from_first,from_last,to_first,to_last,kind,bytes", a line for each cell and kind with bytes.
std::string to_csv(const TrafficMatrix& m) {
  std::string out = "from_first,from_last,to_first,to_last,kind,bytes\n";
  const auto last = [&](int64_t block) {
    return m.first + std::min((block + 1) * m.per_block, m.count) - 1;
  };
  for (int64_t from = 0; from < m.side; ++from) {
    for (int64_t to = 0; to < m.side; ++to) {
      for (const TrafficKind kind : kKinds) {
        if (m.at(kind, from, to) <= 0) continue;
        out +=
            fmt::format("{},{},{},{},{},{}\n", m.first + from * m.per_block, last(from),
                        m.first + to * m.per_block, last(to), to_name(kind), m.at(kind, from, to));
      }
    }
  }
  return out;
}

report::HeatMap heat_map(const Traffic& traffic, TrafficMatrix matrix) {
  std::string title = map_title(matrix, traffic);
  title[0] = static_cast<char>(std::toupper(title[0]));
  return {.title = title,
          .first = matrix.first,
          .count = matrix.count,
          .per_cell = matrix.per_block,
          .side = matrix.side,
          .group = traffic.domain_size(),
          .layers = {matrix.bytes.begin(), matrix.bytes.end()}};
}

std::string to_page(const TrafficCommandOptions& options, const plan::Job& job,
                    const Traffic& traffic, const TrafficSummary& s) {
  const double pairs = static_cast<double>(s.pairs);
  const double domain =
      std::accumulate(std::begin(kKinds), std::end(kKinds), 0.0, [&](double sum, TrafficKind kind) {
        return sum + s.of(kind).at(PairReach::kDomain).bytes.value;
      });
  report::HeatMapPage page;
  page.title = "Traffic of " + job.name;
  page.summary = headline(job, traffic) + "; one iteration";
  page.cards = {
      {"Bytes", brief(s.bytes()), "all GPUs, one iteration"},
      {"Inside scale-up domains", share_text(share(domain, s.bytes().value)), "of all bytes"},
      {"Pairs without traffic",
       share_text(share(static_cast<double>(s.pairs_without_traffic), pairs)),
       fmt::format("of {} ordered pairs", grouped(s.pairs))},
      {"Across rails", share_text(share(s.forwarding.bytes.value, s.bytes().value)),
       s.forwarding.bytes.value > 0 ? "of all bytes: forwarded in a rail-only network"
                                    : "a rail-only network forwards nothing"}};
  page.layers = {{"tensor", "--kind-F"},
                 {"context", "--kind-R"},
                 {"expert", "--kind-SEND_B"},
                 {"data", "--kind-U"},
                 {"pipeline", "--kind-B"}};
  page.maps = {heat_map(traffic, traffic.matrix(0, traffic.gpus(), kPageSide))};
  if (first_domains(traffic) < traffic.gpus()) {
    page.maps.push_back(heat_map(traffic, traffic.matrix(0, first_domains(traffic), kPageSide)));
  }
  std::string remark = forwarding_text(s);
  remark[0] = static_cast<char>(std::toupper(remark[0]));
  page.tables = {{.title = "By kind of parallelism",
                  .columns = {"", "bytes", "GPU that sends most", "of all bytes", "ordered pairs",
                              "of all pairs", "where"},
                  .figures = 5,
                  .rows = kind_rows(s),
                  .remark = remark + "."}};
  page.notes = traffic.notes();
  page.command = "tombolo traffic " + options.job;
  if (options.flat_rings) page.command += " --flat-rings";
  if (options.gather_again) page.command += " --gather-again";
  page.version = command::version();
  return report::render_heat_maps(page);
}

}  // namespace

Status traffic(const TrafficCommandOptions& options, std::ostream& out) {
  const plan::Job job = TRY(command::read_job(options.job));
  const Traffic traffic = TRY(Traffic::make(
      job, {.flat_rings = options.flat_rings, .volume = {.gather_again = options.gather_again}}));
  const TrafficSummary summary = traffic.summarize();
  command::OutputFiles files;
  if (!options.csv.empty()) {
    TRY(files.add(options.csv, to_csv(traffic.matrix(0, traffic.gpus(), kPageSide))));
  }
  if (!options.report.empty()) {
    TRY(files.add(options.report, to_page(options, job, traffic, summary)));
  }
  TRY(files.commit());
  if (options.json) {
    command::print_json(out, to_json(traffic, summary));
    return {};
  }
  print_text(out, job, traffic, summary);
  if (!options.csv.empty()) out << "csv: " << options.csv << "\n";
  if (!options.report.empty()) out << "report: " << options.report << "\n";
  return {};
}

command::Command add_traffic(CLI::App& app) {
  auto options = std::make_shared<TrafficCommandOptions>();
  CLI::App* words = command::add_command(
      app, {"traffic", command::kPredicting,
            "bytes between every pair of GPUs, by kind of parallelism; a heat map",
            "tombolo traffic examples/rail-only/table4-175b.toml"});
  command::add_job(words, options->job, "job file (TOML) or Plan (JSON)");
  command::heading(words, command::kPredicted);
  words->add_flag("--flat-rings", options->flat_rings,
                  "rings in the order of ranks, also where groups span domains");
  words->add_flag("--gather-again", options->gather_again,
                  "count inputs that sequence parallelism gathers again");
  command::heading(words, command::kComesOut);
  command::add_report(words, options->report, "the heat map");
  words->add_option("--csv", options->csv, "table to write: bytes from each block of GPUs to each")
      ->type_name("FILE");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return traffic(*options, out); }};
}

}  // namespace tombolo::predict_commands
