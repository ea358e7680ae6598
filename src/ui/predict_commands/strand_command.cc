#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <optional>

#include "base/text_table.h"
#include "predict/strand/pair_offer.h"
#include "predict/strand/plan_strands.h"
#include "predict/strand/stream_picture.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"
#include "ui/command/output_files.h"
#include "ui/command/words.h"
#include "ui/predict_commands/predict_commands.h"
#include "ui/predict_commands/strand_page.h"

namespace tombolo::predict_commands {
namespace {

using strand::Exposure;
using strand::StrandAnswer;

constexpr size_t kPictureWidth = 100;

Result<std::vector<strand::Stream>> read_copies(const std::vector<std::string>& names) {
  std::vector<strand::Stream> out;
  for (const std::string& name : names) {
    if (name != "local" && name != "cross") {
      return unusable(fmt::format("--copies {}: is no link", name), "local, cross or both");
    }
    out.push_back(name == "local" ? strand::Stream::kLocal : strand::Stream::kCross);
  }
  return out;
}

Status check_shares(const std::vector<double>& shares) {
  for (const double share : shares) {
    if (share > 0 && share < 1) continue;
    return unusable(fmt::format("--sm-shares {}: must lie between 0 and 1", share),
                    "--sm-shares 0.05,0.1,0.15");
  }
  return {};
}

Result<strand::StrandOptions> options_of(const StrandCommandOptions& given) {
  strand::StrandOptions options;
  if (given.segment < 1 || given.segment > 8) {
    return unusable(fmt::format("--segment {}: must lie between 1 and 8", given.segment), "4");
  }
  if (given.layers < 1) {
    return unusable(fmt::format("--layers {}: must be at least 1", given.layers), "1");
  }
  options.search.segment_max = given.segment;
  options.search.barrier =
      TRY(during(parse_quantity<Seconds>(given.barrier), "reading --barrier")).value;
  if (options.search.barrier < 0) {
    return unusable(fmt::format("--barrier \"{}\": must not be negative", given.barrier), "20us");
  }
  options.execution = given.barriers ? strand::Execution::kBarriers : strand::Execution::kEvents;
  options.layers = given.layers;
  options.gather_again = given.gather_again;
  options.dense = given.dense;
  options.copies = TRY(read_copies(given.copies));
  TRY(check_shares(given.sm_shares));
  options.sm_shares = given.sm_shares;
  if (!given.profile.empty()) options.profile = TRY(strand::read_profile(given.profile));
  return options;
}

std::string names_of(const strand::Dag& dag, strand::OperatorSet set) {
  std::string out;
  for (size_t i = 0; i < dag.size(); ++i) {
    if (strand::holds(set, i)) out += (out.empty() ? "" : " ") + dag[i].name;
  }
  return out.empty() ? "-" : out;
}

void print_times(std::ostream& out, const StrandAnswer& a) {
  TextTable table({text_column(), "", text_column()});
  const auto line = [&](const char* what, double seconds, const std::string& note) {
    table.row({what, brief(Seconds{seconds}), note});
  };
  const auto gain = [&](double seconds) {
    return fmt::format("gain {:.3f}", a.sequential / seconds);
  };
  line("one after the other", a.sequential, "");
  line("as the stack overlaps on its own", a.by_stack, "");
  line("equation 2 of DHelix, with barriers", a.equation_2, gain(a.equation_2));
  line("segments with barriers", a.plan.seconds, gain(a.plan.seconds));
  line("streams with events", a.streams.seconds,
       gain(a.streams.seconds) + (a.streams.proved ? ", nothing is shorter" : ""));
  out << table.text();
}

void print_segments(std::ostream& out, const StrandAnswer& a) {
  TextTable table({"", text_column("forward"), text_column("backward"), ""});
  for (size_t i = 0; i < a.plan.segments.size(); ++i) {
    const strand::Segment& segment = a.plan.segments[i];
    table.row({fmt::format("{}", i + 1), names_of(a.pair.forward(), segment.operators.forward),
               names_of(a.pair.backward(), segment.operators.backward),
               brief(Seconds{segment.seconds})});
  }
  out << table.text();
}

void print_gain(std::ostream& out, const StrandAnswer& a) {
  out << fmt::format(
      "\n  gain {:.3f} by {}; under errors of times and paces {:.3f} on average, above {:.3f} in "
      "19 "
      "cases of 20\n",
      a.expected_gain(), to_name(a.execution), a.gain.expected, a.gain.low);
  out << fmt::format(
      "  hidden: {:.1f} % of {} of communication; memory: {} more, a layer's "
      "activations\n\n",
      100 * a.exposure.hidden_share(), brief(Seconds{a.exposure.communication_total()}),
      brief(a.memory_more));
}

void print_plan(std::ostream& out, const StrandAnswer& a) {
  out << strand::picture(a.pair, a.runs, a.paired, kPictureWidth) << "\n";
  print_segments(out, a);
}

// What two jobs differ in: their pictures and segments, one below the other.
void print_beside(std::ostream& out, const plan::Job& job, const StrandAnswer& a) {
  out << fmt::format("\nnext to it, {}: {}\n", job.name, strand_headline(job, a));
  print_gain(out, a);
  print_plan(out, a);
  if (!a.refused.empty()) out << fmt::format("\n  not worth it: {}\n", a.refused);
}

void print_text(std::ostream& out, const plan::Job& job, const StrandAnswer& a) {
  out << fmt::format("{}: {}\n", job.name, strand_headline(job, a));
  out << "predicted, the forward pass of one microbatch together with the backward pass of "
         "another:\n\n";
  print_times(out, a);
  print_gain(out, a);
  TextTable table({text_column(), "", "", text_column()});
  for (const auto& row : exposure_rows(a.exposure)) table.row({row.begin(), row.end()});
  out << table.text() << "\n";
  print_plan(out, a);
  if (a.sm_share) {
    out << fmt::format("\n  communication takes {:.3g} % of the multiprocessors\n",
                       100 * *a.sm_share);
  }
  out << fmt::format("\n  {} states, {} segments played, {} nodes; overlap: {}\n", a.plan.states,
                     a.plan.played, a.streams.nodes, a.overlap);
  for (const std::string& note : a.notes) out << "  note: " << note << "\n";
}

Value operators_json(const strand::Dag& dag, strand::OperatorSet set) {
  Value::Array out;
  for (size_t i = 0; i < dag.size(); ++i) {
    if (strand::holds(set, i)) out.push_back(dag[i].name);
  }
  return out;
}

Value exposure_json(const Exposure& e) {
  Value::Table waiting, communication;
  for (size_t cause = 0; cause < strand::kCommunicationKinds; ++cause) {
    const std::string name(to_name(strand::kCommunications[cause]));
    waiting.emplace_back(name, 1e6 * e.waiting[cause]);
    communication.emplace_back(name, 1e6 * e.communication[cause]);
  }
  return Value::Table{{"computation_us", 1e6 * e.computation},
                      {"slowdown_us", 1e6 * e.slowdown},
                      {"waiting_us", std::move(waiting)},
                      {"standing_us", 1e6 * e.standing},
                      {"communication_us", std::move(communication)}};
}

Value::Table to_json(const StrandAnswer& a, double wall) {
  Value::Array segments, runs, notes;
  for (const strand::Segment& segment : a.plan.segments) {
    segments.push_back(
        Value::Table{{"forward", operators_json(a.pair.forward(), segment.operators.forward)},
                     {"backward", operators_json(a.pair.backward(), segment.operators.backward)},
                     {"us", 1e6 * segment.seconds}});
  }
  for (const strand::OperatorRun& run : a.runs) {
    runs.push_back(Value::Table{{"operator", a.pair[run.op].name},
                                {"stream", std::string(to_name(a.pair[run.op].stream))},
                                {"start_us", 1e6 * run.start},
                                {"end_us", 1e6 * run.end}});
  }
  for (const std::string& note : a.notes) notes.push_back(note);
  Value::Table out{{"provenance", "predicted"},
                   {"law", "strands"},
                   {"sequential_us", 1e6 * a.sequential},
                   {"stack_us", 1e6 * a.by_stack},
                   {"equation_2_us", 1e6 * a.equation_2},
                   {"barriers_us", 1e6 * a.plan.seconds},
                   {"events_us", 1e6 * a.streams.seconds},
                   {"execution", std::string(to_name(a.execution))},
                   {"paired_us", 1e6 * a.paired},
                   {"gain", a.expected_gain()},
                   {"gain_expected", a.gain.expected},
                   {"gain_low", a.gain.low},
                   {"hidden_fraction", a.exposure.hidden_share()},
                   {"exposure", exposure_json(a.exposure)},
                   {"memory_more_bytes", a.memory_more.value},
                   {"segments", std::move(segments)},
                   {"runs", std::move(runs)},
                   {"states", a.plan.states},
                   {"proved", a.streams.proved},
                   {"overlap", a.overlap},
                   {"notes", std::move(notes)}};
  if (a.sm_share) out.emplace_back("sm_share", *a.sm_share);
  if (!a.refused.empty()) out.emplace_back("refused", a.refused);
  out.emplace_back("wall_s", wall);
  return out;
}

}  // namespace

namespace {

struct Strands {
  plan::Job job;
  StrandAnswer answer;
};
// By the profile that was asked for, or else the job's own.
Result<Strands> strands_of(const std::string& file, strand::StrandOptions options) {
  plan::Job job = TRY(command::reread_job(file));
  if (!options.profile) options.profile = TRY(strand::profile_of(job));
  StrandAnswer answer = TRY(strand::plan_strands(job, options));
  return Strands{std::move(job), std::move(answer)};
}

}  // namespace

Status strands(const StrandCommandOptions& given, std::ostream& out) {
  const auto begin = std::chrono::steady_clock::now();
  const strand::StrandOptions options = TRY(options_of(given));
  if (!given.beside.empty() && !given.report.empty()) {
    return unusable("--beside and --report: a page shows one job",
                    "one of them; a page for each job");
  }
  const auto [job, answer] = TRY(strands_of(given.job, options));
  std::optional<Strands> beside;
  if (!given.beside.empty()) beside = TRY(strands_of(given.beside, options));
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  command::OutputFiles files;
  if (!given.report.empty()) TRY(files.add(given.report, strand_page(given, job, answer)));
  TRY(files.commit());
  if (given.json) {
    Value::Table json = to_json(answer, wall.count());
    if (beside) json.emplace_back("beside", to_json(beside->answer, wall.count()));
    command::print_json(out, std::move(json));
  } else {
    print_text(out, job, answer);
    if (beside) print_beside(out, beside->job, beside->answer);
    if (!given.report.empty()) out << "report: " << given.report << "\n";
  }
  if (answer.refused.empty()) return {};
  return infeasible(fmt::format("{}: strands are not worth it: {}", job.file, answer.refused),
                    "the job as it is, or a profile that is surer (--profile)");
}

command::Command add_strand(CLI::App& app) {
  auto options = std::make_shared<StrandCommandOptions>();
  CLI::App* words =
      command::add_command(app, {"strand", command::kPredicting,
                                 "what two microbatches on one device hide of each other",
                                 "tombolo strand examples/strands/llama-25b.toml"});
  command::add_job(words, options->job, "job file (TOML) or Plan (JSON)");
  words
      ->add_option("--beside", options->beside,
                   "another job: its plan below the first one, under the same options")
      ->type_name("FILE");
  words
      ->add_option("--profile", options->profile,
                   "overlap profile (CSV): times of operators alone and at the same time")
      ->type_name("FILE");
  words->add_flag("--dense", options->dense, "of a model with experts, a layer without");
  command::heading(words, "How it is searched");
  words->add_option("--segment", options->segment, "operators of one pass in a segment at most");
  words->add_option("--layers", options->layers, "layers planned as one");
  words->add_flag("--gather-again", options->gather_again,
                  "gather inputs again for gradients of weights, as Megatron-LM does");
  command::suggestions(
      words
          ->add_option("--copies", options->copies,
                       "links whose transfers take no multiprocessors; several with commas")
          ->delimiter(','),
      {"local", "cross"});
  words
      ->add_option("--sm-shares", options->sm_shares,
                   "of the multiprocessors for communication, to choose from")
      ->type_name("SHARE,...")
      ->delimiter(',');
  command::heading(words, command::kPerformed);
  words->add_flag("--barriers", options->barriers,
                  "perform with barriers after segments, as DHelix does, instead of events");
  words->add_option("--barrier", options->barrier, "what a barrier takes")->type_name("TIME");
  command::heading(words, command::kComesOut);
  command::add_report(words, options->report, "both passes, operator by operator");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return strands(*options, out); }};
}

}  // namespace tombolo::predict_commands
