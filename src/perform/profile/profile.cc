#include "perform/profile/profile.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "perform/run/child_process.h"
#include "perform/run/launcher.h"
#include "perform/stage/measure_link.h"
#include "perform/stage/perform.h"
#include "spec/plan/plan_file.h"

namespace tombolo::profile {
namespace {

constexpr size_t kAnswerMax = 1024 * 1024;  // bytes; 500 repeats of 60 times take half of it

// A folder for the Plan that the workers read; gone with this object.
class WorkFolder {
 public:
  static Result<WorkFolder> create() {
    std::string path = (std::filesystem::temp_directory_path() / "tombolo-profile.XXXXXX").string();
    if (!mkdtemp(path.data())) {
      return unusable(fmt::format("{}: cannot create a folder: {}", path, std::strerror(errno)),
                      "TMPDIR with a folder that this user may write to");
    }
    return WorkFolder(path);
  }
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder() {
    std::error_code ec;
    if (!path_.empty()) std::filesystem::remove_all(path_, ec);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A worker under way, and the end of the pipe where its answer comes out.
struct Profiler {
  pid_t pid = -1;
  int answer = -1;
};

Result<Profiler> start_profiler(const std::string& program, std::vector<std::string> arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return failed(fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  }
  const auto pid =
      run::spawn({.program = program,
                  .arguments = std::move(arguments),
                  .environment = {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}},
                  .stdout_fd = ends[1]});
  close(ends[1]);
  if (!pid) {
    close(ends[0]);
    return fail(pid.error());
  }
  return Profiler{*pid, ends[0]};
}

// Reads to the end, so that the worker never waits for a full pipe, and then for its exit.
template <class Answer>
Result<Answer> finish(const Profiler& profiler, const std::string& what) {
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(profiler.answer, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0 && text.size() < kAnswerMax) text.append(buffer, static_cast<size_t>(n));
  }
  close(profiler.answer);
  const int status = run::await_exit(profiler.pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const bool unfit = WIFEXITED(status) && WEXITSTATUS(status) == 2;
    return fail({unfit ? ErrorCode::kUnusable : ErrorCode::kFailed,
                 fmt::format("the worker that measured {} did not finish: {}", what,
                             run::describe_exit(status)),
                 {},
                 "its own message above"});
  }
  const std::string name = "the answer of the worker that measured " + what;
  const Value value = TRY(parse_json(text, name));
  return read_fields<Answer>(value, name);
}

// Of all workers, also after an error: none is left behind.
template <class Answer>
Result<std::vector<Answer>> finish_all(const std::vector<Result<Profiler>>& started,
                                       std::string_view what) {
  std::vector<Answer> out;
  std::optional<Error> error;
  for (size_t i = 0; i < started.size(); ++i) {
    auto answer = started[i] ? finish<Answer>(*started[i], fmt::format("{} {}", what, i))
                             : Result<Answer>(fail(started[i].error()));
    if (answer) {
      out.push_back(*answer);
    } else if (!error) {
      error = answer.error();
    }
  }
  if (error) return fail(std::move(*error));
  return out;
}

Result<std::vector<StageProfile>> profile_stages(const plan::Plan& plan, const std::string& program,
                                                 Seconds budget) {
  const WorkFolder folder = TRY(WorkFolder::create());
  const std::string plan_path = folder.path() + "/plan.json";
  TRY(plan::write_plan(plan_path, plan));
  std::vector<Result<Profiler>> started;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    started.push_back(start_profiler(
        program, {"profile", "--plan", plan_path, "--stage", fmt::format("{}", stage), "--seconds",
                  fmt::format("{}", budget.value)}));
  }
  return finish_all<StageProfile>(started, "stage");
}

Result<std::string> worker_program(const std::string& given) {
  if (!given.empty()) return given;
  return run::sibling_program("tombolo-worker");
}

// A stage is measured once, on this host, and its times are looked up by the name of its device.
Status check_replicas_alike(const plan::Plan& plan) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const std::vector<int32_t> ranks = plan.replicas_of(static_cast<int32_t>(stage));
    const cluster::Device& device = plan.device_of(ranks.front());
    for (const int32_t rank : ranks) {
      const cluster::Device& other = plan.device_of(rank);
      if (other == device) continue;
      return unusable(
          fmt::format(
              "stage {} has replicas on different devices, \"{}\" and \"{}\", and a profile "
              "measures those of this host",
              stage, device.name, other.name),
          "tombolo roofline --out NAME.toml on each host, and device = \"NAME.toml\" in its "
          "datacenter");
    }
  }
  return {};
}

}  // namespace

Result<plan::Hardware> profile_hardware(const plan::Plan& plan, const ProfileOptions& options,
                                        Clock& clock) {
  TRY(run::check_performable(plan));
  TRY(check_replicas_alike(plan));
  const std::string program = TRY(worker_program(options.worker_program));
  plan::Hardware hardware{.machine = machine_name(),
                          .command = options.command,
                          .model = plan.model,
                          .micro_batch = plan.training.micro_batch,
                          .precision = std::string(to_name(plan.training.precision)),
                          .recompute = plan.training.recompute};
  for (const StageProfile& stage : TRY(profile_stages(plan, program, options.budget))) {
    hardware.stages.push_back({.slice = plan.stages[stage.stage].slice,
                               .device = plan.device_of(plan.rank_of(stage.stage, 0)).name,
                               .cost = stage.cost,
                               .samples = stage.samples,
                               .forward_spread = stage.spread.forward,
                               .backward_spread = stage.spread.backward});
  }
  hardware.links = TRY(stage::measure_links(plan, clock));
  return hardware;
}

Status check_overlap(const plan::Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  const cluster::Device& device = plan.device_of(plan.rank_of(0, 0));
  if (device.kind != cluster::DeviceKind::kCpu) {
    return unusable(fmt::format("datacenter \"{}\": device = \"{}\" performs no operators",
                                plan.datacenter_of(plan.rank_of(0, 0)).name, device.name),
                    "device = \"cpu\"");
  }
  if (!p.tensor_per_stage.empty()) {
    return unusable(
        fmt::format(
            "parallelism.tensor_per_stage = [{}]: strands are planned for one tensor degree",
            fmt::join(p.tensor_per_stage, ", ")),
        "tensor = 2, once for each degree");
  }
  if (p.context > 1) {
    return unusable(
        fmt::format("parallelism.context = {}: shards meet within attention, which is one operator "
                    "where it is performed and several where it is planned",
                    p.context),
        "context = 1");
  }
  if (p.tensor == 1) {
    return infeasible("nothing to overlap: parallelism.tensor = 1, so a layer does not communicate",
                      "tensor = 2, or the profile of whole stages, without --overlap");
  }
  return run::check_performable(plan);
}

Result<plan::OverlapSamples> profile_overlap(const plan::Plan& plan,
                                             const ProfileOptions& options) {
  TRY(check_overlap(plan));
  const std::string program = TRY(worker_program(options.worker_program));
  const WorkFolder folder = TRY(WorkFolder::create());
  const std::string plan_path = folder.path() + "/plan.json";
  TRY(plan::write_plan(plan_path, plan));
  const Profiler worker = TRY(start_profiler(program, {"overlap", "--plan", plan_path, "--seconds",
                                                       fmt::format("{}", options.budget.value)}));
  return finish<plan::OverlapSamples>(worker, "operators");
}

Result<std::vector<plan::DeviceRates>> measure_devices(const RooflineOptions& options) {
  CHECK(options.ranks >= 1 && options.threads >= 1, "{} ranks of {} threads", options.ranks,
        options.threads);
  const std::string program = TRY(worker_program(options.worker_program));
  std::vector<Result<Profiler>> started;
  for (int64_t rank = 0; rank < options.ranks; ++rank) {
    started.push_back(
        start_profiler(program, {"roofline", "--threads", fmt::format("{}", options.threads),
                                 "--hidden", fmt::format("{}", fmt::join(options.hidden, ",")),
                                 "--seconds", fmt::format("{}", options.budget.value)}));
  }
  return finish_all<plan::DeviceRates>(started, "rank");
}

std::string machine_name() {
  std::string processor = "unknown processor";
  if (const auto text = read_file("/proc/cpuinfo")) {
    const size_t key = text->find("model name");
    const size_t colon = key == std::string::npos ? key : text->find(':', key);
    if (colon != std::string::npos) {
      processor = text->substr(colon + 2, text->find('\n', colon) - colon - 2);
    }
  }
  return fmt::format("{}, {} cores", processor, std::thread::hardware_concurrency());
}

}  // namespace tombolo::profile
