#include "perform/join/run_prompts.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/fields.h"
#include "base/json.h"

namespace tombolo::join {

namespace {

// "0F1 0 1500": the action, when it begins and when it ends, in nanoseconds of the period.
std::string to_word(const prefill::PlannedComputation& each) {
  return fmt::format("{} {} {}", action::to_text(each.action), each.start.ns, each.end.ns);
}

std::optional<prefill::PlannedComputation> parse_word(const std::string& word) {
  std::istringstream in(word);
  std::string name;
  prefill::PlannedComputation out;
  if (!(in >> name >> out.start.ns >> out.end.ns) || !in.eof()) return std::nullopt;
  const auto action = action::parse_action(name);
  if (!action || out.start.ns < 0 || out.end < out.start) return std::nullopt;
  out.action = *action;
  return out;
}

constexpr int64_t kPeriodMax = int64_t{1'000'000'000} * 1'000'000;  // 11 days

}  // namespace

template <class Archive>
void describe(Archive& a, RankGaps& g) {
  a.required("rank", g.rank);
  a.required("period_ns", g.plan.period.ns);
  std::vector<std::string> words;
  if constexpr (!Archive::kReads) {
    for (const auto& each : g.plan.computations) words.push_back(to_word(each));
  }
  a.required("computations", words);
  a.check(g.rank >= 0, "rank", "must not be negative");
  a.check(g.plan.period.ns > 0 && g.plan.period.ns <= kPeriodMax, "period_ns",
          "must lie between 1 and 1000000000000000");
  if constexpr (Archive::kReads) {
    a.check(!words.empty(), "computations", "must name one");
    for (const std::string& word : words) {
      const auto each = parse_word(word);
      const bool fits =
          each && each->end - each->start <= g.plan.period && each->end.ns <= 2 * kPeriodMax &&
          (g.plan.computations.empty() || each->start >= g.plan.computations.back().start);
      a.check(fits, "computations",
              fmt::format("\"{}\": no computation of a period, or not in order", word),
              "0F1 0 1500");
      if (!fits) return;
      g.plan.computations.push_back(*each);
    }
  }
}

template <class Archive>
void describe(Archive& a, PromptLoad& l) {
  a.required("tokens", l.tokens);
  a.required("layers", l.layers);
  a.required("layer_ns", l.layer_ns);
  a.required("ends_ns", l.ends_ns);
  a.check(l.tokens > 0 && l.layers > 0, "layers", "must be positive");
  a.check(l.layer_ns > 0 && l.layer_ns <= kPeriodMax, "layer_ns", "must be positive");
  a.check(l.ends_ns >= 0 && l.ends_ns <= kPeriodMax, "ends_ns", "must not be negative");
}

template <class Archive>
void describe(Archive& a, RunPrompts& p) {
  a.required("pipelines", p.pipelines);
  a.required("weights", p.weights);
  a.required("socket", p.socket);
  a.required("context", p.context);
  a.required("kv_bytes", p.kv_bytes);
  a.required("requests", p.requests);
  a.required("piece_ns", p.piece_ns);
  std::set<int32_t> seen;
  bool once = !p.pipelines.empty();
  for (const auto& ranks : p.pipelines) {
    once = once && !ranks.empty();
    for (const int32_t rank : ranks) once = once && rank >= 0 && seen.insert(rank).second;
  }
  a.check(once, "pipelines", "must name ranks, each once");
  a.check(p.context >= 0, "context", "must not be negative");
  a.check(p.kv_bytes > 0, "kv_bytes", "must be positive");
  a.check(p.requests > 0, "requests", "must be positive");
  a.check(p.piece_ns > 0 && p.piece_ns <= 10'000'000'000, "piece_ns",
          "must lie between 1 and 10000000000");
  a.required("guard_ns", p.guard_ns);
  a.required("within_ns", p.within_ns);
  a.optional("gaps", p.gaps);
  a.optional("load", p.load);
  a.check(p.guard_ns >= 0 && p.guard_ns <= 10'000'000'000, "guard_ns",
          "must lie between 0 and 10000000000");
  a.check(p.within_ns > 0 && p.within_ns <= 3'600'000'000'000, "within_ns",
          "must lie between 1 and 3600000000000");
}

std::string to_text(const RunPrompts& prompts) {
  RunPrompts fits = prompts;
  std::string text = to_json(write_fields(fits), -1);
  while (text.size() > kPromptsTextMax && !fits.gaps.empty()) {
    fits.gaps.resize(fits.gaps.size() / 2);
    text = to_json(write_fields(fits), -1);
  }
  return text;
}

Result<RunPrompts> parse_run_prompts(const std::string& text) {
  return read_fields<RunPrompts>(TRY(parse_json(text, kPromptsVariable, 0)), kPromptsVariable);
}

Result<std::optional<RunPrompts>> prompts_of_environment() {
  const char* text = std::getenv(kPromptsVariable);
  if (!text) return std::nullopt;
  return TRY(parse_run_prompts(text));
}

std::optional<size_t> pipeline_of(const RunPrompts& prompts, int32_t rank) {
  for (size_t i = 0; i < prompts.pipelines.size(); ++i)
    if (std::ranges::find(prompts.pipelines[i], rank) != prompts.pipelines[i].end()) return i;
  return std::nullopt;
}

std::string socket_of(const RunPrompts& prompts, size_t pipeline) {
  if (pipeline == 0) return prompts.socket;
  const std::filesystem::path path(prompts.socket);
  const std::string name =
      fmt::format("{}-{}{}", path.stem().string(), pipeline, path.extension().string());
  return (path.parent_path() / name).string();
}

std::optional<prefill::RankWindows> windows_of(const RunPrompts& prompts, int32_t rank) {
  const auto found = std::ranges::find(prompts.gaps, rank, &RankGaps::rank);
  if (found == prompts.gaps.end()) return std::nullopt;
  return prefill::RankWindows(found->plan, SimDuration{prompts.guard_ns});
}

}  // namespace tombolo::join
