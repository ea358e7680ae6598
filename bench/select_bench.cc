// How long does algorithm 1 of Atlas take, with what we look at beyond it?
//
//   select_bench
//
// Five datacenters of 600 GPUs, P = M = 60, C = 4 and 2: the paper's takes 55 s on one CPU. Prints
// one JSON line each with CPU seconds. Sketch: rows x (2 C P M) passes at some 60 ns each.
// Checked: the pipelines are those of the paper's lists.
#include <fmt/format.h>
#include <time.h>

#include "base/check.h"
#include "decide/geo/select.h"

using namespace tombolo;

int main() {
  for (const auto& [ratio, pipelines] : {std::pair(4, 48), std::pair(2, 50)}) {
    geo::SelectionSetting setting;
    for (int i = 0; i < 5; ++i) setting.sites.push_back({fmt::format("dc{}", i), 600, 1_s, 2_s});
    setting.partitions = setting.microbatches = 60;
    setting.pipelines_per_cell = ratio;
    setting.link = [ratio = ratio](size_t, size_t, int64_t sharing, int64_t) {
      const double share = static_cast<double>(ratio) / static_cast<double>(sharing);
      return std::optional<geo::CellLink>({Seconds{share}, 0_s});
    };
    setting.all_reduce = [](size_t, int64_t) { return 0_s; };
    timespec begin{}, end{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    const auto found = geo::select_datacenters(setting);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    CHECK(found && found->rows[found->chosen].pipelines == pipelines, "not Atlas' pipelines");
    const double cpu = static_cast<double>(end.tv_sec - begin.tv_sec) +
                       1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
    fmt::print(
        "{{\"bench\": \"select\", \"ratio\": {}, \"rows\": {}, \"candidates\": {}, "
        "\"cpu_s\": {:.4f}}}\n",
        ratio, found->rows.size(), found->candidates, cpu);
  }
  return 0;
}
