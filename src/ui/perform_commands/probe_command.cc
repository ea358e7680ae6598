#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/clock.h"
#include "base/fields.h"
#include "base/stop_signals.h"
#include "base/text_table.h"
#include "base/toml.h"
#include "perform/join/security.h"
#include "perform/transport/probe.h"
#include "spec/cluster/cluster.h"
#include "spec/cluster/islands.h"
#include "ui/command/answer.h"
#include "ui/command/progress.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {
namespace {

using transport::ProbeCell;
using transport::ProbeResult;

constexpr const char* kTokenVariable = "TOMBOLO_PROBE_TOKEN";

// HOST or HOST:PORT.
Result<transport::Address> address(const std::string& text) {
  if (text.find(':') != std::string::npos) return transport::parse_address(text);
  return transport::parse_address(fmt::format("{}:{}", text, transport::kProbePort));
}

Result<link::Token> token(const ProbeCommandOptions& options) {
  std::string hex = options.token;
  if (const char* variable = std::getenv(kTokenVariable); hex.empty() && variable) hex = variable;
  if (!hex.empty()) return link::Token::parse(hex);
  if (options.listen) return link::Token::random();
  return unusable("the far side's token is missing",
                  fmt::format("--token, or {}: tombolo probe --listen prints it", kTokenVariable));
}

double mbps(BytesPerSecond rate) { return rate.value * 8e-6; }

// Rounded to what was measured, and down: a Plan should not count on more.
std::string mbps_text(BytesPerSecond rate) {
  const double value = mbps(rate);
  return value >= 100 ? fmt::format("{:.0f} Mbps", std::floor(value))
                      : fmt::format("{:.3g} Mbps", value);
}

// What people paste, which is read back before they see it.
Result<std::string> wan_block(const ProbeResult& result, const std::vector<std::string>& between) {
  const ProbeCell& best = result.best();
  const std::string block = fmt::format(
      "[[wan]]\n"
      "between = [\"{}\", \"{}\"]\n"
      "one_way_latency = \"{:.3g} ms\"\n"
      "node_pair_limit = \"{}\"\n"
      "connections = {}\n"
      "congestion_control = \"{}\"\n",
      between[0], between[1], result.round_trip.value * 1e3 / 2, mbps_text(best.both()),
      best.connections, best.congestion_control);
  std::string file = block;
  for (const std::string& name : between)
    file += fmt::format("[[datacenter]]\nname = \"{}\"\ndevice = \"cpu\"\n", name);
  const Value table = TRY(parse_toml(file, "the [[wan]] block"));
  const cluster::Cluster read = TRY(cluster::read_cluster(table, "the [[wan]] block", ""));
  if (read.wan.size() != 1 || read.wan[0].connections != best.connections)
    return failed("the [[wan]] block does not read back");
  return block;
}

void print_table(std::ostream& out, const ProbeResult& result, const std::string& far) {
  const ProbeCell& best = result.best();
  out << fmt::format("round trip to {}: {:.1f} ms\n\n", far, result.round_trip.value * 1e3);
  TextTable table({"connections", text_column("congestion"), "Mbps there", "back",
                   "busy round trip there", "back"},
                  "");
  for (const ProbeCell& cell : result.cells) {
    table.row({fmt::format("{}", cell.connections), cell.congestion_control,
               fmt::format("{:.4g}", mbps(cell.forth)), fmt::format("{:.4g}", mbps(cell.back)),
               fmt::format("{:.0f} ms", cell.round_trip_forth.value * 1e3),
               fmt::format("{:.0f} ms", cell.round_trip_back.value * 1e3)},
              &cell == &best ? "<- best" : "");
  }
  out << table.text();
}

Value json_cell(const ProbeCell& cell) {
  return Value(Value::Table{{"connections", int64_t{cell.connections}},
                            {"congestion_control", cell.congestion_control},
                            {"forth_bytes_per_s", cell.forth.value},
                            {"back_bytes_per_s", cell.back.value},
                            {"round_trip_forth_s", cell.round_trip_forth.value},
                            {"round_trip_back_s", cell.round_trip_back.value}});
}

Status listen(const ProbeCommandOptions& options, transport::Endpoint::Options endpoint,
              const std::string& own, std::ostream& out) {
  const transport::Address at = TRY(address(options.address.empty() ? own : options.address));
  SystemClock clock;
  endpoint.listen_address = at.host;
  endpoint.port = at.port;
  const auto server = TRY(transport::ProbeServer::listen(endpoint, clock));
  const transport::Address here{at.host, server->port()};
  out << fmt::format("on the near side:\ntombolo probe {} --token {}\n", here.text(),
                     endpoint.identity.token.hex())
      << std::flush;
  std::cerr << fmt::format("waits at {} for {}\n", here.text(), format(options.wait));
  StopSignals signals(SecondSignal::kEnds);
  return server->serve(clock.now() + round_to_ns(options.wait), &signals.flag());
}

}  // namespace

Status probe(const ProbeCommandOptions& options, std::ostream& out) {
  transport::Endpoint::Options endpoint;
  const auto islands = TRY(cluster::islands_of_environment());
  std::string own = "127.0.0.1";
  if (islands) {
    endpoint.network = islands->network;
    for (const cluster::Host& host : islands->hosts) {
      if (transport::is_address_of_this_host(host.address)) own = host.address;
    }
  }
  endpoint.plain_tcp = options.plain_tcp;
  endpoint.credentials = TRY(join::credentials_of({options.credentials, options.plain_tcp}));
  if (!options.listen && options.address.empty())
    return unusable("no host to probe", "tombolo probe HOST, and there tombolo probe --listen");
  if (options.between.size() != 2 || options.between[0] == options.between[1])
    return unusable("--between wants the names of two datacenters", "--between oregon,paris");
  endpoint.identity.token = TRY(token(options));
  endpoint.log = [](const std::string& line) { std::cerr << line << "\n"; };
  if (options.listen) return listen(options, std::move(endpoint), own, out);

  transport::ProbeOptions ask{.endpoint = std::move(endpoint),
                              .far = TRY(address(options.address)),
                              .congestion_controls = options.congestion_controls,
                              .counted = options.time,
                              .rounds = options.rounds};
  if (!options.connections.empty()) ask.connections = options.connections;
  TRY(ask.check());
  StopSignals signals(SecondSignal::kEnds);
  ask.stop = &signals.flag();
  SystemClock clock;
  ProbeResult result;
  {
    command::SearchBar bar;
    const auto on_cell = [&](int64_t done, int64_t all) {
      if (done == 0)
        std::cerr << fmt::format("{} measurements of {:g} s each, after a warm-up\n", all,
                                 options.time.value);
      bar.show(done, all);
    };
    result = TRY(transport::probe(ask, on_cell, clock));
  }
  const std::string block = TRY(wan_block(result, options.between));
  if (options.json) {
    Value::Array cells;
    for (const ProbeCell& cell : result.cells) cells.push_back(json_cell(cell));
    command::print_json(out, {{"round_trip_s", result.round_trip.value},
                              {"counted_s", options.time.value},
                              {"rounds", int64_t{options.rounds}},
                              {"cells", Value(std::move(cells))},
                              {"best", json_cell(result.best())},
                              {"wan", block}});
    return {};
  }
  print_table(out, result, ask.far.text());
  out << "\nfor the cluster file (the slower direction; connections = \"auto\" chooses while it "
         "runs):\n"
      << block;
  return {};
}

command::Command add_probe(CLI::App& app) {
  auto options = std::make_shared<ProbeCommandOptions>();
  CLI::App* words =
      command::add_command(app, {"probe", command::kTraining,
                                 "what a path between two hosts carries, as a [[wan]] block",
                                 "tombolo probe paris.example:29520 --between oregon,paris"});
  command::heading(words, command::kGoesIn);
  words->add_option("address", options->address, "of the far side; with --listen of this one")
      ->type_name("HOST[:PORT]");
  words->add_flag("--listen", options->listen,
                  "be the far side: wait for one probe, answer it, end");
  words
      ->add_option("--token", options->token,
                   "that --listen printed; left out: TOMBOLO_PROBE_TOKEN")
      ->type_name("TOKEN");
  command::add_time(words, "--wait", options->wait, "--listen: for the call to come", 1_s,
                    86'400_s);
  command::heading(words, "What is measured");
  words->add_option("--connections", options->connections, "at once; left out: 1,2,4,8,16")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->check(CLI::Range(1, 16));
  words
      ->add_option("--congestion-controls", options->congestion_controls,
                   "left out: all that both kernels have")
      ->type_name("NAME,...")
      ->delimiter(',');
  command::add_time(words, "--seconds", options->time, "counted, per measurement", 100_ms, 60_s);
  words->add_option("--rounds", options->rounds, "of all measurements; their median")
      ->check(CLI::Range(1, 100));
  command::heading(words, command::kAcrossHosts);
  command::add_credentials(words, options->credentials, options->plain_tcp);
  command::heading(words, command::kComesOut);
  words->add_option("--between", options->between, "the datacenters' names in the [[wan]] block")
      ->type_name("NAME,NAME")
      ->delimiter(',');
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return probe(*options, out); }, true};
}

}  // namespace tombolo::perform_commands
