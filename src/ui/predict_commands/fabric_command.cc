#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/lone_number.h"
#include "base/text_table.h"
#include "predict/network/fabric.h"
#include "predict/network/failure.h"
#include "predict/network/grid_collective.h"
#include "ui/command/answer.h"
#include "ui/command/output_files.h"
#include "ui/command/words.h"
#include "ui/predict_commands/predict_commands.h"
#include "ui/predict_commands/prediction_pages.h"

namespace tombolo::predict_commands {
namespace {

using namespace network;

// What the options ask for, checked.
struct Question {
  FabricSize size;
  EquipmentPrices prices;
  Grid grid;  // the whole domains
  std::optional<Bytes> message;
  FailureOptions failures;
  std::optional<PricedJob> job;
  std::optional<SharedCluster> shared;
};

// "748" and "748 USD" alike: there is one currency.
Result<Dollars> read_price(const std::string& text, const char* option) {
  return during(parse_lone_number<Dollars>(text, "USD"), fmt::format("reading {}", option));
}

Result<Question> read_question(const FabricOptions& options) {
  Question q;
  const bool of_jobs = !options.job.empty() || !options.jobs.empty();
  if (!of_jobs && options.gpus == 0) {
    return unusable("--gpus is missing", "--gpus 32768, or --job job.toml");
  }
  if (!of_jobs && !options.law.empty()) {
    return unusable("--law: there is no job whose iteration it predicts",
                    "--job job.toml, or --jobs a.toml,b.toml");
  }
  q.size = {options.gpus, options.radix, options.domain};
  if (!of_jobs) TRY(check(q.size));
  q.prices.switch_port = TRY(read_price(options.switch_port_price, "--switch-port-price"));
  q.prices.transceiver = TRY(read_price(options.transceiver_price, "--transceiver-price"));
  TRY(check(q.prices));
  if (!options.job.empty()) {
    q.job = TRY(price_job(options, q.prices));
    q.size = q.job->prices.size;
  }
  if (std::find(options.jobs.begin(), options.jobs.end(), "") != options.jobs.end())
    return unusable("--jobs: a name is empty", "--jobs a.toml,b.toml");
  if (!options.jobs.empty()) {
    q.shared = TRY(share_cluster(options));
    q.size.gpus = q.shared->datacenter.devices();
    q.size.domain = q.shared->datacenter.scale_up.domain;
    TRY(check(q.size));
  }
  q.grid.domain = std::min(q.size.gpus, q.size.domain);
  q.grid.domains = std::max<int64_t>(1, q.size.gpus / q.size.domain);
  q.grid.scale_up = TRY(during(parse_quantity<BytesPerSecond>(options.domain_bandwidth),
                               "reading --domain-bandwidth"));
  q.grid.port = TRY(
      during(parse_quantity<BytesPerSecond>(options.port_bandwidth), "reading --port-bandwidth"));
  if (q.job || q.shared) {
    const cluster::Datacenter& datacenter =
        q.job ? q.job->job.cluster.datacenters[0] : q.shared->datacenter;
    q.grid.scale_up = datacenter.scale_up.bandwidth;
    q.grid.port = datacenter.scale_out.bandwidth;
  }
  TRY(check(q.grid));
  if (!options.message.empty()) {
    q.message = TRY(during(parse_quantity<Bytes>(options.message), "reading --message"));
    if (q.message->value <= 0) {
      return unusable(fmt::format("--message {}: must be positive", options.message),
                      "--message 1GB");
    }
  }
  q.failures.server = options.server;
  q.failures.optical_group = options.optical_group;
  TRY(check(q.size, q.failures));
  return q;
}

std::string money(Dollars amount) {
  if (amount.value < 1e6) {
    return fmt::format("{} USD", grouped(static_cast<int64_t>(amount.value)));
  }
  return amount.value < 1e9 ? fmt::format("{:.2f} M USD", amount.value / 1e6)
                            : fmt::format("{:.2f} B USD", amount.value / 1e9);
}

// What a reader would stumble over, one sentence each.
std::vector<std::string> notes(const Question& q, bool grid_matters) {
  const FabricSize& size = q.size;
  std::vector<std::string> out;
  const int64_t left = size.gpus % size.domain;
  if (size.gpus <= size.domain) {
    out.push_back(
        "all GPUs share one domain: rails have one GPU each and nothing to join; the law still "
        "counts a switch port for each");
  } else if (left != 0) {
    out.push_back(fmt::format(
        "{} is no multiple of {}: the last domain has {} GPUs, so {} rails have {} GPUs and {} "
        "have {}; tiers are those of the longer ones",
        size.gpus, size.domain, left, left, size.rail(), size.domain - left, size.rail() - 1));
    if (grid_matters) {
      out.push_back(fmt::format("times and failures are those of the {} whole domains",
                                grouped(q.grid.domains)));
    }
  }
  const FabricParts rail = parts_of(Fabric::kRailOnly, size, q.prices);
  if (rail.switches_whole_rails > rail.switches) {
    out.push_back(fmt::format(
        "{} rail-only switches have enough ports; as a rail of {} cannot be split over two of "
        "them, {} are needed ({} more)",
        grouped(rail.switches), size.rail(), grouped(rail.switches_whole_rails),
        money(static_cast<double>((rail.switches_whole_rails - rail.switches) * size.radix) *
              q.prices.switch_port)));
  }
  return out;
}

void print_parts(std::ostream& out, const Question& q) {
  const FabricSize& size = q.size;
  out << fmt::format(
      "{} GPUs in {} domains of {}; switches of {} ports at {:g} USD a port, transceivers at {:g} "
      "USD\n\n",
      grouped(size.gpus), grouped(size.domains()), size.domain, size.radix,
      q.prices.switch_port.value, q.prices.transceiver.value);
  TextTable table({text_column(), "tiers", "switches", "transceivers", "cost", text_column()});
  const std::pair<Fabric, std::string> rows[] = {
      {Fabric::kClos, "any GPU reaches any other at full rate"},
      {Fabric::kRailOptimized, "the same Clos; a rail shares its lowest switches"},
      {Fabric::kRailOnly, fmt::format("{} rails of {} GPUs, no spine between them", size.rails(),
                                      grouped(size.rail()))}};
  for (const auto& [fabric, words] : rows) {
    const FabricParts parts = parts_of(fabric, size, q.prices);
    table.row({std::string(to_name(fabric)), fmt::format("{}", parts.tiers),
               grouped(parts.switches), grouped(parts.transceivers), money(parts.cost), words});
  }
  out << table.text();
  const FabricParts full = parts_of(Fabric::kRailOptimized, size, q.prices);
  const FabricParts rail = parts_of(Fabric::kRailOnly, size, q.prices);
  out << fmt::format("\nrail-only costs {:.1f} % less than rail-optimized ({} less)\n",
                     100 * cost_reduction(full, rail), money(full.cost - rail.cost));
}

void print_collectives(std::ostream& out, const Question& q) {
  out << fmt::format(
      "\ncollectives of {} on {} domains of {} GPUs; a GPU has {} inside its domain and {} into "
      "the "
      "network\n",
      brief(*q.message), grouped(q.grid.domains), q.grid.domain, brief(q.grid.scale_up),
      brief(q.grid.port));
  TextTable table({text_column(), text_column(), "", text_column()});
  for (const CollectiveLaw& law : collective_laws()) {
    table.row({std::string(to_name(law.fabric)), std::string(law.name),
               brief(law.time(q.grid, *q.message)), fmt::format("{}; {}", law.holds, law.source)});
  }
  out << table.text();
  out << "  the message is what a GPU holds after an all-gather, and sends to all in an "
         "all-to-all\n";
  if (q.grid.domains < 2) return;
  out << fmt::format(
      "  all-to-all is {:.1f} % slower rail-only: bytes for another rail are forwarded inside "
      "domains\n",
      100 * (all_to_all_rail_only(q.grid, *q.message) /
                 all_to_all_full_bisection(q.grid, *q.message) -
             1));
  if (!domain_cut_binds(q.grid)) {
    out << "  no all-gather can reach (y-1)/C_S here: the domain's links are too slow for it\n";
  }
}

void print_failures(std::ostream& out, const Question& q) {
  out << "\nwhat a failure costs: times after the remedy relative to those before (hierarchical "
         "all-gather, all-to-all)\n";
  std::string last;
  std::optional<TextTable> table;
  for (const FailureCase& row : failure_cases(q.size, q.grid, q.failures)) {
    const std::string title = fmt::format("{}, {}", to_name(row.failed), to_name(row.fabric));
    if (title != last) {
      const std::string heading =
          fmt::format("{}: {:.2g} % of network bandwidth lost", title, 100 * row.bandwidth_lost);
      if (table) out << "\n" << table->text();
      table.emplace(TextTable({text_column(heading), "GPUs out", "moved", "all-gather",
                               "all-to-all", text_column("stated by")},
                              ""));
      if (row.pairs_off_network > 0) {
        table->line(fmt::format("    {} pairs of GPUs lose their path over switches, {} every path",
                                grouped(row.pairs_off_network), grouped(row.pairs_cut_off)));
      }
      last = title;
    }
    const auto times = [](const std::optional<double>& ratio) {
      return ratio ? fmt::format("x {:.3f}", *ratio) : std::string("-");
    };
    const std::string what =
        fmt::format("  {}{}: {}", row.optical ? "[optical] " : "", row.spare, row.remedy);
    table->row({what, grouped(row.gpus_out), grouped(row.gpus_moved), times(row.all_gather),
                times(row.all_to_all), std::string(to_name(row.claim))});
  }
  if (table) out << "\n" << table->text();
  out << "\n  [optical] needs optical switches. \"paper\": the remedy stands in section 4.1 of the "
         "rail-only paper;\n  all numbers are derived (docs/laws/rail_failures.md)\n";
}

Value parts_json(Fabric fabric, const Question& q) {
  const FabricParts parts = parts_of(fabric, q.size, q.prices);
  return Value::Table{{"tiers", parts.tiers},
                      {"switches", parts.switches},
                      {"transceivers", parts.transceivers},
                      {"cost_usd", parts.cost.value},
                      {"switches_whole_rails", parts.switches_whole_rails}};
}

Value collectives_json(const Question& q) {
  Value::Array laws;
  for (const CollectiveLaw& law : collective_laws()) {
    laws.push_back(Value::Table{{"law", std::string(law.name)},
                                {"operation", std::string(law.operation)},
                                {"fabric", std::string(to_name(law.fabric))},
                                {"time_s", law.time(q.grid, *q.message).value},
                                {"holds", std::string(law.holds)},
                                {"source", std::string(law.source)}});
  }
  return Value::Table{{"message_bytes", q.message->value},
                      {"domain", q.grid.domain},
                      {"domains", q.grid.domains},
                      {"domain_bandwidth_bytes_per_s", q.grid.scale_up.value},
                      {"port_bandwidth_bytes_per_s", q.grid.port.value},
                      {"all_to_all_slowdown", all_to_all_slowdown(q.grid)},
                      {"domain_cut_binds", domain_cut_binds(q.grid)},
                      {"laws", laws}};
}

Value failures_json(const Question& q) {
  const auto times = [](const std::optional<double>& ratio) {
    return ratio ? Value(*ratio) : Value();
  };
  Value::Array rows;
  for (const FailureCase& row : failure_cases(q.size, q.grid, q.failures)) {
    rows.push_back(Value::Table{{"failed", std::string(to_name(row.failed))},
                                {"fabric", std::string(to_name(row.fabric))},
                                {"optical", row.optical},
                                {"spare", row.spare},
                                {"remedy", row.remedy},
                                {"claim", std::string(to_name(row.claim))},
                                {"note", row.note},
                                {"bandwidth_lost", row.bandwidth_lost},
                                {"pairs_off_network", row.pairs_off_network},
                                {"pairs_cut_off", row.pairs_cut_off},
                                {"gpus_out", row.gpus_out},
                                {"gpus_moved", row.gpus_moved},
                                {"all_gather_ratio", times(row.all_gather)},
                                {"all_to_all_ratio", times(row.all_to_all)}});
  }
  return rows;
}

Value::Table fabric_json(const Question& q, const FabricOptions& options,
                         const std::vector<std::string>& remarks) {
  const FabricParts full = parts_of(Fabric::kRailOptimized, q.size, q.prices);
  const FabricParts rail = parts_of(Fabric::kRailOnly, q.size, q.prices);
  Value::Array remarks_json;
  for (const std::string& remark : remarks) remarks_json.push_back(remark);
  Value::Table answer = {{"provenance", "predicted"},
                         {"law", "fabric-cost"},
                         {"law_source", "Wang et al. 2023 (rail-only), section 6.5"},
                         {"gpus", q.size.gpus},
                         {"radix", q.size.radix},
                         {"domain", q.size.domain},
                         {"domains", q.size.domains()},
                         {"switch_port_usd", q.prices.switch_port.value},
                         {"transceiver_usd", q.prices.transceiver.value},
                         {"clos", parts_json(Fabric::kClos, q)},
                         {"rail_optimized", parts_json(Fabric::kRailOptimized, q)},
                         {"rail_only", parts_json(Fabric::kRailOnly, q)},
                         {"reduction", cost_reduction(full, rail)},
                         {"reduction_percent", percent_cut_off(full, rail)},
                         {"notes", remarks_json}};
  if (q.message) answer.emplace_back("collectives", collectives_json(q));
  if (options.failures) answer.emplace_back("failures", failures_json(q));
  if (q.job) answer.emplace_back("job", priced_job_json(*q.job));
  if (q.shared) answer.emplace_back("tiling", shared_cluster_json(*q.shared));
  return answer;
}

}  // namespace

Status fabric(const FabricOptions& options, std::ostream& out) {
  const Question q = TRY(read_question(options));
  const std::vector<std::string> remarks = notes(q, q.message || options.failures);
  Value::Table answer;
  if (options.json || !options.report.empty()) answer = fabric_json(q, options, remarks);
  command::OutputFiles files;
  if (!options.report.empty()) TRY(files.add(options.report, fabric_page(answer, options.command)));
  TRY(files.commit());
  if (options.json) {
    command::print_json(out, answer);
    return q.shared ? all_have_a_place(*q.shared) : Status{};
  }
  print_parts(out, q);
  for (const std::string& remark : remarks) out << "  note: " << remark << "\n";
  if (q.message) print_collectives(out, q);
  if (options.failures) print_failures(out, q);
  if (q.job) print_priced_job(out, *q.job);
  if (q.shared) print_shared_cluster(out, *q.shared);
  if (!options.report.empty()) out << "wrote " << options.report << "\n";
  return q.shared ? all_have_a_place(*q.shared) : Status{};
}

command::Command add_fabric(CLI::App& app) {
  auto options = std::make_shared<FabricOptions>();
  CLI::App* words = command::add_command(
      app, {"fabric", command::kPlanning,
            "what the network of a GPU cluster needs and costs: Clos, rail-only",
            "tombolo fabric --gpus 32768 --domain 256 --failures"});
  command::heading(words, "The cluster");
  CLI::Option* gpus = words->add_option("--gpus", options->gpus, "how many GPUs")->default_str("");
  words->add_option("--radix", options->radix, "ports of a switch");
  CLI::Option* domain = words->add_option("--domain", options->domain, "GPUs of a scale-up domain");
  words
      ->add_option("--server", options->server,
                   "GPUs per server; left out: the domain if at most 16, else 1")
      ->type_name("GPUS");
  words
      ->add_option("--optical-group", options->optical_group,
                   "GPUs that an optical switch inside a domain exchanges together")
      ->type_name("GPUS");
  words->add_option("--switch-port-price", options->switch_port_price, "price of a switch port")
      ->type_name("USD");
  words->add_option("--transceiver-price", options->transceiver_price, "price of a transceiver")
      ->type_name("USD");
  words->add_option("--domain-bandwidth", options->domain_bandwidth, "of a GPU inside its domain")
      ->type_name("RATE");
  words->add_option("--port-bandwidth", options->port_bandwidth, "of a GPU into the network")
      ->type_name("RATE");
  command::heading(words, "What is asked");
  words->add_option("--message", options->message, "how long collectives of it take, too")
      ->type_name("SIZE");
  words->add_flag("--failures", options->failures,
                  "what a failed GPU, server, rail switch or link costs");
  command::heading(words, "Iterations per dollar");
  CLI::Option* job =
      words
          ->add_option(
              "--job", options->job,
              "job or Plan whose GPUs the fabric joins: iterations per dollar, network included")
          ->type_name("FILE")
          ->excludes(gpus)
          ->excludes(domain);
  command::suggestions(
      words->add_option("--law", options->law, "that predicts the iteration of a job"),
      {"tombolo", "rail-only"});
  words
      ->add_option("--iteration", options->iteration,
                   "of an iteration on full bisection, such as 12.5s, instead of a law")
      ->type_name("TIME")
      ->needs(job);
  words->add_option("--years", options->years, "until the network is written off")
      ->type_name("YEARS")
      ->needs(job);
  words
      ->add_flag("--price-includes-network", options->price_includes_network,
                 "the cluster's price of a device has a Clos in it")
      ->needs(job);
  command::heading(words, "Several jobs");
  words
      ->add_option("--jobs", options->jobs,
                   "jobs or Plans that share one cluster: which rails of which domains each gets, "
                   "and its iteration there")
      ->type_name("FILE,FILE")
      ->delimiter(',')
      ->excludes(gpus)
      ->excludes(domain)
      ->excludes(job);
  command::heading(words, command::kComesOut);
  command::add_report(words, options->report, "costs and times of each fabric");
  command::add_json(words, options->json);
  return {words, [options, words](std::ostream& out) {
            options->command = command::line_given(*words);
            return fabric(*options, out);
          }};
}

}  // namespace tombolo::predict_commands
