// What a launcher needs for very many ranks: how long until all have joined over TLS, and how much
// of a core it takes while they beat four times a second and report their links once a second.
//
//   control_bench [--ranks 1000] [--seconds 30] [--plain]
//
// The launcher is the real one, in a process of its own; this process drives every rank's half of
// the conversation, without kernels and without links to neighbours. Prints one line of JSON.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <future>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "perform/control/coordinator.h"
#include "perform/join/control_message.h"
#include "perform/join/listen_address.h"
#include "perform/run/child_process.h"
#include "perform/run/launcher.h"
#include "perform/transport/endpoint.h"
#include "perform/trust/authority.h"
#include "support/test_plan.h"

using namespace tombolo;
using namespace tombolo::join;
using namespace tombolo::run;

namespace {

struct Options {
  int ranks = 1000;
  double seconds = 30;
  bool tls = true;
  uint16_t port = 0;
};

// Rank 0's process would be the launcher's child: here it is one that does nothing.
class NoProcesses final : public Processes {
 public:
  Result<pid_t> spawn(const ChildOptions&) override {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) pause();
    }
    return child;
  }
  void await_end(pid_t child) override { system_processes().await_end(child); }
  int await_exit(pid_t child) override { return system_processes().await_exit(child); }
  void signal(pid_t child, int number) override { system_processes().signal(child, number); }
};

SimTime in(double s, const Clock& clock) {
  return clock.now() + SimDuration{static_cast<int64_t>(s * 1e9)};
}

int be_the_launcher(const Options& options, const std::string& folder, const link::Token& token,
                    const Security& security) {
  SystemClock clock;
  NoProcesses processes;
  const plan::Plan plan = make_test_plan({.replicas = options.ranks / 2, .steps = 1000});
  const auto done =
      run::launch(plan,
                  {.output = folder + "/run",
                   .worker_program = "/bin/true",
                   .rendezvous = Rendezvous{.at = {"127.0.0.1", options.port},
                                            .token = token,
                                            .join_max = {120'000'000'000}},
                   .security = security,
                   .log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); },
                   .processes = &processes},
                  clock);
  if (!done) fmt::print(stderr, "launcher: {}\n", done.error().text());
  return 0;
}

// One rank's half: answers until the launcher says go, then beats and reports.
struct Rank {
  std::unique_ptr<transport::Endpoint> endpoint;
  control::Member member{control::LeaseTerms{}};
  bool started = false, going = false;
};

Status answer(Rank& rank, int32_t launcher, const ControlMessage& message, const Clock& clock) {
  const auto say = [&](const ControlMessage& words) {
    return rank.endpoint->send(launcher, kControlTag, encode(words));
  };
  if (const auto* lease = std::get_if<LeaseGrant>(&message)) {
    const bool knew = rank.member.epoch() > 0;
    rank.member.answered(lease->grant, clock.now());
    if (!knew && rank.member.epoch() > 0) return say(BeatReport{rank.member.beat(clock.now())});
    return {};
  }
  if (std::holds_alternative<state::Survey>(message)) return say(state::Inventory{});
  if (std::holds_alternative<Start>(message)) {
    rank.started = true;
    return say(Ready{});
  }
  if (std::holds_alternative<Go>(message)) rank.going = true;
  if (const auto* stop = std::get_if<Stop>(&message)) return failed("stopped: " + stop->reason);
  return {};
}

Status listen_to(std::vector<Rank>& ranks, int32_t launcher, const Clock& clock) {
  for (Rank& rank : ranks) {
    if (!rank.endpoint) continue;
    while (true) {
      const auto received = rank.endpoint->receive(launcher, kControlTag, clock.now());
      if (!received) {
        if (received.error().code == ErrorCode::kLostPeer) return fail(received.error());
        break;
      }
      TRY(answer(rank, launcher, TRY(decode(received->payload)), clock));
    }
  }
  return {};
}

double cpu_seconds(pid_t process) {
  std::FILE* file = std::fopen(fmt::format("/proc/{}/stat", process).c_str(), "r");
  CHECK(file, "no process {}", process);
  char name[256];
  long user = 0, system = 0;
  const int read = std::fscanf(
      file, "%*d %255s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", name, &user, &system);
  std::fclose(file);
  CHECK(read == 3, "no times of process {}", process);
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

Status drive(const Options& options, pid_t launcher_process, const link::Token& token,
             const std::optional<trust::Credentials>& papers) {
  SystemClock clock;
  const auto launcher = static_cast<int32_t>(options.ranks);
  std::vector<Rank> ranks(static_cast<size_t>(options.ranks));
  const control::LeaseTerms terms;
  const SimTime begun = clock.now();
  // Sixteen dial at a time, as hosts do that were started together.
  std::atomic<int32_t> next = 0;
  const auto join = [&]() -> Status {
    for (int32_t r = next++; r < launcher; r = next++) {
      transport::Endpoint::Options door{
          .identity = {.rank = r, .ranks = launcher + 1, .token = token}, .credentials = papers};
      outlive_cuts(door, terms);
      Rank& rank = ranks[static_cast<size_t>(r)];
      rank.endpoint = TRY(transport::Endpoint::create(std::move(door), clock));
      TRY(rank.endpoint->connect(launcher, "127.0.0.1", options.port, {}, in(100, clock)));
      TRY(rank.endpoint->send(launcher, kControlTag,
                              encode(BeatReport{rank.member.beat(clock.now())})));
      const std::string address = fmt::format("127.0.0.1:{}", rank.endpoint->port());
      TRY(rank.endpoint->send(launcher, kControlTag, encode(Hello{getpid(), address, 2})));
    }
    return {};
  };
  std::vector<std::future<Status>> joining;
  for (int i = 0; i < 16; ++i) joining.push_back(std::async(std::launch::async, join));
  for (auto& each : joining) TRY(each.get());
  const double connected = seconds(clock.now() - begun).value;
  const SimTime patience = in(100, clock);
  const auto all = [&](bool Rank::*what) {
    return std::all_of(ranks.begin(), ranks.end(), [&](const Rank& rank) { return rank.*what; });
  };
  const auto beat_all = [&]() -> Status {
    for (Rank& rank : ranks) {
      if (clock.now() < rank.member.next_beat()) continue;
      TRY(rank.endpoint->send(launcher, kControlTag,
                              encode(BeatReport{rank.member.beat(clock.now())})));
    }
    return {};
  };
  while (!all(&Rank::going)) {
    if (clock.now() > patience) return failed("they did not all come to work in time");
    TRY(listen_to(ranks, launcher, clock));
    TRY(beat_all());
  }
  const double joined = seconds(clock.now() - begun).value;

  // A report has the links to two neighbours of a pipeline and two of a ring.
  LinksReport report;
  report.links.resize(4);
  for (observe::LinkReport& link : report.links) link.link.connections.resize(4);
  const auto words = encode(report);
  const double cpu_before = cpu_seconds(launcher_process);
  const SimTime from = clock.now();
  const SimTime end = in(options.seconds, clock);
  SimTime report_at = clock.now();
  int64_t reports = 0;
  while (clock.now() < end) {
    TRY(beat_all());
    TRY(listen_to(ranks, launcher, clock));
    if (clock.now() >= report_at) {
      report_at = report_at + SimDuration{1'000'000'000};
      ++reports;
      for (Rank& rank : ranks) TRY(rank.endpoint->send(launcher, kControlTag, words));
    }
    clock.sleep_until(in(0.02, clock));
  }
  const double lasted = seconds(clock.now() - from).value;
  const double cores = (cpu_seconds(launcher_process) - cpu_before) / lasted;
  fmt::print(
      "{{\"ranks\": {}, \"tls\": {}, \"connected_s\": {:.2f}, \"joined_s\": {:.2f}, \"seconds\": "
      "{:.1f}, \"reports_per_rank\": {}, \"report_bytes\": {}, \"launcher_cores\": {:.3f}}}\n",
      options.ranks, options.tls, connected, joined, lasted, reports, words.size(), cores);
  return {};
}

Status bench(Options options) {
  allow_many_files();
  const std::string folder =
      fmt::format("{}/control_bench.{}", std::filesystem::temp_directory_path().string(), getpid());
  std::filesystem::create_directories(folder);
  Security security;
  std::optional<trust::Credentials> papers;
  if (options.tls) {
    const trust::WallTime now = trust::wall_time();
    const auto authority = TRY(trust::Authority::create(now));
    papers = TRY(authority.issue("bench", trust::host_validity(now)));
    security.credentials = folder + "/credentials";
    TRY(trust::save_credentials(security.credentials, *papers));
  }
  const link::Token token = TRY(link::Token::random());
  // A free port, let go again.
  {
    SystemClock clock;
    options.port =
        TRY(transport::Endpoint::create({.identity = {.ranks = 1, .token = token}}, clock))->port();
  }
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(be_the_launcher(options, folder, token, security));
  }
  const Status driven = drive(options, child, token, papers);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  std::filesystem::remove_all(folder);
  return driven;
}

}  // namespace

int main(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--plain") options.tls = false;
    if (word == "--ranks" && i + 1 < count) options.ranks = std::stoi(words[++i]) / 2 * 2;
    if (word == "--seconds" && i + 1 < count) options.seconds = std::stod(words[++i]);
  }
  const Status done = bench(options);
  if (!done) fmt::print(stderr, "control_bench: {}\n", done.error().text());
  return done ? 0 : 1;
}
