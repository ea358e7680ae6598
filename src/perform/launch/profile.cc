#include "perform/launch/profile.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/json.h"
#include "perform/launch/child_process.h"
#include "perform/launch/launcher.h"
#include "perform/runtime/measure_link.h"
#include "perform/runtime/perform.h"
#include "spec/plan/plan_file.h"

namespace tombolo::launch {
namespace {

constexpr size_t kAnswerMax = 64 * 1024;  // bytes

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

Result<Profiler> start_profiler(const std::string& program, const std::string& plan_path,
                                int32_t stage, Seconds budget) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return failed(fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  }
  const auto pid =
      spawn({.program = program,
             .arguments = {"profile", "--plan", plan_path, "--stage", fmt::format("{}", stage),
                           "--seconds", fmt::format("{}", budget.value)},
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
Result<StageProfile> finish(const Profiler& profiler, int32_t stage) {
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(profiler.answer, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0 && text.size() < kAnswerMax) text.append(buffer, static_cast<size_t>(n));
  }
  close(profiler.answer);
  const int status = await_exit(profiler.pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const bool unfit = WIFEXITED(status) && WEXITSTATUS(status) == 2;
    return fail({unfit ? ErrorCode::kUnusable : ErrorCode::kFailed,
                 fmt::format("the worker that measured stage {} did not finish: {}", stage,
                             describe_exit(status)),
                 {},
                 "its own message above"});
  }
  const std::string name = fmt::format("the profile of stage {}", stage);
  const Value value = TRY(parse_json(text, name));
  return read_fields<StageProfile>(value, name);
}

Result<std::vector<StageProfile>> profile_stages(const plan::Plan& plan, const std::string& program,
                                                 Seconds budget) {
  const WorkFolder folder = TRY(WorkFolder::create());
  const std::string plan_path = folder.path() + "/plan.json";
  TRY(plan::write_plan(plan_path, plan));
  std::vector<Result<Profiler>> started;
  for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stages.size()); ++stage) {
    started.push_back(start_profiler(program, plan_path, stage, budget));
  }
  std::vector<StageProfile> out;
  std::optional<Error> error;
  for (size_t stage = 0; stage < started.size(); ++stage) {  // all, also after an error
    auto profile = started[stage] ? finish(*started[stage], static_cast<int32_t>(stage))
                                  : Result<StageProfile>(fail(started[stage].error()));
    if (profile) {
      out.push_back(*profile);
    } else if (!error) {
      error = profile.error();
    }
  }
  if (error) return fail(std::move(*error));
  return out;
}

}  // namespace

Result<plan::Hardware> profile(const plan::Plan& plan, const ProfileOptions& options,
                               Clock& clock) {
  TRY(check_performable(plan));
  const std::string program = options.worker_program.empty()
                                  ? TRY(sibling_program("tombolo-worker"))
                                  : options.worker_program;
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
  hardware.links = TRY(runtime::measure_links(plan, clock));
  return hardware;
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

}  // namespace tombolo::launch
