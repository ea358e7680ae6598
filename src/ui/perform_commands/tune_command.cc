#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/clock.h"
#include "base/file.h"
#include "base/stop_signals.h"
#include "base/text_table.h"
#include "decide/across/line_rates.h"
#include "decide/across/tuned_exchange.h"
#include "predict/cost/price_plan.h"
#include "spec/plan/hardware.h"
#include "steer/tune/convergence_profile.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"
#include "ui/perform_commands/probe_trainings.h"
#include "ui/perform_commands/progress_line.h"

namespace tombolo::perform_commands {
namespace {

constexpr int64_t kFewestSteps = 30;
constexpr double kLittle =
    0.005;  // of a time per sample: what two settings may differ by and be alike

// "x 1.42".
std::string factor_text(double factor) { return fmt::format("x {:.2f}", factor); }

struct LineChoice {
  BytesPerSecond rate;  // of the slowest line
  across::TunedExchange best;
  std::optional<across::TunedExchange> as_given;  // nothing where it does not fit
};

int64_t largest_batch(const TuneOptions& options, const plan::Job& job) {
  return options.batch_max.value_or(4 * job.training.global_batch);
}

// Trains.
Result<tune::ConvergenceProfile> measured(const TuneOptions& options, const plan::Job& job) {
  const tune::ProbeBounds bounds =
      TRY(across::tuning_bounds(job, largest_batch(options, job), options.density_min));
  const int64_t steps = options.probe_steps.value_or(std::max(job.run.steps / 10, kFewestSteps));
  const double samples = real(steps * job.training.global_batch);
  SystemClock clock;
  StopSignals signals;
  ProgressLine line(std::cerr, isatty(STDERR_FILENO) != 0, clock);
  ProbeTrainings::Options how{.folder = options.out,
                              .worker = options.worker,
                              .command = command::command_line("tune", options.in),
                              .version = command::version(),
                              .stop = &signals.flag()};
  how.on_begin = [&](const DoneTraining& next, int64_t number) {
    line.note(fmt::format("training {} of {}: {}, batch {}, {} steps", number, options.probes + 1,
                          next.density == 1 && next.staleness == 0
                              ? "all gradients, at once"
                              : fmt::format("density {:.2g}", next.density),
                          next.batch, next.steps));
  };
  how.on_progress = [&](const observe::Progress& progress) { line.show(progress); };
  how.log = [](const std::string& text) { std::cerr << text + "\n"; };
  ProbeTrainings trainings = TRY(ProbeTrainings::open(job, std::move(how), clock));
  const auto train = [&](double density, int64_t batch, int staleness, double many) {
    return trainings.train(density, batch, staleness, many);
  };
  const auto profile =
      tune::fit_profile({train, samples}, bounds, static_cast<int>(options.probes),
                        Random(options.in.seed.value_or(job.run.seed)).stream("probes"));
  line.finish();
  if (!profile) return tl::unexpected(profile.error());
  TRY(write_file(options.out + "/profile.json", profile->text()));
  return profile;
}

Result<std::vector<BytesPerSecond>> rates_of(const TuneOptions& options, const plan::Job& job) {
  std::vector<BytesPerSecond> rates;
  for (const std::string& text : options.rates) {
    rates.push_back(TRY(during(parse_quantity<BytesPerSecond>(text), "reading --rates")));
    if (!(rates.back().value > 0) || !std::isfinite(rates.back().value))
      return unusable(fmt::format("--rates {}: must be above 0", text), "--rates 100Mbps");
  }
  if (!rates.empty()) return rates;
  for (const double factor : {1.0 / 16, 1.0 / 4, 1.0, 4.0, 16.0})
    rates.push_back(across::slowest_line(job.cluster) * factor);
  return rates;
}

Result<std::vector<LineChoice>> choices(const TuneOptions& options, const plan::Job& job,
                                        const plan::Hardware* hardware,
                                        const tune::ConvergenceProfile& profile) {
  std::vector<LineChoice> lines;
  for (const BytesPerSecond rate : TRY(rates_of(options, job))) {
    plan::Job here = job;
    across::set_slowest_line(here.cluster, rate);
    LineChoice line{.rate = rate};
    line.best = TRY(across::tuned_exchange(here, profile, {hardware, options.threads}));
    if (const auto given = across::priced(here, profile, hardware)) line.as_given = *given;
    lines.push_back(std::move(line));
  }
  return lines;
}

// Densities and batches of a table that a page holds.
std::vector<double> shown_densities(const tune::ProbeBounds& bounds) {
  std::vector<double> densities;
  for (double density = 1; density >= bounds.density_min * 0.99; density /= std::sqrt(10))
    densities.push_back(density);
  return densities;
}

std::vector<int64_t> shown_batches(const tune::ProbeBounds& bounds) {
  constexpr int64_t kShown = 5;
  std::vector<int64_t> batches;
  const double least = real(bounds.batch_min), quotient = real(bounds.batch_max) / least;
  for (int64_t i = 0; i < kShown; ++i) {
    const double wanted = least * std::pow(quotient, real(i) / (kShown - 1));
    const int64_t batch = bounds.batch(std::llround((wanted - least) / real(bounds.batch_step)));
    if (batches.empty() || batch > batches.back()) batches.push_back(batch);
  }
  return batches;
}

void print_profile(std::ostream& out, const tune::ConvergenceProfile& profile) {
  const tune::ProbeBounds& bounds = profile.record().bounds;
  const std::vector<int64_t> batches = shown_batches(bounds);
  std::vector<TextTable::Column> columns = {{"density"}};
  for (const int64_t batch : batches) columns.push_back({fmt::format("batch {}", batch)});
  TextTable table(columns);
  for (const double density : shown_densities(bounds)) {
    std::vector<std::string> cells = {fmt::format("{:.2g}", density)};
    for (const int64_t batch : batches)
      cells.push_back(factor_text(profile.samples_factor(density, real(batch))));
    table.row(cells);
  }
  out << fmt::format(
      "measured: samples to the same loss, over those of all gradients at once with a batch of {} "
      "({} trainings)\n{}",
      bounds.batch(bounds.batches() / 2), profile.record().probes.size() + 1, table.text());
}

std::string against_given(const LineChoice& line) {
  if (!line.as_given) return "the job as it is does not fit";
  const double more = line.as_given->per_sample() / line.best.per_sample();
  if (std::abs(more - 1) <= kLittle) return "as good";
  return fmt::format("{:.2f} times as long", more);
}

void print_lines(std::ostream& out, const std::vector<LineChoice>& lines) {
  TextTable table({{"line"},
                   {"density"},
                   {"batch"},
                   {"iteration"},
                   {"samples"},
                   {"for 1,000 samples' worth"},
                   text_column("the job as it is")});
  for (const LineChoice& line : lines) {
    const across::TunedExchange& best = line.best;
    table.row({brief(line.rate), fmt::format("{:g}", best.density), fmt::format("{}", best.batch),
               brief(best.iteration),
               fmt::format("{} +- {:.0f} %", factor_text(best.samples_factor), 100 * best.doubt),
               brief(best.per_sample() * 1000), against_given(line)});
  }
  out << "predicted: the density and the batch that reach a loss soonest\n" << table.text();
}

Value setting_value(const across::TunedExchange& setting) {
  return Value(Value::Table{{"density", setting.density},
                            {"global_batch", setting.batch},
                            {"iteration_s", setting.iteration.value},
                            {"samples_factor", setting.samples_factor},
                            {"doubt", setting.doubt},
                            {"per_sample_s", setting.per_sample().value}});
}

void print_answer(std::ostream& out, const tune::ConvergenceProfile& profile,
                  const std::vector<LineChoice>& lines, const std::string& file) {
  Value::Array rows;
  for (const LineChoice& line : lines) {
    rows.push_back(
        Value(Value::Table{{"line_bytes_per_s", line.rate.value},
                           {"best", setting_value(line.best)},
                           {"as_given", line.as_given ? setting_value(*line.as_given) : Value()}}));
  }
  command::print_json(out, {{"provenance", "predicted"},
                            {"profile", file},
                            {"convergence", write_fields(profile.record())},
                            {"lines", Value(std::move(rows))}});
}

}  // namespace

Status tune(const TuneOptions& options, std::ostream& out) {
  std::optional<plan::Hardware> hardware;
  if (!options.in.hardware.empty()) hardware = TRY(plan::read_hardware(options.in.hardware));
  const plan::Hardware* measured_stages = hardware ? &*hardware : nullptr;
  const plan::Job job = TRY(command::load_job(options.in));
  TRY(across::tuning_bounds(job, largest_batch(options, job), options.density_min));
  TRY(rates_of(options, job));
  TRY(cost::make_plan(job, measured_stages));
  const std::string file =
      options.profile.empty() ? options.out + "/profile.json" : options.profile;
  const tune::ConvergenceProfile profile =
      options.profile.empty() ? TRY(measured(options, job))
                              : TRY(tune::ConvergenceProfile::parse(TRY(read_file(file)), file));
  const plan::Select measured_with = profile.record().bounds.select_in_use();
  if (job.exchange.value_or(plan::Exchange{}).select_in_use() != measured_with) {
    return unusable(
        fmt::format("{}: was measured with select = \"{}\", and {} has another", file,
                    to_name(measured_with), job.file),
        fmt::format("select = \"{}\", or a profile of this job", to_name(measured_with)));
  }
  if (const auto note = tune::note_on_training(profile.record().bounds, file, job))
    command::note(*note);
  const std::vector<LineChoice> lines = TRY(choices(options, job, measured_stages, profile));
  if (options.json) {
    print_answer(out, profile, lines, file);
    return {};
  }
  print_profile(out, profile);
  print_lines(out, lines);
  out << "profile: " << file << "\n";
  return {};
}

command::Command add_tune(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* words = command::add_command(
      app, {"tune", command::kTraining,
            "measure what compression and batches cost in convergence; choose both for a line",
            "tombolo tune examples/thin-lines/tune.toml --profile "
            "examples/thin-lines/tune-profile.json"});
  command::add_input(words, options->in);
  command::add_data(words, options->in);
  CLI::Option* profile = words
                             ->add_option("--profile", options->profile,
                                          "of another tune, of the same model: nothing is trained")
                             ->type_name("FILE");
  command::heading(words, "What is tried");
  words
      ->add_option("--probes", options->probes,
                   "short trainings, in addition to one to compare with")
      ->check(CLI::Range(1, static_cast<int>(tune::kProbesMax)))
      ->excludes(profile);
  words
      ->add_option("--probe-steps", options->probe_steps,
                   "of the job's batch that each of them sees as samples; left out: a tenth of "
                   "[run].steps, at least 30")
      ->check(CLI::Range(1, 1'000'000))
      ->excludes(profile);
  words
      ->add_option("--batch-max", options->batch_max,
                   "samples of a step, at most; left out: four times global_batch")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}))
      ->excludes(profile);
  words->add_option("--density-min", options->density_min, "smallest share of the gradients sent")
      ->check(CLI::Range(1e-5, 1.0))
      ->excludes(profile);
  words
      ->add_option(
          "--rates", options->rates,
          "of the slowest line, others in proportion; left out: from a sixteenth to sixteen "
          "times the job's")
      ->type_name("RATE,...")
      ->delimiter(',');
  command::add_threads(words, options->threads, 0);
  command::heading(words, command::kPerformed);
  command::add_worker(words, options->worker);
  command::heading(words, command::kComesOut);
  words
      ->add_option("--out", options->out, "for profile.json, and to continue after an interruption")
      ->type_name("FOLDER");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return tune(*options, out); }, true};
}

}  // namespace tombolo::perform_commands
