// Fits the constants of the law `tombolo` to published measurements, and says how far the law is
// from those that it has not seen.
//
//   calibrate [--tables a,b] [--knobs PREFIX,...] [--steps N] [--share S] [--fresh] [--rows]
//             [--set KNOB=VALUE,...] [--bounded] [--pull P] [--out FOLDER]
//
// A knob is one constant of one file, as "device.a100.half_rows". Rows are fitted where a hash of
// their name falls under `share`; all others only validate. The search is a (1+1) evolution
// strategy on the logarithm of each knob (its logit where it is a share), with a pull towards the
// value that it started from, so that what the rows do not determine stays where physics put it.
// --fresh starts at the defaults of constants.h instead of the files, which were fitted before: the
// rows left out are then truly unseen. --set holds a knob at a value that something else than these
// rows says: a published maximum, another device. With --out the files are written there, to be
// read before they are taken over.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/quantiles.h"
#include "base/random.h"
#include "base/toml.h"
#include "evidence/score/catalog_utilisation.h"
#include "evidence/score/reference_score.h"
#include "predict/cost/iteration.h"
#include "predict/cost/law.h"
#include "predict/published/reference.h"

using namespace tombolo;

namespace {

struct Knob {
  std::string name;
  double* value;
  double start = 0;
  bool share = false;  // in (0, 1)
};

// An archive that collects pointers to the numbers of a file.
struct Collector {
  std::string prefix;
  std::vector<Knob>& knobs;

  void add(std::string_view key, double& value) {
    for (const char* memory :
         {"parameter_memory", "gradient_memory", "optimizer_memory", "activation_scale",
          "logit_memory", "layer_buffers", "reserved", "workspace", "causal_share"}) {
      if (key == memory) return;  // not of time, or not to be fitted
    }
    const bool share =
        key.ends_with("efficiency") || key.ends_with("overlap") || key.ends_with("share");
    knobs.push_back({fmt::format("{}.{}", prefix, key), &value, value, share});
  }
  void optional(std::string_view key, double& v) { add(key, v); }
  void optional(std::string_view key, Seconds& v) { add(key, v.value); }
  void optional(std::string_view key, Bytes& v) { add(key, v.value); }
  template <class T>
  void optional(std::string_view, T&) {}
  template <class T>
  void required(std::string_view, T&) {}
  bool has(std::string_view) const { return true; }
  template <class... T>
  void check(T&&...) {}
};

struct Case {
  const published::ReferenceRow* row;
  cost::Configuration configuration;
  cost::LawSettings settings;
  const cost::DeviceConstants* device;
  const cost::FabricConstants *up, *out;
  const cost::StackConstants* stack;
  bool fitted = false;
};

// The best plan of a cell of the catalog takes at least so long, or it would use the device better
// than anyone published.
struct Bound {
  const score::CatalogRow* row;
  cost::Configuration configuration;
  const cost::DeviceConstants* device;
  const cost::FabricConstants *up, *out;
  const cost::StackConstants* stack;
  double seconds = 0;
};

double excess(const Bound& b) {
  cost::Constants constants{*b.device, *b.up, *b.out, *b.stack, {}};
  const cost::IterationLaw law(b.row->model, b.row->site, {}, std::move(constants));
  return std::max(0.0, std::log(b.seconds / law.time(b.configuration).total().value));
}

double predict(const Case& c) {
  cost::Constants constants{*c.device, *c.up, *c.out, *c.stack, {}};
  const cost::IterationLaw law(*c.row->job.model, c.row->job.cluster.datacenters[0], c.settings,
                               std::move(constants));
  return law.time(c.configuration).total().value;
}

double error_of(const Case& c) { return predict(c) / c.row->iteration->value - 1; }

double loss(const std::vector<Case>& cases, const std::vector<Bound>& bounds,
            const std::vector<Knob*>& active, double pull) {
  std::map<std::string, std::pair<double, double>> tables;  // sum, count
  for (const Case& c : cases) {
    if (!c.fitted) continue;
    const double e = std::abs(std::log(predict(c) / c.row->iteration->value));
    auto& [sum, count] = tables[c.row->table];
    sum += e + e * e;
    count += 1;
  }
  double total = 0;
  for (const auto& [name, t] : tables) total += t.first / t.second;
  for (const Bound& b : bounds) total += excess(b);
  for (const Knob* k : active) {
    const double ratio = std::log((*k->value + 1e-12) / (k->start + 1e-12));
    total += pull * ratio * ratio;
  }
  return total;
}

// The default stack has the median of each constant of time of those with fused attention.
struct Median {
  double* value;
  std::vector<const double*> of;

  void set() const {
    std::vector<double> values;
    for (const double* one : of) values.push_back(*one);
    *value = median(std::move(values));
  }
};

std::vector<Median> medians_of_the_default(std::vector<Knob>& knobs) {
  constexpr std::string_view kDefault = "stack.tombolo.";
  std::vector<Median> medians;
  for (Knob& k : knobs) {
    if (!k.name.starts_with(kDefault)) continue;
    const std::string key = k.name.substr(kDefault.size());
    if (key.ends_with("memory") || key == "context_overlap") continue;
    Median one{k.value, {}};
    for (const Knob& other : knobs) {
      for (const char* stack : {"fsdp", "megatron", "nemo", "torchtitan"}) {
        if (other.name == fmt::format("stack.{}.{}", stack, key)) one.of.push_back(other.value);
      }
    }
    if (!one.of.empty()) medians.push_back(std::move(one));
  }
  return medians;
}

double to_free(const Knob& k, double v) {
  if (k.share) {
    v = std::clamp(v, 1e-3, 0.999);
    return std::log(v / (1 - v));
  }
  return std::log(std::max(v, 1e-12));
}
double from_free(const Knob& k, double x) { return k.share ? 1 / (1 + std::exp(-x)) : std::exp(x); }

// "a,b", or "@FILE" with one on each line.
std::vector<std::string> split(std::string text) {
  if (text.starts_with("@")) {
    const Result<std::string> file = read_file(text.substr(1));
    CHECK(file.has_value(), "{}", file.error().message);
    text = *file;
    std::replace(text.begin(), text.end(), '\n', ',');
  }
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void print_scores(const std::vector<Case>& cases) {
  std::map<std::string, std::array<std::vector<double>, 2>> by_table;
  std::map<std::string, std::map<std::string, std::pair<std::vector<double>, std::vector<double>>>>
      groups;
  for (const Case& c : cases) {
    if (!c.row->ordering_only) {
      by_table[c.row->table][c.fitted ? 0 : 1].push_back(error_of(c));
    }
    auto& [p, m] = groups[c.row->table][c.row->group];
    p.push_back(predict(c));
    m.push_back(c.row->iteration->value);
  }
  fmt::print("{:<28}{:>6}{:>9}{:>6}{:>9}{:>9}{:>9}{:>7}{:>7}\n", "table", "fit", "mean %", "rest",
             "mean %", "max %", "bias %", "tau", "all");
  for (auto& [table, sets] : by_table) {
    const auto mean = [](const std::vector<double>& e) {
      double s = 0;
      for (const double x : e) s += std::abs(x);
      return e.empty() ? 0 : 100 * s / static_cast<double>(e.size());
    };
    double largest = 0, bias = 0;
    for (const auto& set : sets) {
      for (const double e : set) {
        largest = std::max(largest, std::abs(e));
        bias += e;
      }
    }
    std::vector<double> all_predicted, all_measured;
    double tau = 0, pairs = 0;
    for (const auto& [name, g] : groups[table]) {
      const auto t = score::kendall_tau_b(g.first, g.second);
      const double n = static_cast<double>(g.first.size());
      all_predicted.insert(all_predicted.end(), g.first.begin(), g.first.end());
      all_measured.insert(all_measured.end(), g.second.begin(), g.second.end());
      if (!t) continue;
      tau += *t * n * (n - 1);
      pairs += n * (n - 1);
    }
    fmt::print("{:<28}{:>6}{:>9.2f}{:>6}{:>9.2f}{:>9.1f}{:>9.2f}{:>7.2f}{:>7.2f}\n", table,
               sets[0].size(), mean(sets[0]), sets[1].size(), mean(sets[1]), 100 * largest,
               100 * bias / static_cast<double>(sets[0].size() + sets[1].size()),
               pairs > 0 ? tau / pairs : 0,
               score::kendall_tau_b(all_predicted, all_measured).value_or(0));
  }
}

template <class T>
void write_file(const std::string& folder, const char* level, T& constants) {
  const std::string path = fmt::format("{}/{}-{}.json", folder, level, constants.name);
  std::FILE* file = std::fopen(path.c_str(), "w");
  CHECK(file, "cannot write {}", path);
  fmt::print(file, "{}\n", to_json(write_fields(constants)));
  std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> tables, prefixes, set;
  int64_t steps = 0;
  double share = 0.3, pull = 0.002;
  bool rows = false, fresh = false, bounded = false;
  std::string out;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto next = [&] { return std::string(++i < argc ? argv[i] : ""); };
    if (option == "--tables")
      tables = split(next());
    else if (option == "--knobs")
      prefixes = split(next());
    else if (option == "--set")
      set = split(next());
    else if (option == "--steps")
      steps = std::stoll(next());
    else if (option == "--share")
      share = std::stod(next());
    else if (option == "--pull")
      pull = std::stod(next());
    else if (option == "--rows")
      rows = true;
    else if (option == "--bounded")
      bounded = true;
    else if (option == "--fresh")
      fresh = true;
    else if (option == "--out")
      out = next();
    else
      return fmt::print(stderr, "{}: unknown option\n", option), 2;
  }
  cost::ConstantFiles files = cost::constant_files();
  std::vector<Knob> knobs;
  const auto collect = [&](const char* level, auto& list) {
    for (auto& file : list) {
      Collector collector{fmt::format("{}.{}", level, file.name), knobs};
      describe(collector, file);
    }
  };
  collect("device", files.devices);
  collect("fabric", files.fabrics);
  collect("stack", files.stacks);
  cost::DeviceConstants device;
  cost::FabricConstants fabric;
  cost::StackConstants stack;
  std::vector<Knob> defaults;
  const auto collect_default = [&](const char* level, auto& constants) {
    Collector collector{level, defaults};
    describe(collector, constants);
  };
  collect_default("device", device);
  collect_default("fabric", fabric);
  collect_default("stack", stack);
  const auto reset = [&](Knob& knob) {
    const std::string level = knob.name.substr(0, knob.name.find('.'));
    const std::string key = knob.name.substr(knob.name.rfind('.'));
    for (const Knob& known : defaults) {
      if (known.name == level + key) *knob.value = knob.start = known.start;
    }
  };
  for (const std::string& one : set) {
    const size_t equals = one.find('=');
    CHECK(equals != one.npos, "--set {}: wanted KNOB=VALUE", one);
    const std::string name = one.substr(0, equals);
    const auto knob =
        std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == name; });
    CHECK(knob != knobs.end(), "--set {}: there is no such knob", one);
    *knob->value = knob->start = std::stod(one.substr(equals + 1));
  }
  const auto held = [&](const Knob& k) {
    return std::any_of(set.begin(), set.end(),
                       [&](const std::string& one) { return one.starts_with(k.name + "="); });
  };
  std::vector<Knob*> active;
  for (Knob& k : knobs) {
    if (held(k)) continue;
    for (const std::string& prefix : prefixes) {
      if (k.name.starts_with(prefix)) {
        active.push_back(&k);
        if (fresh) reset(k);
        break;
      }
    }
  }

  std::vector<std::vector<published::ReferenceRow>> kept;
  std::vector<Case> cases;
  if (tables.empty()) tables = published::reference_names();
  kept.reserve(tables.size());
  const auto find = [](auto& list, const std::string& name) {
    for (auto& one : list) {
      if (one.name == name) return &one;
    }
    CHECK(false, "no constants called {}", name);
  };
  for (const std::string& table : tables) {
    auto read = published::read_reference_table("", table);
    CHECK(read.has_value(), "{}", read.error().message);
    for (const std::string& why : read->left_out) fmt::print("left out: {}\n", why);
    kept.push_back(std::move(read->rows));
    for (const published::ReferenceRow& row : kept.back()) {
      if (!row.iteration) continue;
      const auto c = cost::configuration_of(row.job);
      CHECK(c.has_value(), "{}", c.error().message);
      const Status possible = plan::check_divisions(row.job);
      if (!possible) {
        fmt::print("{} {}: {}\n", row.table, row.name, possible.error().message);
        continue;
      }
      const auto constants =
          cost::find_constants(row.job.cluster.datacenters[0], row.job.training.stack);
      CHECK(constants.has_value(), "{}", constants.error().message);
      const double hash =
          static_cast<double>(std::hash<std::string>{}(digest(row.table + row.name)) % 10007) /
          10007;
      cases.push_back(
          {&row, *c, cost::settings_of(row.job), find(files.devices, constants->device.name),
           find(files.fabrics, constants->scale_up.name),
           find(files.fabrics, constants->scale_out.name),
           find(files.stacks, constants->stack.name),
           hash < (kept.back().size() <= 25 ? std::max(share, 0.5) : share) && !row.ordering_only});
    }
  }

  const std::vector<Median> medians =
      bounded ? medians_of_the_default(knobs) : std::vector<Median>{};
  std::vector<score::CatalogTable> catalog;
  std::vector<Bound> bounds;
  if (bounded) {
    for (const bool experts : {false, true}) {
      auto table = score::catalog_utilisation(experts);
      CHECK(table.has_value(), "{}", table.error().message);
      catalog.push_back(std::move(*table));
    }
  }
  for (const score::CatalogTable& table : catalog) {
    for (size_t r = 0; r < table.rows.size(); ++r) {
      const score::CatalogRow& row = table.rows[r];
      for (size_t s = 0; s < table.stacks.size(); ++s) {
        if (!row.cells[s]) continue;
        const auto constants = cost::find_constants(row.site, table.stacks[s]);
        CHECK(constants.has_value(), "{}", constants.error().message);
        const cost::Configuration& c = row.cells[s]->configuration;
        const Flops work = cost::model_flops(row.model, c.global_batch);
        const FlopsPerSecond peak = row.site.device.peak * static_cast<double>(row.site.devices());
        bounds.push_back({&row, c, find(files.devices, constants->device.name),
                          find(files.fabrics, constants->scale_up.name),
                          find(files.fabrics, constants->scale_out.name),
                          find(files.stacks, table.stacks[s]),
                          (work / (peak * (0.995 * table.limits[r].mfu))).value});
      }
    }
  }

  if (steps > 0 && !active.empty()) {
    Random random(1);
    double best = loss(cases, bounds, active, pull);
    fmt::print("{} knobs, loss {:.5f}\n", active.size(), best);
    double sigma = 0.2;
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<double> old;
      for (Knob* k : active) {
        old.push_back(*k->value);
        // Few knobs at a time: the landscape is nearly separable.
        if (random.uniform() > 2.0 / static_cast<double>(active.size()) && active.size() > 2)
          continue;
        *k->value = from_free(*k, to_free(*k, *k->value) + sigma * random.normal());
      }
      for (const Median& one : medians) one.set();
      const double now = loss(cases, bounds, active, pull);
      if (now < best) {
        best = now;
        sigma = std::min(0.6, sigma * 1.3);
      } else {
        for (size_t i = 0; i < active.size(); ++i) *active[i]->value = old[i];
        sigma = std::max(0.01, sigma * 0.985);
      }
    }
    for (const Median& one : medians) one.set();
    fmt::print("loss {:.5f}\n", best);
    for (const Knob* k : active) {
      if (std::abs(*k->value / k->start - 1) > 0.01) {
        fmt::print("  {:<50}{:>12.5g}  was {:.5g}\n", k->name, *k->value, k->start);
      }
    }
  }
  print_scores(cases);
  double above = 0;
  for (const Bound& b : bounds) above = std::max(above, excess(b));
  if (bounded) fmt::print("cells of the catalog: at most {:.1f} % above the bound\n", 100 * above);
  if (rows) {
    for (const Case& c : cases) {
      const cost::Constants constants{*c.device, *c.up, *c.out, *c.stack, {}};
      const cost::IterationLaw law(*c.row->job.model, c.row->job.cluster.datacenters[0], c.settings,
                                   constants);
      const cost::IterationTime t = law.time(c.configuration);
      fmt::print(
          "{:<14}{:<62}{:>9.4f}{:>9.4f}{:>7.1f}%{} c {:.3f} b {:.3f} bc {:.3f} t {:.3f} cp {:.3f} "
          "ep {:.3f} pp {:.3f} dp {:.3f} o {:.3f} h {:.3f}\n",
          c.row->table, c.row->name, t.total().value, c.row->iteration->value, 100 * error_of(c),
          c.fitted ? "f" : " ", t.compute.value, t.bubble.value, t.bubble_communication.value,
          t.tensor_communication.value, t.context_communication.value, t.expert_communication.value,
          t.pipeline_communication.value, t.data_communication.value, t.optimizer.value,
          t.overhead.value);
    }
  }
  if (!out.empty()) {
    for (auto& f : files.devices) write_file(out, "device", f);
    for (auto& f : files.fabrics) write_file(out, "fabric", f);
    for (auto& f : files.stacks) write_file(out, "stack", f);
  }
}
