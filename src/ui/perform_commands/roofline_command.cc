#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "base/cpu_limit.h"
#include "base/file.h"
#include "base/toml.h"
#include "perform/profile/profile.h"
#include "predict/cost/device_from_rates.h"
#include "ui/command/answer.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {
namespace {

std::string share(double of_peak) { return fmt::format("{:.0f} %", 100 * of_peak); }

void print_rank(std::ostream& out, const plan::DeviceRates& rank, FlopsPerSecond peak) {
  for (const plan::MeasuredProduct& product : rank.products) {
    out << fmt::format("  {} product [{}, {}] x [{}, {}]: {}\n", to_name(product.precision),
                       product.rows, product.depth, product.depth, product.columns,
                       brief(product.rate));
  }
  out << fmt::format("  memory: {:.1f} GB/s\n", rank.stream / 1_GBps);
  for (const plan::MeasuredLayer& layer : rank.layers) {
    const cost::LayerEfficiency its = cost::efficiency_of(layer, peak, rank.precision);
    out << fmt::format(
        "  {} layer of {}, {} tokens: {}, of it attention {}; {} and {} of the peak\n",
        to_name(rank.precision), layer.model.hidden, layer.micro_batch * layer.model.sequence,
        brief(layer.whole), brief(layer.attention), share(its.outside_attention),
        share(its.attention));
  }
}

// A device file: what [[datacenter]] device = "FILE" reads.
std::string device_text(const cluster::Device& device, const std::string& machine,
                        const RooflineOptions& options) {
  return fmt::format(
      "# Measured by: tombolo roofline --threads {} --ranks {} --hidden {}\n# on {}.\n# In a job, "
      "next to this "
      "file: device = \"{}\"\n{}",
      options.threads, options.ranks, fmt::join(options.hidden, ","), machine,
      std::string_view(options.out).substr(options.out.rfind('/') + 1),
      to_toml(write_fields(device)));
}

}  // namespace

Status roofline(const RooflineOptions& options, std::ostream& out) {
  if (!options.out.ends_with(".toml")) {
    return unusable(fmt::format("--out {}: a job recognises a device file by .toml", options.out),
                    fmt::format("--out {}.toml", options.out));
  }
  for (const int64_t hidden : options.hidden) {
    if (hidden % 64 == 0) continue;
    return unusable(fmt::format("--hidden {}: not a multiple of 64", hidden),
                    fmt::format("--hidden {}", (hidden + 63) / 64 * 64));
  }
  std::cerr << fmt::format("measuring products, memory and layers for about {}\n",
                           brief(options.time));
  const double cores = cpu_limit();
  if (options.threads == 1 && cores < 1)
    std::cerr << fmt::format("note: this process may use {:.2f} of a core, and rates are of that\n",
                             cores);
  const std::vector<plan::DeviceRates> ranks =
      TRY(profile::measure_devices({.threads = options.threads,
                                    .ranks = options.ranks,
                                    .hidden = options.hidden,
                                    .budget = options.time,
                                    .worker_program = options.worker}));
  // Devices of two hosts have two names in a job that has both.
  const cluster::Device device =
      cost::device_from_rates(ranks, std::filesystem::path(options.out).stem().string());
  const FlopsPerSecond product = cost::fastest_product(ranks);
  if (device.peak > product) {
    std::cerr << fmt::format(
        "note: a layer reached {}, its products {}: the peak is the layer's; measure again while "
        "the machine does nothing else\n",
        brief(device.peak), brief(product));
  }
  const std::string machine = profile::machine_name();
  TRY(write_file(options.out, device_text(device, machine, options)));
  if (options.json) {
    Value::Array measured;
    for (const plan::DeviceRates& rank : ranks) measured.push_back(write_fields(rank));
    command::print_json(out, {{"machine", machine},
                              {"device", write_fields(device)},
                              {"ranks", std::move(measured)},
                              {"device_file", options.out}});
    return {};
  }
  out << fmt::format("measured on {}, {} with {}\n", machine,
                     options.ranks == 1 ? "a rank" : fmt::format("{} ranks", options.ranks),
                     options.threads == 1 ? "one thread each, by its CPU time"
                                          : fmt::format("{} threads each", options.threads));
  print_rank(out, ranks.front(), device.peak);
  out << fmt::format(
      "device: peak {}, efficiency {:.2f}, attention {:.2f}, memory {} at {:.1f} GB/s\n",
      brief(device.peak), device.efficiency, device.attention_efficiency, brief(device.memory),
      device.memory_bandwidth / 1_GBps);
  out << "device file: " << options.out << "\n";
  return {};
}

command::Command add_roofline(CLI::App& app) {
  auto options = std::make_shared<RooflineOptions>();
  CLI::App* words = command::add_command(
      app, {"roofline", command::kTraining,
            "measure this processor in seconds, as a device that jobs can name",
            "tombolo roofline --hidden 64,128 --out cpu.toml"});
  command::heading(words, "What is measured");
  words
      ->add_option("--hidden", options->hidden,
                   "sizes of the layers: narrow ones reach less, so name those that you train")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->check(CLI::Range(32, 32768));
  words->add_option("--ranks", options->ranks, "that measure at once, as on one host of a run")
      ->check(CLI::Range(1, 1024));
  command::add_threads(words, options->threads, 1);
  command::add_time(words, "--seconds", options->time, "of timing, about", 100_ms, 3600_s);
  command::add_worker(words, options->worker);
  command::heading(words, command::kComesOut);
  words->add_option("--out", options->out, "device file to write (TOML)")->type_name("FILE");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return roofline(*options, out); }};
}

}  // namespace tombolo::perform_commands
