#include "ui/perform_commands/prompt_gaps.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <set>
#include <utility>

#include "perform/weights/weight_folder.h"
#include "predict/cost/prefill_time.h"
#include "steer/prefill/rank_windows.h"
#include "ui/command/input.h"

namespace tombolo::perform_commands {
namespace {

constexpr int64_t kIterations = 4;  // fewer have no period between two that have settled

void say_to_ranks(const join::RunPrompts& prompts) {
  setenv(join::kPromptsVariable, join::to_text(prompts).c_str(), 1);
}

Status check_emulated(const TrainOptions& options, const plan::Plan& plan) {
  const std::string asked = fmt::format("--prompt-load {}", options.prompt_load);
  if (!plan.prefill) {
    return unusable(asked + ": the job says no model of prompts",
                    "[prefill] with model = \"llama3-8b\" and memory = \"16.1 GB\"");
  }
  if (options.prompt_load > plan.prefill->model.sequence) {
    return unusable(fmt::format("{}: {} takes prompts of up to {}", asked, plan.prefill->model.name,
                                plan.prefill->model.sequence));
  }
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const cluster::Device& device = plan.device_of(static_cast<int32_t>(rank));
    if (device.kind == cluster::DeviceKind::kEmulated) continue;
    return unusable(
        fmt::format("{}: device = \"{}\" computes, and would only wait", asked, device.name),
        "--prompt-weights, or devices that are emulated");
  }
  return {};
}

std::string as_asked(const std::vector<int32_t>& pipeline) {
  return fmt::format("--prompt-ranks {}", fmt::join(pipeline, ","));
}

// Of one pipeline; `seen` has the ranks of those before.
Status check_ranks(const plan::Plan& plan, const std::vector<int32_t>& answering,
                   std::set<int32_t>& seen) {
  const std::string asked = as_asked(answering);
  const auto ranks = static_cast<int32_t>(plan.ranks.size());
  for (const int32_t rank : answering) {
    if (rank < 0 || rank >= ranks) {
      return unusable(fmt::format("{}: the Plan has {} ranks", asked, ranks),
                      fmt::format("0 to {}", ranks - 1));
    }
    if (!seen.insert(rank).second)
      return unusable(fmt::format("{}: rank {} stands there twice", asked, rank));
    const std::string &first = plan.datacenter_of(answering.front()).name,
                      &here = plan.datacenter_of(rank).name;
    if (first == here) continue;
    return unusable(
        fmt::format("{}: rank {} is in {} and rank {} in {}; hidden states of every token "
                    "would cross the WAN",
                    asked, answering.front(), first, rank, here),
        "ranks of one datacenter");
  }
  return {};
}

// Checks what each of the ranks needs in addition to training: weights of its layers, in float32, and
// keys and values.
Status check_memory(const TrainOptions& options, const plan::Plan& plan,
                    const std::vector<int32_t>& ranks, int64_t kv_bytes,
                    const model::Model& model) {
  const auto shards = std::ssize(ranks);
  for (int64_t i = 0; plan.prefill && i < shards; ++i) {
    const Bytes weights{4 * real(model::parameters(model, model::stage_slice(model, shards, i)))};
    const Bytes kept{real(kv_bytes)};
    if ((weights + kept) <= plan.prefill->memory) continue;
    return unusable(
        fmt::format("[prefill] memory = \"{}\" for prompts on each rank: {} of weights on rank {} "
                    "and --prompt-memory {} do not fit",
                    format(plan.prefill->memory), brief(weights), ranks[static_cast<size_t>(i)],
                    options.prompt_memory),
        fmt::format("memory = \"{}\", less --prompt-memory, or more --prompt-ranks",
                    brief(weights + kept)));
  }
  return {};
}

Status check_shards(const TrainOptions& options, const plan::Plan& plan,
                    const join::RunPrompts& prompts) {
  std::set<int32_t> seen;
  for (const auto& ranks : prompts.pipelines) TRY(check_ranks(plan, ranks, seen));
  const weights::WeightFolder folder = TRY(weights::WeightFolder::open(options.prompt_weights));
  const model::Model& model = folder.config().model;
  for (const auto& ranks : prompts.pipelines) {
    if (std::ssize(ranks) > model.layers) {
      return unusable(
          fmt::format("{}: {} ranks for {} layers", as_asked(ranks), ranks.size(), model.layers),
          fmt::format("at most {}", model.layers));
    }
    TRY(check_memory(options, plan, ranks, prompts.kv_bytes, model));
  }
  return {};
}

// "1,3": ranks of a pipeline.
Result<std::vector<int32_t>> parse_pipeline(const std::string& text) {
  std::vector<int32_t> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    const auto [behind, error] = std::from_chars(at, end, ranks.emplace_back());
    if (error != std::errc() || ranks.back() < 0 || (behind != end && *behind != ',')) {
      return unusable(fmt::format("--prompt-ranks {}: no ranks, such as 1,3", text),
                      "ranks with commas between them; the option again for another pipeline");
    }
    if (behind == end) return ranks;
    at = behind + 1;
  }
}

// On the device of the first rank, for all ranks.
Result<join::PromptLoad> load_of(const TrainOptions& options, const plan::Plan& plan) {
  const auto here = std::ranges::find(plan.cluster.datacenters, plan.ranks.front().datacenter,
                                      &cluster::Datacenter::name);
  CHECK(here != plan.cluster.datacenters.end(), "no datacenter {}", plan.ranks.front().datacenter);
  const cost::PrefillTime time = TRY(cost::prefill_time(
      plan.prefill->model, *here, cost::ShardHop::kScaleOut, options.prompt_load));
  return join::PromptLoad{.tokens = options.prompt_load,
                          .layers = plan.prefill->model.layers,
                          .layer_ns = std::max<int64_t>(round_to_ns(time.layer).ns, 1),
                          .ends_ns = round_to_ns(time.ends).ns};
}

}  // namespace

Result<std::optional<join::RunPrompts>> place_prompts(const TrainOptions& options) {
  if (options.prompt_weights.empty() && options.prompt_load == 0) return std::nullopt;
  if (!options.prompt_weights.empty() && options.prompt_load > 0)
    return unusable("--prompt-weights and --prompt-load: one of both");
  if (options.prompt_load == 0) {
    TRY(during(weights::WeightFolder::open(options.prompt_weights),
               "reading the weights of --prompt-weights"));
  }
  const Bytes memory =
      TRY(during(parse_quantity<Bytes>(options.prompt_memory), "reading --prompt-memory"));
  const Seconds piece =
      TRY(during(parse_quantity<Seconds>(options.prompt_piece), "reading --prompt-piece"));
  if (!(memory.value >= 1 && memory.value <= 1e15 && piece.value > 0 && piece.value <= 10)) {
    return unusable(fmt::format("--prompt-memory {} --prompt-piece {}: out of range",
                                options.prompt_memory, options.prompt_piece),
                    "--prompt-memory \"1 GiB\" --prompt-piece \"5 ms\"");
  }
  std::vector<std::vector<int32_t>> pipelines;
  for (const std::string& text : options.prompt_ranks)
    pipelines.push_back(TRY(parse_pipeline(text)));
  join::RunPrompts prompts{.pipelines = std::move(pipelines),
                           .weights = options.prompt_weights,
                           .socket = options.prompt_socket.empty() ? options.out + "/prompts.socket"
                                                                   : options.prompt_socket,
                           .kv_bytes = static_cast<int64_t>(memory.value),
                           .piece_ns = round_to_ns(piece).ns};
  say_to_ranks(prompts);
  return prompts;
}

Status place_gaps(const TrainOptions& options, const plan::Plan& plan, join::RunPrompts& prompts) {
  if (plan.batch_changes()) {
    return unusable(
        fmt::format(
            "{}: parallelism.adaptive_batch = true and {}: which prompts fit is counted for "
            "certain numbers of microbatches",
            options.in.input, options.prompt_load > 0 ? "--prompt-load" : "--prompt-weights"),
        "adaptive_batch = false, or no prompts");
  }
  const bool load = options.prompt_load > 0;
  if (!load) TRY(check_shards(options, plan, prompts));
  if (load) {
    TRY(check_emulated(options, plan));
    prompts.load = TRY(load_of(options, plan));
  }
  if (plan.prefill) {
    prompts.guard_ns = round_to_ns(plan.prefill->guard).ns;
    prompts.within_ns = round_to_ns(plan.prefill->ttft_max).ns;
  }
  const sim::Simulation steady = TRY(command::predict(
      plan, {.iterations = kIterations}, command::command_line("simulate", options.in)));
  std::vector<prefill::RankPlan> plans = TRY(prefill::rank_plans(steady.trace));
  for (int32_t rank = 0; rank < std::ssize(plans); ++rank) {
    const bool answers = load || join::pipeline_of(prompts, rank);
    if (!answers || plans[rank].computations.empty()) continue;
    prompts.gaps.push_back({rank, std::move(plans[rank])});
  }
  say_to_ranks(prompts);
  return {};
}

std::optional<PromptUse> prompt_use(const trace::Trace& trace) {
  PromptUse use;
  std::set<int32_t> ranks;
  for (const trace::Record& each : trace.records) {
    if (each.name == "prompts_s") ranks.insert(each.rank), use.layers_s += each.value;
    if (each.name == "prompt_layers") use.layers += static_cast<int64_t>(each.value);
    if (each.name == "prompt_holds") use.holds += static_cast<int64_t>(each.value);
    if (each.name == "prompt_held_s") use.held_s += each.value;
    if (each.name == "prompt_held_max_s") use.held_max_s = std::max(use.held_max_s, each.value);
    if (each.name == "prompt_guard_s") use.guard_s = std::max(use.guard_s, each.value);
  }
  if (ranks.empty()) return std::nullopt;
  use.ranks = std::ssize(ranks);
  SimTime begin{std::numeric_limits<int64_t>::max()}, end;
  double computed_s = 0;
  for (const trace::Interval& each : trace.intervals) {
    if (each.lane != trace::Lane::kCompute || each.iteration < 1) continue;
    begin = std::min(begin, each.start);
    end = std::max(end, each.end);
    if (ranks.contains(each.rank)) computed_s += seconds(each.end - each.start).value;
  }
  if (end <= begin) return use;
  const double all = seconds(end - begin).value * real(use.ranks);
  use.training_share = computed_s / all;
  use.prompt_share = use.layers_s / all;
  use.held_share = use.held_s / all;
  return use;
}

std::string to_line(const PromptUse& use, trace::Provenance provenance) {
  return fmt::format(
      "  prompts: {} layers on {} rank{} for {:.1f} % of the time, training {:.1f} %, {}; training "
      "waited for {} of them, {:.2f} % of the time, {} at most",
      use.layers, use.ranks, use.ranks == 1 ? "" : "s", 100 * use.prompt_share,
      100 * use.training_share, to_name(provenance), use.holds, 100 * use.held_share,
      brief(Seconds{use.held_max_s}));
}

Value to_value(const PromptUse& use) {
  return Value::Table{{"ranks", use.ranks},
                      {"layers", use.layers},
                      {"layers_s", use.layers_s},
                      {"training_share", use.training_share},
                      {"prompt_share", use.prompt_share},
                      {"holds", use.holds},
                      {"held_s", use.held_s},
                      {"held_max_s", use.held_max_s},
                      {"held_share", use.held_share},
                      {"guard_s", use.guard_s}};
}

}  // namespace tombolo::perform_commands
