// How far from OpenBLAS's peak is a training step, and what does a model learn?
//
//   train_bench
//     time of forward, backward, update and sum, JSON lines
//   train_bench --job JOB [--data FILE] [--steps N]
//     trains in this process, one line per 10 steps
//   train_bench --time JOB [--data FILE] [--steps N]
//     one JSON line: CPU and clock seconds of N iterations after two, page faults and memory
//
// Sketch for 3.3 million parameters and 4,096 tokens: matrices 6 x 3.2 M x 4,096 = 80 GFLOP,
// attention below the diagonal 9 GFLOP; at 100 GFLOP/s 0.9 s. Everything else reads and writes
// about 60 numbers of hidden size per token and layer each way: 4 x 4,096 x 256 x 120 x 4 B = 2 GB,
// 0.1 s out of the caches. Times are CPU times of this thread, which a busy neighbour disturbs
// little; the peak is measured between the repeats, with the same neighbours.
//
// Two replicas then sum their gradients, S bytes each. With n = 2 each of them sends S and receives
// S; loopback copies a byte once into the kernel and once out of it. So both together cannot spend
// less CPU time than four copies of S take; `of_limit` is that over what they spend.
#include <dlfcn.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "perform/train/blas_check.h"
#include "perform/train/torch_kernels.h"
#include "predict/cost/price_plan.h"
#include "spec/plan/job.h"
#include "support/memory_messenger.h"

// Looked up in the BLAS that LibTorch brings along.
using Sgemm = void(const char*, const char*, const int*, const int*, const int*, const float*,
                   const float*, const int*, const float*, const int*, const float*, float*,
                   const int*);

using namespace tombolo;

namespace {

constexpr int kRepeats = 5;

constexpr const char* kJob = R"(
[model]
layers = 4
hidden = 256
heads = 8
ffn = 704
vocabulary = 256
sequence = 256
[[cluster.datacenter]]
name = "here"
device = "cpu"
nodes = 1
devices_per_node = 1
[training]
global_batch = 16
micro_batch = 4
precision = "fp32"
[parallelism]
pipeline = 1
[run]
steps = 100
)";

double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double cpu_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double spread(const std::vector<double>& values) {
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  return *max - *min;
}

// GFLOP/s of one product in the shape of a layer's widest: [1024, 256] x [256, 704].
double sgemm_peak() {
  const int m = 704, n = 1024, k = 256;
  std::vector<float> a(m * k, 0.5f), b(k * n, 0.25f), c(m * n);
  const float one = 1, zero = 0;
  const int products = 50;
  const auto sgemm = reinterpret_cast<Sgemm*>(dlsym(RTLD_DEFAULT, "sgemm_"));
  if (sgemm == nullptr) return NAN;
  const double start = cpu_seconds();
  for (int i = 0; i < products; ++i) {
    sgemm("T", "N", &m, &n, &k, &one, a.data(), &k, b.data(), &k, &zero, c.data(), &m);
  }
  return 2.0 * m * n * k * products / (cpu_seconds() - start) * 1e-9;
}

// Runs one iteration of a single stage, its backwards whole or in halves, and adds up the CPU time
// of each kind.
Status iterate(kernels::Kernels& kernels, int64_t iteration, int64_t microbatches, bool halves,
               std::map<std::string, double>& seconds) {
  const auto timed = [&](const char* kind, auto&& call) {
    const double start = cpu_seconds();
    auto result = call();
    seconds[kind] += cpu_seconds() - start;
    return result;
  };
  TRY(kernels.begin_iteration(iteration));
  for (int64_t i = 0; i < microbatches; ++i) {
    TRY(timed("forward", [&] { return kernels.forward(0, i, {}); }));
    if (halves) {
      TRY(timed("backward_input", [&] { return kernels.backward_input(0, i, {}); }));
      TRY(timed("backward_weight", [&] { return kernels.backward_weight(0, i); }));
    } else {
      TRY(timed("backward", [&] { return kernels.backward(0, i, {}); }));
    }
  }
  TRY(timed("update", [&] { return kernels.update(0); }));
  return {};
}

// Seconds of one copy (CPU of its thread) and of one sum (wall, and CPU of all threads), by turns.
struct Sum {
  std::vector<double> copy, wall, cpu;
};

// What one of two replicas does; the one with an `out` measures.
Status replicate(const plan::Plan& plan, int32_t replica, train::MemoryHub& hub, Sum* out) {
  auto kernels = TRY(train::make_torch_kernels(plan, replica));
  train::MemoryMessenger messenger(hub, replica);
  TRY(kernels->join_replicas({.ranks = {0, 1},
                              .own = static_cast<size_t>(replica),
                              .messenger = &messenger,
                              .address = "127.0.0.1"}));
  TRY(kernels->begin_iteration(1));
  TRY(kernels->forward(0, 0, {}));
  TRY(kernels->backward(0, 0, {}));
  TRY(kernels->reduce_gradients(0));
  const auto size = static_cast<size_t>(4 * model::parameters(plan.model));
  std::vector<char> from(size, 1), to(size, 2);
  for (int repeat = 0; repeat < 4 * kRepeats; ++repeat) {
    if (out == nullptr) {
      TRY(kernels->reduce_gradients(0));
      continue;
    }
    const double start = cpu_seconds();
    std::memcpy(to.data(), from.data(), size);
    out->copy.push_back(cpu_seconds() - start);
    if (to[size / 2] != 1) return failed("the copy is wrong");
    const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    TRY(kernels->reduce_gradients(0));
    out->wall.push_back(seconds_of(CLOCK_MONOTONIC) - wall);
    out->cpu.push_back(seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  }
  return {};
}

Status measure_sum(plan::Job job) {
  job.parallelism.data = 2;
  job.cluster.datacenters[0].devices_per_node = 2;
  const plan::Plan plan = TRY(cost::make_plan(job));
  train::MemoryHub hub;
  Sum sum;
  Status other;
  std::thread thread([&] { other = replicate(plan, 1, hub, nullptr); });
  const Status own = replicate(plan, 0, hub, &sum);
  thread.join();
  TRY(own);
  TRY(other);
  std::printf(
      "{\"question\":\"reduce_gradients\",\"replicas\":2,\"bytes\":%lld,\"wall_ms\":%.1f,"
      "\"cpu_ms\":%.1f,\"spread_ms\":%.1f,\"copy_ms\":%.2f,\"of_limit\":%.2f}\n",
      static_cast<long long>(4 * model::parameters(plan.model)), 1e3 * median(sum.wall),
      1e3 * median(sum.cpu), 1e3 * spread(sum.cpu), 1e3 * median(sum.copy),
      4 * median(sum.copy) / median(sum.cpu));
  return {};
}

Status measure() {
  const std::string text_file = "/tmp/train_bench_text." + std::to_string(getpid());
  std::string text;
  Random random(1);
  for (int i = 0; i < 100'000; ++i) text += static_cast<char>('a' + random.below(26));
  TRY(write_file(text_file, text));
  plan::Job job = TRY(plan::parse_job(kJob, "train_bench"));
  job.data = plan::Data{.text = text_file};
  const plan::Plan plan = TRY(cost::make_plan(job));
  auto kernels = TRY(train::make_torch_kernels(plan, 0));

  std::map<std::string, double> ignored;
  TRY(iterate(*kernels, 1, plan.microbatches(), false, ignored));
  std::map<std::string, std::vector<double>> seconds;
  std::vector<double> peaks;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    peaks.push_back(sgemm_peak());
    std::map<std::string, double> once;
    TRY(iterate(*kernels, 2 + 2 * repeat, plan.microbatches(), false, once));
    for (const auto& [kind, value] : once) seconds[kind].push_back(value);
    once.clear();
    TRY(iterate(*kernels, 3 + 2 * repeat, plan.microbatches(), true, once));
    for (const auto& [kind, value] : once) seconds[kind].push_back(value);
  }
  if (!std::isfinite(kernels->loss().value_or(NAN))) return failed("the loss is not finite");

  const double peak = median(peaks);
  const double forward =
      model::forward_flops(plan.model, plan.stages[0].slice, plan.training.global_batch).value *
      1e-9;
  std::printf("{\"question\":\"sgemm\",\"gflops\":%.1f,\"spread\":%.1f,\"blas\":\"%s\"}\n", peak,
              spread(peaks), train::blas_library().c_str());
  for (const auto& [kind, values] : seconds) {
    const double work = kind == "forward" ? forward : kind == "backward" ? 2 * forward : 0;
    const double rate = work / median(values);
    std::printf(
        "{\"question\":\"%s\",\"tokens\":4096,\"parameters\":%lld,\"cpu_ms\":%.1f,"
        "\"spread_ms\":%.1f,\"gflops\":%.1f,\"of_sgemm\":%.2f}\n",
        kind.c_str(), static_cast<long long>(model::parameters(plan.model)), 1e3 * median(values),
        1e3 * spread(values), rate, rate / peak);
  }
  std::printf(
      "{\"question\":\"halves of a backward\",\"both_of_whole\":%.3f,\"weights_share\":%.3f}\n",
      (median(seconds["backward_input"]) + median(seconds["backward_weight"])) /
          median(seconds["backward"]),
      median(seconds["backward_weight"]) /
          (median(seconds["backward_input"]) + median(seconds["backward_weight"])));
  const Status summed = measure_sum(job);
  std::remove(text_file.c_str());
  return summed;
}

Result<plan::Plan> plan_of(const std::string& job_file, const std::string& data, int64_t steps) {
  plan::Job job = TRY(plan::read_job(job_file));
  if (!data.empty()) {
    if (!job.data) job.data = plan::Data{};
    job.data->text = data;
  }
  if (steps > 0) job.run.steps = steps;
  plan::Plan plan = TRY(cost::make_plan(job));
  if (plan.stages.size() != 1) return unusable("train_bench runs one stage", "pipeline = 1");
  return plan;
}

// What bench/eager_pytorch.py compares.
Status time_iterations(const plan::Plan& plan) {
  constexpr int64_t kWarmUp = 2;
  auto kernels = TRY(train::make_torch_kernels(plan, 0));
  std::map<std::string, double> ignored;
  std::string cpu, wall;
  rusage before{}, after{};
  for (int64_t i = 1; i <= plan.run.steps + kWarmUp; ++i) {
    if (i == kWarmUp + 1) getrusage(RUSAGE_SELF, &before);
    const double c = cpu_seconds(), w = seconds_of(CLOCK_MONOTONIC);
    TRY(iterate(*kernels, i, plan.microbatches(), false, ignored));
    if (i <= kWarmUp) continue;
    const char* comma = cpu.empty() ? "" : ",";
    cpu += fmt::format("{}{:.6f}", comma, cpu_seconds() - c);
    wall += fmt::format("{}{:.6f}", comma, seconds_of(CLOCK_MONOTONIC) - w);
  }
  getrusage(RUSAGE_SELF, &after);
  std::printf("{\"cpu_s\":[%s],\"wall_s\":[%s],\"faults\":%ld,\"peak_mb\":%.0f,\"loss\":%.4f}\n",
              cpu.c_str(), wall.c_str(), after.ru_minflt - before.ru_minflt,
              static_cast<double>(after.ru_maxrss) * 1.024e-3, kernels->loss().value_or(NAN));
  return {};
}

Status train_job(const plan::Plan& plan) {
  auto kernels = TRY(train::make_torch_kernels(plan, 0));
  std::map<std::string, double> seconds;
  const double start = cpu_seconds();
  const auto evaluate = [&](int64_t step) -> Status {
    for (int64_t i = 0; i < kernels->evaluation_batches(); ++i) TRY(kernels->evaluate(0, i, {}));
    std::printf("step %lld evaluation loss %.4f nats per token, %.1f s of CPU\n",
                static_cast<long long>(step), kernels->evaluation_loss().value_or(NAN),
                cpu_seconds() - start);
    std::fflush(stdout);
    return {};
  };
  for (int64_t step = 1; step <= plan.run.steps; ++step) {
    TRY(iterate(*kernels, step, plan.microbatches(), false, seconds));
    if (step % 10 == 0) {
      std::printf("step %lld loss %.4f\n", static_cast<long long>(step), *kernels->loss());
      std::fflush(stdout);
    }
    const int64_t every = plan.run.evaluate_every;
    if (step == plan.run.steps || (every > 0 && step % every == 0)) TRY(evaluate(step));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const auto with_plan = [&](const std::string& job, Status (*perform)(const plan::Plan&)) {
    return plan_of(job, options["--data"], std::atoll(options["--steps"].c_str()))
        .and_then(perform);
  };
  const Status done = options.count("--job")    ? with_plan(options["--job"], train_job)
                      : options.count("--time") ? with_plan(options["--time"], time_iterations)
                                                : measure();
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().text().c_str());
    return done.error().exit_code();
  }
  return 0;
}
