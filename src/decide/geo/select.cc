#include "decide/geo/select.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"

namespace tombolo::geo {
namespace {

// Above these, rows are refused and subsets left out.
constexpr int64_t kRowsMax = 100'000;
constexpr int64_t kCandidatesMax = 300'000;

// `throughput` is better by more than what doubles lose.
bool better(double throughput, double than) { return throughput > than * (1 + 1e-9); }

int64_t sum(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

// A law may round passes and transfers to nanoseconds. This is how far it may then be below a
// bound: half a nanosecond for each of those that follow one another.
Seconds rounding(const DpCell& cell) {
  const auto passes = static_cast<double>(2 * (cell.stages() + cell.microbatches));
  const auto transfers = static_cast<double>(4 * cell.links.size());
  return Seconds{0.5e-9 * (passes + transfers)};
}

// Prices rows, each shape of a cell once.
class RowPricer {
 public:
  explicit RowPricer(const SelectionSetting& setting) : setting_(setting) {}

  // The cell of `pipelines` pipelines, one of `cells`, which run `microbatches` each; empty: two
  // of its sites are not joined.
  std::optional<DpCell> cell(const std::vector<int64_t>& partitions, int64_t pipelines,
                             int64_t cells, int64_t microbatches,
                             std::string* obstacle = nullptr) const {
    DpCell cell{{}, {}, pipelines, microbatches};
    std::optional<size_t> last;
    for (size_t i = 0; i < partitions.size(); ++i) {
      if (partitions[i] == 0) continue;
      const SelectionSite& site = setting_.sites[i];
      if (last) {
        const std::optional<CellLink> link = setting_.link(*last, i, pipelines, cells);
        if (!link) {
          if (obstacle) {
            *obstacle =
                fmt::format("no WAN link joins {} and {}", setting_.sites[*last].name, site.name);
          }
          return std::nullopt;
        }
        cell.links.push_back(*link);
      }
      cell.parts.push_back({partitions[i], site.forward, site.backward});
      last = i;
    }
    return cell;
  }

  Seconds time(const DpCell& cell) {
    std::vector<double> shape = {static_cast<double>(cell.pipelines),
                                 static_cast<double>(cell.microbatches)};
    for (const CellPart& part : cell.parts) {
      shape.insert(shape.end(),
                   {static_cast<double>(part.stages), part.forward.value, part.backward.value});
    }
    for (const CellLink& link : cell.links) {
      shape.insert(shape.end(), {link.occupancy.value, link.latency.value});
    }
    const auto [known, is_new] = times_.try_emplace(std::move(shape));
    if (is_new) {
      known->second = setting_.cell_time(cell);
      const Seconds least = cell_at_least(cell);  // what look_beyond leaves out rests on this
      CHECK(known->second >= least * (1 - 1e-9) - rounding(cell),
            "a cell takes {} s, and none takes less than {} s", known->second.value, least.value);
    }
    return known->second;
  }

  Seconds all_reduce(const std::vector<int64_t>& partitions, int64_t replicas) const {
    Seconds slowest;
    std::optional<size_t> first;
    size_t last = 0;
    for (size_t i = 0; i < partitions.size(); ++i) {
      if (partitions[i] == 0) continue;
      slowest = std::max(slowest, setting_.all_reduce(i, replicas));
      if (!first) first = i;
      last = i;
    }
    const bool ties = setting_.tied && first && *first != last;
    return ties ? slowest + setting_.tied(*first, last, replicas) : slowest;
  }

  // A row of `cells` cells, as equal as possible.
  SelectionRow row(int64_t pipelines, int64_t cells, std::vector<int64_t> partitions) {
    SelectionRow row;
    row.cells = cells;
    row.pipelines = pipelines;
    row.microbatches = setting_.microbatches_of_one(pipelines);
    row.all_microbatches = setting_.microbatches_of_all(pipelines);
    row.partitions = std::move(partitions);
    const int64_t placed = sum(row.partitions);
    if (placed < setting_.partitions) {
      row.obstacle = fmt::format("room for {} of {} partitions", placed, setting_.partitions);
      return row;
    }
    if (row.all_microbatches < pipelines) {
      row.obstacle =
          fmt::format("{} microbatches for {} pipelines", row.all_microbatches, pipelines);
      return row;
    }
    for (size_t i = 0; i < setting_.sites.size(); ++i) {
      const SelectionSite& site = setting_.sites[i];
      if (site.must && row.partitions[i] == 0) {
        row.obstacle = fmt::format("{} must take part, and has {} GPUs for {} pipelines", site.name,
                                   site.gpus, pipelines);
        return row;
      }
      const int64_t used = row.partitions[i] * pipelines;
      row.used_gpus += used;
      row.unused_gpus += site.gpus - used;
      row.cost = row.cost + Dollars{site.price.value * static_cast<double>(used)};
    }
    for (const int64_t size : sizes(pipelines, cells)) {
      const std::optional<DpCell> one =
          cell(row.partitions, size, cells, row.microbatches, &row.obstacle);
      if (!one) return row;
      row.pipeline = std::max(row.pipeline, time(*one));
    }
    row.all_reduce = all_reduce(row.partitions, pipelines);
    row.cost = row.cost * row.total().value + egress(row);  // was dollars per second
    row.feasible = true;
    return row;
  }

  Dollars egress(const SelectionRow& row) const {
    std::vector<size_t> used;
    for (size_t i = 0; i < setting_.sites.size(); ++i) {
      if (row.partitions[i] > 0) used.push_back(i);
    }
    Dollars sum;
    for (size_t i = 1; i < used.size() && setting_.egress; ++i)
      sum = sum + setting_.egress(used[i - 1], used[i]) * static_cast<double>(row.all_microbatches);
    if (setting_.tied_egress)
      sum = sum + setting_.tied_egress(used.front(), used.back(), row.pipelines);
    return sum;
  }

  // No schedule gives these pipelines more.
  std::optional<double> throughput_at_most(int64_t pipelines, int64_t cells,
                                           const std::vector<int64_t>& partitions) const {
    Seconds least;
    const int64_t microbatches = setting_.microbatches_of_one(pipelines);
    for (const int64_t size : sizes(pipelines, cells)) {
      const std::optional<DpCell> one = cell(partitions, size, cells, microbatches);
      if (!one) return std::nullopt;
      least = std::max(least, cell_at_least(*one));
    }
    return static_cast<double>(setting_.microbatches_of_all(pipelines)) /
           (least + all_reduce(partitions, pipelines)).value;
  }

 private:
  // The one or two sizes of `cells` cells that are as equal as possible.
  static std::vector<int64_t> sizes(int64_t pipelines, int64_t cells) {
    const int64_t small = pipelines / cells;
    if (pipelines % cells == 0) return {small};
    return {small, small + 1};
  }

  const SelectionSetting& setting_;
  std::map<std::vector<double>, Seconds> times_;
};

struct Candidate {
  double at_most;
  int64_t pipelines, cells;
  std::vector<int64_t> partitions;
};

// Every feasible number of pipelines over every subset of the sites (or all of them only).
std::vector<Candidate> candidates(const SelectionSetting& setting, const RowPricer& pricer,
                                  bool subsets) {
  const size_t n = setting.sites.size();
  int64_t all = 0;
  for (const SelectionSite& site : setting.sites) all += site.gpus;
  std::vector<Candidate> found;
  for (int64_t pipelines = 1; pipelines <= all / setting.partitions; ++pipelines) {
    if (pipelines > setting.microbatches_of_all(pipelines)) break;
    const int64_t cells = (pipelines + setting.pipelines_per_cell - 1) / setting.pipelines_per_cell;
    const uint64_t last = (uint64_t{1} << (subsets ? n : 0)) - (subsets ? 1 : 0);
    for (uint64_t bits = 1; bits <= last; ++bits) {
      std::vector<bool> mask(n);
      for (size_t i = 0; i < n; ++i) mask[i] = !subsets || (bits >> i & 1) != 0;
      std::vector<int64_t> partitions = fill_sites(setting, pipelines, mask);
      if (sum(partitions) < setting.partitions) continue;
      // A site of the subset that stays empty: another subset says the same. One that must take
      // part and is not in it: no answer.
      bool says_it_first = true;
      for (size_t i = 0; i < n; ++i) {
        if (subsets && mask[i] && partitions[i] == 0) says_it_first = false;
        if (setting.sites[i].must && partitions[i] == 0) says_it_first = false;
      }
      if (!says_it_first) continue;
      const auto at_most = pricer.throughput_at_most(pipelines, cells, partitions);
      if (at_most) found.push_back({*at_most, pipelines, cells, std::move(partitions)});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.at_most > b.at_most; });
  return found;
}

void look_beyond(const SelectionSetting& setting, RowPricer& pricer, SelectionResult& result) {
  int64_t all = 0;
  for (const SelectionSite& site : setting.sites) all += site.gpus;
  const size_t n = setting.sites.size();
  result.subsets_tried = n <= 12 && (all / setting.partitions) << n <= kCandidatesMax;
  if (all / setting.partitions > kCandidatesMax) return;
  double best = result.rows[result.chosen].throughput();
  const std::vector<Candidate> by_bound = candidates(setting, pricer, result.subsets_tried);
  result.candidates = static_cast<int64_t>(by_bound.size());
  for (const Candidate& candidate : by_bound) {
    if (!better(candidate.at_most, best)) break;
    SelectionRow row = pricer.row(candidate.pipelines, candidate.cells, candidate.partitions);
    if (!row.feasible || !better(row.throughput(), best)) continue;
    best = row.throughput();
    result.beyond = std::move(row);
  }
}

// Why not even one cell fits.
tl::unexpected<Error> nothing_fits(const SelectionSetting& setting, const SelectionRow& one_cell) {
  const int64_t placed = sum(one_cell.partitions);
  if (placed >= setting.partitions) {
    return infeasible(fmt::format("no number of DP-cells is feasible: {}", one_cell.obstacle),
                      "another order of datacenters, or a WAN link more");
  }
  std::string rooms;
  for (const SelectionSite& site : setting.sites) {
    rooms += fmt::format("{}{} with {} GPUs for {}", rooms.empty() ? "" : ", ", site.name,
                         site.gpus, site.gpus / setting.pipelines_per_cell);
  }
  // What would fit: fewer pipelines in a cell.
  int64_t fewer = setting.pipelines_per_cell;
  while (fewer > 0 && sum(fill_sites(setting, fewer)) < setting.partitions) --fewer;
  return infeasible(
      fmt::format("one DP-cell of {} pipelines x {} partitions does not fit: there is room for {} "
                  "partitions, {} too few ({})",
                  setting.pipelines_per_cell, setting.partitions, placed,
                  setting.partitions - placed, rooms),
      fewer > 0
          ? fmt::format("selection.pipelines_per_cell = {}, fewer partitions, or more GPUs", fewer)
          : std::string("fewer partitions, or more GPUs"));
}

Status check(const SelectionSetting& setting) {
  CHECK(setting.partitions >= 1 && setting.pipelines_per_cell >= 1 && setting.microbatches >= 1,
        "P = {}, C = {}, M = {}", setting.partitions, setting.pipelines_per_cell,
        setting.microbatches);
  CHECK(setting.link && setting.all_reduce && setting.cell_time, "a law is missing");
  for (const SelectionSite& site : setting.sites) {
    CHECK(site.gpus >= 0, "{} has {} GPUs", site.name, site.gpus);
  }
  const int64_t together = setting.microbatches_of_all(setting.pipelines_per_cell);
  if (together < setting.pipelines_per_cell) {
    return infeasible(
        fmt::format("one DP-cell of {} pipelines needs as many microbatches, and an iteration has "
                    "{}",
                    setting.pipelines_per_cell, together),
        fmt::format("selection.pipelines_per_cell = {}, or a larger training.global_batch",
                    together));
  }
  if (setting.sites.empty()) {
    return infeasible("no datacenter is left to choose from", "fewer names in selection.must_not");
  }
  for (const SelectionSite& site : setting.sites) {
    if (!site.must || site.gpus >= setting.pipelines_per_cell) continue;
    return infeasible(
        fmt::format("{} must take part, but has {} GPUs for a DP-cell of {} pipelines", site.name,
                    site.gpus, setting.pipelines_per_cell),
        fmt::format("selection.pipelines_per_cell = {}, or more GPUs there", site.gpus));
  }
  const auto musts = std::count_if(setting.sites.begin(), setting.sites.end(),
                                   [](const SelectionSite& site) { return site.must; });
  if (musts > setting.partitions) {
    return infeasible(fmt::format("{} datacenters must take part, and a pipeline has {} partitions",
                                  musts, setting.partitions),
                      "fewer names in selection.must, or more partitions");
  }
  return {};
}

}  // namespace

double SelectionRow::throughput() const {
  return feasible ? static_cast<double>(all_microbatches) / total().value : 0;
}

std::vector<int64_t> fill_sites(const SelectionSetting& setting, int64_t pipelines,
                                const std::vector<bool>& mask) {
  const size_t n = setting.sites.size();
  CHECK(pipelines >= 1 && (mask.empty() || mask.size() == n),
        "{} pipelines, a mask of {} sites of {}", pipelines, mask.size(), n);
  const auto usable = [&](size_t i) { return mask.empty() || mask[i]; };
  const auto room = [&](size_t i) { return setting.sites[i].gpus / pipelines; };
  int64_t set_aside = 0;
  for (size_t i = 0; i < n; ++i) set_aside += usable(i) && setting.sites[i].must && room(i) > 0;
  std::vector<int64_t> partitions(n, 0);
  int64_t left = setting.partitions;
  for (size_t i = 0; i < n && left > 0; ++i) {
    if (!usable(i)) continue;
    if (setting.sites[i].must && room(i) > 0) --set_aside;  // now it is this one's turn
    partitions[i] = std::max<int64_t>(0, std::min(left - set_aside, room(i)));
    left -= partitions[i];
  }
  return partitions;
}

Result<SelectionResult> select_datacenters(const SelectionSetting& setting) {
  TRY(check(setting));
  int64_t all = 0;
  for (const SelectionSite& site : setting.sites) all += site.gpus;
  const int64_t cells_max = all / setting.pipelines_per_cell / setting.partitions;
  if (cells_max > kRowsMax) {
    return unusable(fmt::format("{} GPUs make up to {} DP-cells: too many rows", all, cells_max),
                    "more selection.pipelines_per_cell");
  }
  RowPricer pricer(setting);
  SelectionResult result;
  double best = 0;
  for (int64_t cells = 1; cells <= cells_max; ++cells) {
    const int64_t pipelines = cells * setting.pipelines_per_cell;
    result.rows.push_back(pricer.row(pipelines, cells, fill_sites(setting, pipelines)));
    if (!better(result.rows.back().throughput(), best)) continue;
    best = result.rows.back().throughput();
    result.chosen = result.rows.size() - 1;
  }
  if (best == 0) {
    const int64_t pipelines = setting.pipelines_per_cell;
    return nothing_fits(setting, pricer.row(pipelines, 1, fill_sites(setting, pipelines)));
  }
  if (setting.look_beyond) look_beyond(setting, pricer, result);
  return result;
}

}  // namespace tombolo::geo
