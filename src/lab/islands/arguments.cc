#include "lab/islands/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/lone_number.h"

namespace tombolo::islands {
namespace {

// As ssh takes it: everything after the host belongs to the command, options included.
Result<Arguments> parse_exec(const std::vector<std::string>& words) {
  if (words.size() < 3) {
    return unusable("exec: wanted a host and a command", "tombolo-islands exec oregon-0 hostname");
  }
  Arguments out{.verb = Verb::kExec, .host = words[1]};
  out.command.assign(words.begin() + 2, words.end());
  return out;
}

}  // namespace

Result<Arguments> parse_arguments(std::vector<std::string> words) {
  if (!words.empty() && words[0] == "exec") return parse_exec(words);

  // What follows "--" is the command, whatever it looks like.
  Arguments out;
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const bool has_command = dashes != words.end();
  if (has_command) out.command.assign(dashes + 1, words.end());
  words.erase(dashes, words.end());

  CLI::App app("Hosts of emulated datacenters as network namespaces, with a WAN between them.",
               "tombolo-islands");
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run", "runs `-- COMMAND...` on the hosts, then cleans up");
  CLI::App* wanem = app.add_subcommand("wanem", "brings the hosts up until ^C");
  CLI::App* trace = app.add_subcommand(
      "trace", "prints a bandwidth that fluctuates as StellaTrain's authors saw it, as CSV");
  // Parsed above; here for --help.
  app.add_subcommand("exec", "HOST COMMAND...: runs a command on another host; inside only");
  double byte_scale = 1;
  for (CLI::App* verb : {run, wanem}) {
    verb->add_option("file", out.file, "a cluster file, job or Plan")->required();
    verb->add_option("--byte-scale", byte_scale,
                     "divides rates, queues and TCP windows (left out: the job's, or 1)");
    verb->add_option("--counters", out.counters, "writes what links have seen here, as JSON");
    verb->add_option("--seed", out.seed, "of losses and jitter");
  }
  run->add_option("--host", out.host, "where the command runs (left out: on the first)");
  run->add_flag("--each", out.each, "on every host at once, its name before each line of output");
  std::string mean = format(out.trace.mean), period = format(out.trace.duration),
              step = format(out.trace.step);
  trace->add_option("--mean", mean, "rate between 60 and 590 Mbps (left out: 193 Mbps)");
  trace->add_option("--seconds", period, "time of one period (left out: 10 min)");
  trace->add_option("--step", step, "time between changes (left out: 500 ms)");
  trace->add_option("--seed", out.trace.seed, "another seed, another trace");

  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    out.text = app.get_subcommands().empty() ? app.help() : app.get_subcommands()[0]->help();
    return out;
  } catch (const CLI::ParseError& error) {
    return unusable(error.what(), "tombolo-islands --help");
  }
  out.verb = run->parsed() ? Verb::kRun : wanem->parsed() ? Verb::kWanem : Verb::kTrace;
  if (out.verb == Verb::kTrace) {
    out.trace.mean = TRY(during(parse_lone_number<BytesPerSecond>(mean, "Mbps"), "reading --mean"));
    out.trace.duration = TRY(during(parse_lone_number<Seconds>(period, "s"), "reading --seconds"));
    out.trace.step = TRY(during(parse_lone_number<Seconds>(step, "s"), "reading --step"));
    return out;
  }
  const CLI::App* parsed = app.get_subcommands()[0];
  if (parsed->count("--byte-scale") > 0) {
    if (!(byte_scale >= 1)) {
      return unusable(fmt::format("--byte-scale {}: must be at least 1", byte_scale));
    }
    out.byte_scale = byte_scale;
  }
  if (out.verb == Verb::kRun && out.command.empty()) {
    return unusable("there is no command to run", "tools/islands FILE -- COMMAND...");
  }
  if (out.verb != Verb::kRun && has_command) {
    return unusable("only `run` takes a command", "tools/islands FILE -- COMMAND...");
  }
  if (out.each && !out.host.empty()) return unusable("--each and --host contradict each other");
  return out;
}

}  // namespace tombolo::islands
