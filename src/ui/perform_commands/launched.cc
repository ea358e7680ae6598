#include "ui/perform_commands/launched.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "perform/join/job_terms.h"
#include "perform/run/worker_placement.h"
#include "ui/command/input.h"

namespace tombolo::perform_commands {
namespace {

// Most mistakes are met by all ranks. Rank 0 says what is wrong and ends, or rank 1 where the
// numbers themselves are wrong, and 0 is right by chance. Then the launcher ends the others, which
// say it only where that does not happen. torchrun looks every 5 s.
constexpr std::chrono::milliseconds kRankOneSpeaks{500};
constexpr std::chrono::milliseconds kOthersSpeak{6000};

// Which number the launcher gave, even where it is contradicted.
int64_t number_given(const join::Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    const auto at = environment.find(name);
    if (at != environment.end()) return std::atoll(at->second.c_str());
  }
  return 0;
}

// Of a path that was given; workers may be started elsewhere.
std::string absolute(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

// This host's folder for checkpoints: as it was told, or as its own job file says.
std::string own_checkpoints(const TrainOptions& options, const plan::Plan& plan) {
  if (!options.checkpoints.empty() || !plan.checkpoint) return options.checkpoints;
  return plan.checkpoint->directory;
}

std::string how_to_start(const std::string& launcher, size_t ranks) {
  if (launcher == "Open MPI") return fmt::format("mpirun -n {} tombolo train JOB", ranks);
  if (launcher == "Slurm") return fmt::format("srun -n {} tombolo train JOB", ranks);
  if (launcher == "torchrun") {
    return fmt::format("torchrun --no_python --nproc_per_node {} tombolo train JOB", ranks);
  }
  return fmt::format("WORLD_SIZE={0}, and {0} processes with RANK from 0", ranks);
}

Result<join::ListenAddress> wanted_address(const TrainOptions& options) {
  join::ListenAddress wanted{.listen = options.listen, .advertised = options.advertise};
  if (!options.ports.empty()) {
    wanted.ports = TRY(during(transport::parse_ports(options.ports), "reading --ports"));
  }
  return wanted;
}

}  // namespace

Result<std::optional<join::LaunchedRank>> find_launched_rank() {
  const join::Environment environment = join::environment_of_process();
  auto launched = join::launched_rank(environment);
  if (!launched) {
    const int64_t rank = number_given(environment);
    if (rank > 0) std::this_thread::sleep_for(rank == 1 ? kRankOneSpeaks : kOthersSpeak);
  }
  return launched;
}

Status check_size(const plan::Plan& plan, const join::LaunchedRank& launched) {
  if (plan.ranks.size() == static_cast<size_t>(launched.ranks)) return {};
  return unusable(fmt::format("{} started {} rank{}, and the Plan has {}", launched.launcher,
                              launched.ranks, launched.ranks == 1 ? "" : "s", plan.ranks.size()),
                  how_to_start(launched.launcher, plan.ranks.size()));
}

join::Security security_of(const TrainOptions& options, const join::LaunchedRank& launched,
                           const std::optional<cluster::Islands>& islands) {
  join::Security security{options.credentials, options.plain_tcp};
  if (security.reaches_other_hosts() || islands) return security;
  const std::string own = trust::default_directory();
  if (!trust::has_credentials(own)) return security;
  std::string host = launched.rendezvous_host;
  if (!options.rendezvous.empty()) {
    const auto at = transport::parse_address(options.rendezvous);
    host = at ? at->host : "";
  }
  // All ranks answer this alike, also those of the host where they meet.
  const auto address = host.empty() ? Result<std::string>("127.0.0.1") : transport::resolve(host);
  if (address && !transport::is_loopback(*address)) security.credentials = own;
  return security;
}

Result<run::Rendezvous> rendezvous(const TrainOptions& options, const join::LaunchedRank& launched,
                                   const std::optional<cluster::Islands>& islands) {
  run::Rendezvous out;
  out.at = TRY(join::rendezvous_address(options.rendezvous, launched, islands,
                                        security_of(options, launched, islands)));
  const join::ListenAddress wanted = TRY(wanted_address(options));
  if (!islands) {
    out.listen = TRY(launched.rank == 0 ? join::coordinator_address(out.at, wanted)
                                        : join::rank_address(out.at, wanted));
  }
  out.token = TRY(join::token_of_environment());
  out.join_max = round_to_ns(options.join_timeout);
  return out;
}

Result<control::LeaseTerms> terms_of(const TrainOptions& options) {
  std::optional<Seconds> lease;
  if (!options.lease.empty())
    lease = TRY(during(parse_quantity<Seconds>(options.lease), "reading --lease"));
  return run::lease_terms(lease,
                          TRY(during(parse_quantity<Seconds>(options.grace), "reading --grace")));
}

Result<run::WorkerStart> worker_start(const TrainOptions& options,
                                      const join::LaunchedRank& launched) {
  const plan::Plan plan = TRY(command::load_plan(options.in));
  TRY(check_size(plan, launched));
  const auto islands = TRY(cluster::islands_of_environment());
  const run::Rendezvous meeting = TRY(rendezvous(options, launched, islands));
  run::WorkerPlacement placement = TRY(run::worker_placements_of(plan, islands))[launched.rank];
  if (!islands) placement.at = meeting.listen;
  placement.at.no_inbound = options.no_inbound;
  std::optional<join::ListenAddress> wanted;
  if (!islands) wanted = TRY(wanted_address(options));
  return run::WorkerStart{.program = options.worker.empty()
                                         ? TRY(run::sibling_program("tombolo-worker"))
                                         : options.worker,
                          .rank = launched.rank,
                          .ranks = launched.ranks,
                          .launcher = meeting.at,
                          .placement = std::move(placement),
                          .wanted = std::move(wanted),
                          .security = security_of(options, launched, islands),
                          .token = meeting.token,
                          .token_file = join::token_path(options.out),
                          .output = absolute(options.out),
                          .checkpoints = absolute(own_checkpoints(options, plan)),
                          .job = join::job_terms(plan),
                          .join_max = meeting.join_max,
                          .terms = TRY(terms_of(options)),
                          .child = false};
}

Error join_run(const TrainOptions& options, const join::LaunchedRank& launched) {
  CHECK(launched.rank > 0, "rank {} is the launcher's own process", launched.rank);
  const auto start = worker_start(options, launched);
  if (start) return run::become(run::worker_child(*start));
  std::this_thread::sleep_for(kOthersSpeak);
  return start.error();
}

}  // namespace tombolo::perform_commands
