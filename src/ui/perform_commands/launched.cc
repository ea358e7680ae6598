#include "ui/perform_commands/launched.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "perform/launch/berths.h"
#include "perform/launch/job_terms.h"
#include "ui/command/input.h"

namespace tombolo::perform_commands {
namespace {

// Most mistakes are met by all ranks. Rank 0 says what is wrong and ends, or rank 1 where the
// numbers themselves are wrong, and 0 is right by chance. Then the launcher ends the others, which
// say it only where that does not happen. torchrun looks every 5 s.
constexpr std::chrono::milliseconds kRankOneSpeaks{500};
constexpr std::chrono::milliseconds kOthersSpeak{6000};

// Which number the launcher gave, even where it is contradicted.
int64_t number_given(const launch::Environment& environment) {
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

Result<launch::DoorWishes> door_wishes(const TrainOptions& options) {
  launch::DoorWishes wishes{.listen = options.listen, .advertised = options.advertise};
  if (!options.ports.empty()) {
    wishes.ports = TRY(during(transport::parse_ports(options.ports), "reading --ports"));
  }
  return wishes;
}

}  // namespace

Result<std::optional<launch::LaunchedRank>> find_launched_rank() {
  const launch::Environment environment = launch::environment_of_process();
  auto launched = launch::launched_rank(environment);
  if (!launched) {
    const int64_t rank = number_given(environment);
    if (rank > 0) std::this_thread::sleep_for(rank == 1 ? kRankOneSpeaks : kOthersSpeak);
  }
  return launched;
}

Status check_size(const plan::Plan& plan, const launch::LaunchedRank& launched) {
  if (plan.ranks.size() == static_cast<size_t>(launched.ranks)) return {};
  return unusable(fmt::format("{} started {} rank{}, and the Plan has {}", launched.launcher,
                              launched.ranks, launched.ranks == 1 ? "" : "s", plan.ranks.size()),
                  how_to_start(launched.launcher, plan.ranks.size()));
}

launch::Security security_of(const TrainOptions& options, const launch::LaunchedRank& launched,
                             const std::optional<cluster::Islands>& islands) {
  launch::Security security{options.credentials, options.plain_tcp};
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

Result<launch::Rendezvous> rendezvous(const TrainOptions& options,
                                      const launch::LaunchedRank& launched,
                                      const std::optional<cluster::Islands>& islands) {
  launch::Rendezvous out;
  out.at = TRY(launch::rendezvous_address(options.rendezvous, launched, islands,
                                          security_of(options, launched, islands)));
  const launch::DoorWishes wishes = TRY(door_wishes(options));
  if (!islands) {
    out.doors = TRY(launched.rank == 0 ? launch::coordinator_doors(out.at, wishes)
                                       : launch::rank_doors(out.at, wishes));
  }
  out.token = TRY(launch::token_of_environment());
  out.join_max = round_to_ns(Seconds{options.join_timeout});
  return out;
}

Result<control::LeaseTerms> terms_of(const TrainOptions& options) {
  std::optional<Seconds> lease;
  if (!options.lease.empty())
    lease = TRY(during(parse_quantity<Seconds>(options.lease), "reading --lease"));
  return launch::lease_terms(
      lease, TRY(during(parse_quantity<Seconds>(options.grace), "reading --grace")));
}

Result<launch::WorkerStart> worker_start(const TrainOptions& options,
                                         const launch::LaunchedRank& launched) {
  const plan::Plan plan = TRY(command::load_plan(options.in));
  TRY(check_size(plan, launched));
  const auto islands = TRY(cluster::islands_of_environment());
  const launch::Rendezvous meeting = TRY(rendezvous(options, launched, islands));
  launch::Berth berth = TRY(launch::berths_of(plan, islands))[launched.rank];
  if (!islands) {
    berth.address = meeting.doors.listen;
    berth.advertised = meeting.doors.advertised;
    berth.ports = meeting.doors.ports;
  }
  berth.no_inbound = options.no_inbound;
  return launch::WorkerStart{.program = options.worker.empty()
                                            ? TRY(launch::sibling_program("tombolo-worker"))
                                            : options.worker,
                             .rank = launched.rank,
                             .ranks = launched.ranks,
                             .launcher = meeting.at,
                             .berth = std::move(berth),
                             .security = security_of(options, launched, islands),
                             .token = meeting.token,
                             .token_file = launch::token_path(options.out),
                             .output = absolute(options.out),
                             .checkpoints = absolute(own_checkpoints(options, plan)),
                             .job = launch::job_terms(plan),
                             .join_max = meeting.join_max,
                             .terms = TRY(terms_of(options)),
                             .child = false};
}

Error join_run(const TrainOptions& options, const launch::LaunchedRank& launched) {
  CHECK(launched.rank > 0, "rank {} is the launcher's own process", launched.rank);
  const auto start = worker_start(options, launched);
  if (start) return launch::become(launch::worker_child(*start));
  std::this_thread::sleep_for(kOthersSpeak);
  return start.error();
}

}  // namespace tombolo::perform_commands
