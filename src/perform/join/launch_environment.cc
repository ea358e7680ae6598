#include "perform/join/launch_environment.h"

#include <charconv>
#include <string_view>

extern char** environ;

namespace tombolo::join {
namespace {

constexpr int64_t kRanksMax = 1'000'000;

// A launcher and the names of its variables.
struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local;
};
constexpr Names kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Names kOpenMpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Names kSlurmStep{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"};
constexpr Names kSlurmOldStep{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};
constexpr Names kByHand{"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK"};

std::optional<std::string_view> find(const Environment& environment, std::string_view name) {
  const auto at = environment.find(name);
  if (at == environment.end()) return std::nullopt;
  return at->second;
}

Result<std::optional<int64_t>> number(const Environment& environment, const char* name,
                                      int64_t max = kRanksMax) {
  const auto text = find(environment, name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0 || value > max) {
    return unusable(fmt::format("{} = \"{}\" is not a number between 0 and {}", name, *text, max),
                    "starting all ranks with one launcher, or unsetting the variable");
  }
  return value;
}

// What one launcher says; nothing if it says nothing at all.
Result<std::optional<LaunchedRank>> read(const Environment& environment, const Names& names) {
  const auto rank = TRY(number(environment, names.rank));
  const auto size = TRY(number(environment, names.size));
  const auto local = TRY(number(environment, names.local));
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    const char* there = rank ? names.rank : names.size;
    return unusable(fmt::format("{} = {} is set, but {} is not", there, rank ? *rank : *size,
                                rank ? names.size : names.rank),
                    fmt::format("setting both, or unsetting {}", there));
  }
  if (*rank >= *size) {
    return unusable(
        fmt::format("{} = {} does not lie below {} = {}", names.rank, *rank, names.size, *size),
        fmt::format("ranks are numbered from 0 to {}", *size - 1));
  }
  return LaunchedRank{.launcher = names.launcher,
                      .rank = static_cast<int32_t>(*rank),
                      .ranks = static_cast<int32_t>(*size),
                      .local_rank = static_cast<int32_t>(local.value_or(*rank))};
}

// A step of several tasks. The batch script and the shell of an allocation have no step, or one
// that is numbered from the end (slurm.h: SLURM_INTERACTIVE_STEP and others, from 0xfffffff0).
Result<std::optional<LaunchedRank>> read_slurm(const Environment& environment, const Names** used) {
  *used = find(environment, kSlurmStep.size) ? &kSlurmStep : &kSlurmOldStep;
  const auto step = TRY(number(environment, "SLURM_STEP_ID", 0xffffffff));
  if (!step || *step >= 0xfffffff0 || !find(environment, (*used)->rank)) return std::nullopt;
  auto launched = TRY(read(environment, **used));
  if (launched && launched->ranks == 1) return std::nullopt;
  return launched;
}

// RANK and WORLD_SIZE, set in addition to the variables of a launcher that has its own, must agree
// with these.
Status check_agrees(const Environment& environment, const LaunchedRank& launched,
                    const Names& names) {
  const struct {
    const char* by_hand;
    const char* theirs;
    int64_t value;
  } pairs[] = {{kByHand.rank, names.rank, launched.rank},
               {kByHand.size, names.size, launched.ranks}};
  for (const auto& pair : pairs) {
    const auto value = TRY(number(environment, pair.by_hand));
    if (!value || *value == pair.value) continue;
    return unusable(
        fmt::format("{} = {} contradicts {} = {}", pair.by_hand, *value, pair.theirs, pair.value),
        fmt::format("unset RANK WORLD_SIZE: {} numbers the ranks", names.launcher));
  }
  return {};
}

Status add_rendezvous(const Environment& environment, LaunchedRank& launched) {
  if (const auto host = find(environment, "MASTER_ADDR")) launched.rendezvous_host = *host;
  auto port = TRY(number(environment, "MASTER_PORT", 65535));
  if (!port) return {};
  if (launched.launcher == kTorchrun.launcher &&
      find(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True") {
    if (++*port > 65535) {
      return unusable("MASTER_PORT = 65535 leaves no port after that of torchrun's own store",
                      "torchrun --master-port with a smaller number");
    }
  }
  launched.rendezvous_port = static_cast<uint16_t>(*port);
  return {};
}

}  // namespace

Environment environment_of_process() {
  Environment out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    out[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return out;
}

Result<std::optional<LaunchedRank>> launched_rank(const Environment& environment) {
  std::optional<LaunchedRank> launched;
  if (find(environment, "TORCHELASTIC_RUN_ID")) {
    launched = TRY(read(environment, kTorchrun));
  } else {
    const Names* names = &kOpenMpi;
    launched = TRY(read(environment, kOpenMpi));
    if (!launched) launched = TRY(read_slurm(environment, &names));
    if (launched) TRY(check_agrees(environment, *launched, *names));
    if (!launched) launched = TRY(read(environment, kByHand));
  }
  if (launched) TRY(add_rendezvous(environment, *launched));
  return launched;
}

}  // namespace tombolo::join
