#include "perform/stage/machine_load.h"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "base/check.h"
#include "base/file.h"

namespace tombolo::stage {
namespace {

constexpr uint64_t kTicksMin = 10;

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::optional<CpuTimes> read_cpu_times() {
  const auto text = read_file("/proc/stat");
  if (!text) return std::nullopt;
  const auto times = parse_cpu_times(*text);
  return times ? std::optional(*times) : std::nullopt;
}

Seconds mean(const kernels::Lateness& lateness) {
  if (lateness.waits == 0) return 0_s;
  return seconds(lateness.sum) / static_cast<double>(lateness.waits);
}

}  // namespace

Seconds lateness_of_iteration(const kernels::Lateness& waits, const kernels::Lateness& messages,
                              int64_t stages) {
  CHECK(stages >= 1, "a pipeline of {} stages", stages);
  const Seconds kept = std::max(seconds(waits.kept), 0_s);
  return kept + (mean(waits) + mean(messages)) * static_cast<double>(2 * (stages - 1));
}

MachineLoad machine_load(const plan::Plan& plan, const trace::Trace& trace,
                         std::optional<double> cpu_busy, int64_t cores) {
  CHECK(!cpu_busy || (*cpu_busy >= 0 && *cpu_busy <= 1), "{} of all cores' time was used",
        *cpu_busy);
  MachineLoad load{.cpu_busy = cpu_busy,
                   .realtime = true,
                   .ranks = static_cast<int64_t>(plan.ranks.size()),
                   .cores = cores};
  std::map<int64_t, double> late;  // the worst rank's, by iteration
  int64_t told = 0;
  for (const trace::Record& record : trace.records) {
    if (record.name == kLateRecord) {
      double& worst = late[record.iteration];
      worst = std::max(worst, record.value);
    } else if (record.name == trace::kRealtimeRecord) {
      load.realtime = load.realtime && record.value != 0;
      ++told;
    } else if (record.name == kCoresUsedRecord) {
      load.own_busy += record.value / static_cast<double>(std::max<int64_t>(cores, 1));
    }
  }
  load.realtime = load.realtime && told > 0;
  for (const layout::Placement& placement : plan.ranks) {
    const cluster::Device& device = plan.device_of(placement.rank);
    load.emulated = load.emulated || device.kind == cluster::DeviceKind::kEmulated;
  }
  const std::vector<trace::IterationTime> times = trace::iteration_times(trace);
  std::vector<double> shares;
  for (size_t i = times.size() > 1 ? 1 : 0; i < times.size(); ++i) {
    const Seconds span = seconds(times[i].end - times[i].start);
    const auto found = late.find(times[i].iteration);
    if (found != late.end() && span.value > 0) shares.push_back(found->second / span.value);
  }
  load.lateness = middle(std::move(shares));
  const double busy = load.realtime ? load.own_busy : cpu_busy.value_or(load.own_busy);
  load.too_busy = busy > kCpuBusyMax && (load.emulated || busy - load.own_busy > kOthersShareMax);
  if (load.emulated && load.lateness > kLatenessShareMax) load.too_busy = true;
  return load;
}

void add_records(const MachineLoad& load, trace::Trace& trace) {
  const auto add = [&](const char* name, double value) {
    trace.records.push_back({.name = name, .value = value});
  };
  if (load.cpu_busy) add(trace::kCpuBusyRecord, *load.cpu_busy);
  add(trace::kOwnBusyRecord, load.own_busy);
  if (load.emulated) add(trace::kLatenessRecord, load.lateness);
  add(trace::kTooBusyRecord, load.too_busy ? 1 : 0);
  trace::normalize(trace);
}

std::string MachineLoad::note() const {
  if (emulated || ranks <= cores) return "";
  return fmt::format("machine: {} ranks compute on {} cores", ranks, cores);
}

Value::Table MachineLoad::table() const {
  Value::Table out{{"emulated", emulated},
                   {"cpu_busy", cpu_busy ? Value(*cpu_busy) : Value()},
                   {"ranks", ranks},
                   {"cores", cores},
                   {"own_busy", own_busy}};
  if (emulated) {
    out.push_back({"lateness", lateness});
    out.push_back({"realtime", realtime});
  }
  out.push_back({"too_busy", too_busy});
  return out;
}

// cpu  user nice system idle iowait irq softirq steal guest guest_nice (proc(5)); guests are in
// user and nice already.
Result<CpuTimes> parse_cpu_times(std::string_view proc_stat) {
  constexpr std::string_view kAllCores = "cpu ";
  const std::string_view line = proc_stat.substr(0, proc_stat.find('\n'));
  if (!line.starts_with(kAllCores))
    return failed("/proc/stat does not begin with all cores' times");
  std::vector<uint64_t> ticks;
  const char* at = line.data() + kAllCores.size();
  const char* const end = line.data() + line.size();
  while (ticks.size() < 8) {
    while (at != end && *at == ' ') ++at;
    uint64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{}) break;
    ticks.push_back(number);
    at = next;
  }
  if (ticks.size() < 4) return failed("/proc/stat has fewer than four of all cores' times");
  CpuTimes out;
  for (size_t i = 0; i < ticks.size(); ++i) {
    out.all += ticks[i];
    if (i != 3 && i != 4) out.busy += ticks[i];
  }
  return out;
}

namespace {

SimTime read_clock(clockid_t which) {
  timespec time{};
  clock_gettime(which, &time);
  return {time.tv_sec * 1'000'000'000 + time.tv_nsec};
}

}  // namespace

ProcessMeter::ProcessMeter()
    : cpu_begin_(read_clock(CLOCK_PROCESS_CPUTIME_ID)), begin_(read_clock(CLOCK_MONOTONIC)) {}

double ProcessMeter::cores() const {
  const SimDuration passed = read_clock(CLOCK_MONOTONIC) - begin_;
  if (passed.ns <= 0) return 0;
  return static_cast<double>((read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin_).ns) /
         static_cast<double>(passed.ns);
}

CpuMeter::CpuMeter() : begin_(read_cpu_times()) {}

std::optional<double> CpuMeter::busy() const {
  const std::optional<CpuTimes> now = read_cpu_times();
  if (!begin_ || !now || now->all < begin_->all + kTicksMin) return std::nullopt;
  const auto all = static_cast<double>(now->all - begin_->all);
  return std::clamp((static_cast<double>(now->busy) - static_cast<double>(begin_->busy)) / all, 0.0,
                    1.0);
}

}  // namespace tombolo::stage
