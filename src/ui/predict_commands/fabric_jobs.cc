// `tombolo fabric --jobs`: the tiling of a cluster, as a table and a picture.
#include <algorithm>
#include <numeric>

#include "base/text_table.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {
namespace {

using search::JobRectangle;
using search::JobTiling;
using search::NumberRange;
using search::NumberRanges;
using search::TiledJob;

constexpr int64_t kColumnsMax = 64;  // of the picture
constexpr size_t kDomainLinesMax = 40;

char letter(size_t job) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  return job < kLetters.size() ? kLetters[job] : '#';
}

std::string text_of(const NumberRange& range) {
  const int64_t last = range.first + range.count - 1;
  return range.count == 1 ? fmt::format("{}", range.first)
                          : fmt::format("{}-{}", range.first, last);
}

std::string text_of(const NumberRanges& ranges) {
  constexpr size_t kShown = 4;
  std::string out;
  for (size_t i = 0; i < std::min(kShown, ranges.size()); ++i) {
    out += (i == 0 ? "" : ",") + text_of(ranges[i]);
  }
  return ranges.size() > kShown ? out + ",..." : out;
}

// Rows are domains, columns rails.
std::vector<std::string> drawn_domains(const JobTiling& tiling) {
  std::vector<std::string> out(static_cast<size_t>(tiling.domains),
                               std::string(static_cast<size_t>(tiling.rails), '.'));
  for (size_t job = 0; job < tiling.jobs.size(); ++job) {
    if (!tiling.jobs[job].tile) continue;
    for (const NumberRange& domains : tiling.jobs[job].tile->domains) {
      for (int64_t i = 0; i < domains.count; ++i) {
        std::string& row = out[static_cast<size_t>(domains.first + i)];
        for (const NumberRange& rails : tiling.jobs[job].tile->rails) {
          std::fill_n(row.begin() + rails.first, rails.count, letter(job));
        }
      }
    }
  }
  return out;
}

// How many rails a character stands for: as few as a line has room for, and no edge of a job between them if
// that can be.
int64_t rails_of_a_character(const JobTiling& tiling) {
  if (tiling.rails <= kColumnsMax) return 1;
  int64_t step = tiling.rails;
  for (const TiledJob& job : tiling.jobs) {
    if (!job.tile) continue;
    for (const NumberRange& rails : job.tile->rails) {
      step = std::gcd(step, std::gcd(rails.first, rails.count));
    }
  }
  const int64_t least = (tiling.rails + kColumnsMax - 1) / kColumnsMax;
  return std::max(step, least);
}

void draw(std::ostream& out, const JobTiling& tiling) {
  const std::vector<std::string> rows = drawn_domains(tiling);
  const int64_t step = rails_of_a_character(tiling);
  std::vector<std::pair<std::string, std::string>> lines;  // equal domains are one
  for (size_t first = 0; first < rows.size();) {
    size_t end = first;
    while (end < rows.size() && rows[end] == rows[first]) ++end;
    std::string line;
    for (size_t rail = 0; rail < rows[first].size(); rail += static_cast<size_t>(step)) {
      line += rows[first][rail];
    }
    lines.emplace_back(
        text_of(NumberRange{static_cast<int64_t>(first), static_cast<int64_t>(end - first)}),
        std::move(line));
    first = end;
  }
  size_t width = 0;
  for (const auto& [domains, line] : lines) width = std::max(width, domains.size());
  out << fmt::format("\n  domains, by {}; . is free\n",
                     step == 1 ? "rail" : fmt::format("{} rails", step));
  for (size_t i = 0; i < std::min(kDomainLinesMax, lines.size()); ++i) {
    out << fmt::format("  {:>{}} |{}|\n", lines[i].first, width, lines[i].second);
  }
  if (lines.size() > kDomainLinesMax)
    out << fmt::format("  ... {} more\n", lines.size() - kDomainLinesMax);
  out << "\n";
}

const JobRectangle& rectangle_of(const TiledJob& job) { return job.rectangles[job.tile->shape]; }

Value ranges_json(const NumberRanges& ranges) {
  Value::Array out;
  for (const NumberRange& range : ranges) {
    out.push_back(Value::Table{{"first", range.first}, {"last", range.first + range.count - 1}});
  }
  return out;
}

Value job_json(const TiledJob& job) {
  Value::Table out = {
      {"file", job.file}, {"name", job.name}, {"gpus", job.gpus}, {"placed", job.tile.has_value()}};
  if (job.tile) {
    const JobRectangle& rectangle = rectangle_of(job);
    out.emplace_back("rails", ranges_json(job.tile->rails));
    out.emplace_back("domains", ranges_json(job.tile->domains));
    out.emplace_back("iteration_s", rectangle.iteration.value);
    out.emplace_back("forwarding_s", rectangle.forwarding.value);
  } else {
    out.emplace_back("why_not", job.why_not);
  }
  Value::Array rectangles;
  for (const JobRectangle& each : job.rectangles) {
    rectangles.push_back(Value::Table{
        {"rails", each.rails}, {"domains", each.domains}, {"iteration_s", each.iteration.value}});
  }
  out.emplace_back("rectangles", rectangles);
  out.emplace_back("clos_iteration_s",
                   job.clos_iteration ? Value(job.clos_iteration->value) : Value());
  return out;
}

}  // namespace

Result<SharedCluster> share_cluster(const FabricOptions& options) {
  if (!options.iteration.empty()) {
    return unusable("--iteration: of several jobs each has its own, by the law",
                    "--jobs without --iteration");
  }
  std::vector<plan::Job> jobs;
  for (const std::string& file : options.jobs) jobs.push_back(TRY(command::read_job(file)));
  const cost::Law law = TRY(cost::find_law(options.law));
  SharedCluster out{.datacenter = {},
                    .law = std::string(to_name(law)),
                    .tiling = TRY(search::tile_jobs(jobs, law))};
  out.datacenter = jobs[0].cluster.datacenters[0];
  return out;
}

void print_shared_cluster(std::ostream& out, const SharedCluster& shared) {
  const JobTiling& all = shared.tiling;
  const search::Tiling& tiling = all.tiling;
  out << fmt::format("\n{} job{} on {} rails of {} domains, rail-only: {} of {} GPUs in use\n",
                     all.jobs.size(), all.jobs.size() == 1 ? "" : "s", all.rails,
                     grouped(all.domains), grouped(tiling.gpus), grouped(all.gpus()));
  TextTable table({text_column(), text_column("job"), "GPUs", "rails x domains",
                   text_column("rails"), text_column("domains"), "iteration", "fastest",
                   "on a Clos"});
  for (size_t i = 0; i < all.jobs.size(); ++i) {
    const TiledJob& job = all.jobs[i];
    const std::string clos = job.clos_iteration ? brief(*job.clos_iteration) : "no place";
    const std::string fastest = job.rectangles.empty() ? "-" : brief(job.rectangles[0].iteration);
    if (!job.tile) {
      table.row({"-", job.name, grouped(job.gpus), "no place", "", "", "-", fastest, clos});
      continue;
    }
    const JobRectangle& rectangle = rectangle_of(job);
    table.row({std::string(1, letter(i)), job.name, grouped(job.gpus),
               fmt::format("{} x {}", rectangle.rails, rectangle.domains), text_of(job.tile->rails),
               text_of(job.tile->domains), brief(rectangle.iteration), fastest, clos});
  }
  out << table.text();
  draw(out, all);
  const search::RectangleShape& free = tiling.largest_free;
  if (free.gpus() > 0) {
    out << fmt::format(
        "  left over: {} GPUs; the largest free rectangle is {} rails x {} domains\n",
        grouped(all.gpus() - tiling.gpus), free.rails, free.domains);
  }
  if (tiling.proven) {
    out << "  no tiling has more GPUs in use, nor loses less time with as many\n";
  } else if (tiling.gpus == tiling.gpus_at_most) {
    out << "  no tiling has more GPUs in use; one that loses less time was not found\n";
  } else {
    out << fmt::format(
        "  no tiling has more than {} GPUs in use; better ones than this were not "
        "found\n",
        grouped(tiling.gpus_at_most));
  }
  out << fmt::format("  on a Clos a job takes any GPUs: {} of {} in use\n", grouped(all.clos_gpus),
                     grouped(all.gpus()));
  out << fmt::format(
      "  iterations: predicted by the law {}; rectangles share no link, so that "
      "jobs do not slow each other\n",
      shared.law);
  for (const std::string& note : all.notes) out << "  note: " << note << "\n";
}

Value shared_cluster_json(const SharedCluster& shared) {
  const JobTiling& all = shared.tiling;
  Value::Array jobs, notes;
  for (const TiledJob& job : all.jobs) jobs.push_back(job_json(job));
  for (const std::string& note : all.notes) notes.push_back(note);
  return Value::Table{{"law", shared.law},
                      {"rails", all.rails},
                      {"domains", all.domains},
                      {"gpus", all.gpus()},
                      {"gpus_in_use", all.tiling.gpus},
                      {"gpus_in_use_at_most", all.tiling.gpus_at_most},
                      {"proven", all.tiling.proven},
                      {"largest_free", Value::Table{{"rails", all.tiling.largest_free.rails},
                                                    {"domains", all.tiling.largest_free.domains}}},
                      {"clos_gpus_in_use", all.clos_gpus},
                      {"jobs", jobs},
                      {"notes", notes}};
}

Status all_have_a_place(const SharedCluster& shared) {
  const JobTiling& all = shared.tiling;
  int64_t without = 0;
  std::string reasons;
  for (const TiledJob& job : all.jobs) {
    if (job.tile) continue;
    ++without;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", job.file, job.why_not);
  }
  if (without == 0) return {};
  return infeasible(
      fmt::format("{} of {} jobs have no place: {}", without, all.jobs.size(), reasons),
      all.clos_gpus > all.tiling.gpus
          ? "degrees that allow other rectangles, or a Clos, where more of them have a place"
          : "more nodes, or jobs of fewer GPUs");
}

}  // namespace tombolo::predict_commands
