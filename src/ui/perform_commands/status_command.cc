#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/json.h"
#include "base/stop_signals.h"
#include "base/text_table.h"
#include "ui/command/answer.h"
#include "ui/command/progress.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"
#include "ui/perform_commands/watched_run.h"

namespace tombolo::perform_commands {
namespace {

constexpr SimDuration kRedraw{1'000'000'000};

double number(const Value& table, const char* key) {
  const Value* value = table.find(key);
  if (!value) return 0;
  if (const double* d = value->get<double>()) return *d;
  if (const int64_t* i = value->get<int64_t>()) return static_cast<double>(*i);
  return 0;
}
bool has(const Value& table, const char* key) {
  const Value* value = table.find(key);
  return value && !value->is_null();
}
std::string word(const Value& table, const char* key) {
  const Value* value = table.find(key);
  const std::string* text = value ? value->get<std::string>() : nullptr;
  return text ? *text : "";
}
Value::Array list(const Value& table, const char* key) {
  const Value* value = table.find(key);
  const Value::Array* array = value ? value->get<Value::Array>() : nullptr;
  return array ? *array : Value::Array();
}

// "8,8,8,4"
std::string numbers(const Value& table, const char* key) {
  std::string out;
  for (const Value& each : list(table, key)) {
    const int64_t* whole = each.get<int64_t>();
    out += fmt::format("{}{}", out.empty() ? "" : ",", whole ? *whole : 0);
  }
  return out;
}

std::string bytes_text(double bytes) { return bytes == 0 ? "0" : brief(Bytes{bytes}); }

// At blanks, into lines of at most `width`, all but the first indented like the first.
std::string wrapped(const std::string& text, const std::string& indent, size_t width) {
  std::string out, line = indent;
  size_t at = 0;
  while (at < text.size()) {
    const size_t blank = std::min(text.find(' ', at), text.size());
    const std::string next = text.substr(at, blank - at);
    if (line.size() > indent.size() && line.size() + 1 + next.size() > width) {
      out += line + "\n";
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + next;
    at = blank + 1;
  }
  return out + line;
}

std::string run_lines(const Value& status) {
  const auto done = static_cast<int64_t>(number(status, "steps_done"));
  const auto all = static_cast<int64_t>(number(status, "steps"));
  std::string out = fmt::format("{} step {}/{}", command::progress_bar(done, all, 24), done, all);
  if (has(status, "loss")) out += fmt::format("  loss {:.4f}", number(status, "loss"));
  if (has(status, "iteration_s")) {
    out += fmt::format("  {}/iteration", brief(Seconds{number(status, "iteration_s")}));
    if (has(status, "tokens_per_s"))
      out += fmt::format("  {:.0f} tokens/s", number(status, "tokens_per_s"));
    out += fmt::format("  {} to go", brief(Seconds{number(status, "remaining_s")}));
  }
  const Value* density = status.find("density");
  if (density && density->get<Value::Table>()) {
    out += fmt::format("\ndensity {:g}", number(*density, "now"));
    const auto changes = static_cast<int64_t>(number(*density, "changes"));
    if (changes > 0) {
      out += fmt::format(", before {:g}, from iteration {} on ({} change{})\n",
                         number(*density, "before"), number(*density, "first_iteration"), changes,
                         changes == 1 ? "" : "s");
      out += wrapped(word(*density, "reason"), "      ", 100);
    }
  }
  const Value* batch = status.find("microbatches");
  if (batch && batch->get<Value::Table>()) {
    out += fmt::format("\nmicrobatches of each pipeline {}", numbers(*batch, "now"));
    const auto changes = static_cast<int64_t>(number(*batch, "changes"));
    if (changes > 0) {
      const bool is_to_come = has(*batch, "next");
      out += fmt::format(", {} {}, from iteration {} on ({} change{})\n",
                         is_to_come ? "then" : "before",
                         numbers(*batch, is_to_come ? "next" : "before"),
                         number(*batch, "first_iteration"), changes, changes == 1 ? "" : "s");
      out += wrapped(word(*batch, "reason"), "      ", 100);
    }
  }
  const std::string phase = has(status, "phase") ? word(status, "phase") + ", " : "";
  return out + fmt::format("\n{}schedule {}, running for {}\n", phase, word(status, "schedule"),
                           brief(Seconds{std::round(number(status, "run_s"))}));
}

std::string rank_lines(const Value& status) {
  TextTable table(
      {"rank", text_column("datacenter"), "iteration", text_column("heard"), text_column("late")},
      "");
  for (const Value& rank : list(status, "ranks")) {
    table.row({fmt::format("{}", number(rank, "rank")), word(rank, "datacenter"),
               fmt::format("{}", number(rank, "iteration")),
               has(rank, "heard_s_ago")
                   ? brief(Seconds{std::round(number(rank, "heard_s_ago") * 10) / 10}) + " ago"
                   : "not yet",
               has(rank, "late_s") ? brief(Seconds{number(rank, "late_s")}) : "-"});
  }
  std::string out = "\n" + table.text();
  for (const Value& rank : list(status, "ranks")) {
    if (!word(rank, "trouble").empty()) out += word(rank, "trouble") + "\n";
  }
  return out;
}

std::string link_lines(const Value& status, size_t width) {
  const Value::Array links = list(status, "links");
  if (links.empty()) return "\nno rank has reported its links yet\n";
  TextTable table({text_column("link"), "goodput", text_column("connections"), "round trip",
                   "resent", text_column("queued")},
                  "");
  for (const Value& link : links) {
    const std::string name = fmt::format("{} {} -> {} {}", number(link, "rank"), word(link, "from"),
                                         number(link, "peer"), word(link, "to"));
    const Value* queue = link.find("queue_bytes");
    double queued = 0;
    std::string parts;
    if (queue && queue->get<Value::Table>()) {
      for (const auto& [kind, bytes] : *queue->get<Value::Table>()) {
        const double of_kind = number(*queue, kind.c_str());
        queued += of_kind;
        if (of_kind > 0) parts += fmt::format(" {} {}", kind, bytes_text(of_kind));
      }
    }
    const size_t open = list(link, "connections").size();
    table.row({name, fmt::format("{:.4g} Mbps", number(link, "goodput_bytes_per_s") * 8e-6),
               fmt::format("{} of {} {}", number(link, "pulling"), open,
                           word(link, "congestion_control")),
               fmt::format("{:.1f} ms", number(link, "round_trip_s") * 1e3),
               fmt::format("{}", number(link, "retransmits")), bytes_text(queued)},
              parts.empty() ? "" : "(" + parts.substr(1) + ")");
    if (!word(link, "through").empty()) {
      table.line(wrapped("through the " + word(link, "through") + ": neither rank can be called",
                         "      ", width));
    }
    if (!word(link, "reason").empty()) table.line(wrapped(word(link, "reason"), "      ", width));
  }
  return "\n" + table.text();
}

}  // namespace

Status status(const StatusOptions& options, std::ostream& out) {
  const bool live = !options.once && !options.json && isatty(STDOUT_FILENO) != 0;
  const auto page = [&]() -> Result<std::string> {
    if (options.at.empty()) return status_page_of(options.out);
    return transport::http_page(TRY(transport::parse_address(options.at)), "/status");
  };
  StopSignals signals(SecondSignal::kEnds);
  SystemClock clock;
  for (bool first = true;; first = false) {
    const auto text = page();
    if (!text && !first) {
      out << "the run has ended\n";
      return {};
    }
    if (options.json) {
      out << TRY(text) << "\n";
      return {};
    }
    const Value status = TRY(parse_json(TRY(text), "status", 0));
    if (live) out << "\033[H\033[2J";
    out << run_lines(status) << rank_lines(status) << link_lines(status, 100) << std::flush;
    if (!live) return {};
    for (int i = 0; i < 10 && !signals.flag().load(); ++i)
      clock.sleep_until(clock.now() + SimDuration{kRedraw.ns / 10});
    if (signals.flag().load()) return {};
  }
}

command::Command add_status(CLI::App& app) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* words =
      command::add_command(app, {"status", command::kTraining,
                                 "what a run is doing: loss, iteration time, links, queues, ranks",
                                 "tombolo status --out run --once"});
  command::heading(words, command::kGoesIn);
  CLI::Option* at =
      words->add_option("--at", options->at, "of the run's --metrics")->type_name("ADDRESS:PORT");
  words->add_option("--out", options->out, "the run's folder")->type_name("FOLDER")->excludes(at);
  command::heading(words, command::kComesOut);
  words->add_flag("--once", options->once, "print it once, also on a terminal");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return status(*options, out); }, true};
}

}  // namespace tombolo::perform_commands
