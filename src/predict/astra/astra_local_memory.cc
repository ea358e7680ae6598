#include "predict/astra/astra_local_memory.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace tombolo::astra {
namespace {

// Processes of the trace: an NPU, then what it holds, then how much.
constexpr int64_t kLifetimes = 1'000'000;
constexpr int64_t kTimeline = 2'000'000;

// The node that writes what is there from the start, from 0 to 10 ns: 2^64 - 1, as far as numbers
// of JSON go.
constexpr double kUndefined = 0x1p64;

Value event(std::string_view name, const char* category, const char* phase, SimTime at,
            int64_t process, int64_t thread, Value::Table arguments) {
  return Value(Value::Table{{"name", std::string(name)},
                            {"cat", std::string(category)},
                            {"ph", std::string(phase)},
                            {"ts", static_cast<double>(at.ns) * 1e-3},
                            {"pid", process},
                            {"tid", thread},
                            {"args", std::move(arguments)}});
}

}  // namespace

void AstraLocalMemory::begins(const Cast& cast) {
  ranks_.assign(cast.ranks(), {});
  class_of_ = cast.classes ? cast.classes->class_of : std::vector<int32_t>();
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    rank.npu = cast.npu_of(static_cast<int32_t>(r));
    const Program* program = cast.workload->programs[static_cast<size_t>(rank.npu)];
    rank.tensors = program->tensors;
    if (rank.tensors) rank.begun.resize(program->nodes.size());
  }
}

void AstraLocalMemory::node_begins(int32_t r, uint32_t node, SimTime at) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  if (rank.tensors) rank.begun[node] = at;
}

void AstraLocalMemory::node_ends(int32_t r, uint32_t node, SimTime at) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  if (!rank.tensors) return;
  for (const Tensors::Use& use : rank.tensors->uses[node]) {
    rank.accesses.push_back({use.tensor, node, rank.begun[node], at, use.writes});
  }
}

const AstraLocalMemory::Rank& AstraLocalMemory::of(int32_t npu) const {
  const auto n = static_cast<size_t>(npu);
  const size_t npus = class_of_.empty() ? ranks_.size() : class_of_.size();
  CHECK(n < npus, "the memory of NPU {} of {}", npu, npus);
  return ranks_[class_of_.empty() ? n : static_cast<size_t>(class_of_[n])];
}

std::vector<int32_t> AstraLocalMemory::simulated() const {
  std::vector<int32_t> out;
  for (const Rank& rank : ranks_) out.push_back(rank.npu);
  return out;
}

std::vector<AstraLocalMemory::Life> AstraLocalMemory::lives(const Rank& rank) {
  std::vector<Life> out(rank.tensors ? rank.tensors->names.size() : 0);
  for (const Access& access : rank.accesses) {
    Life& life = out[access.tensor];
    if (!life.lives) life.begin = access.writes ? access.start : SimTime{};
    life.lives = true;
    if (access.writes) continue;
    life.end = access.end;
    life.ends = true;
  }
  return out;
}

// Of one moment those that begin count, and those that end no longer do.
std::vector<AstraLocalMemory::Moment> AstraLocalMemory::timeline(const Rank& rank,
                                                                 const std::vector<Life>& lives) {
  std::map<SimTime, int64_t> changes;
  for (size_t t = 0; t < lives.size(); ++t) {
    if (!lives[t].lives) continue;
    const int64_t bytes = rank.tensors->bytes[t];
    changes[lives[t].begin] += bytes;
    if (lives[t].ends) changes[lives[t].end] -= bytes;
  }
  std::vector<Moment> out;
  int64_t alive = 0;
  for (const auto& [at, change] : changes) out.push_back({at, alive += change});
  return out;
}

int64_t AstraLocalMemory::peak(int32_t npu) const {
  const Rank& rank = of(npu);
  int64_t most = 0;
  for (const Moment& moment : timeline(rank, lives(rank))) most = std::max(most, moment.bytes);
  return most;
}

Value AstraLocalMemory::trace(int32_t npu) const {
  const Rank& rank = of(npu);
  const std::vector<Life> all = lives(rank);
  Value::Array events;
  std::vector<bool> written(all.size());
  const auto draw = [&](const Access& access, bool writes, std::string_view node, Value id) {
    const Value::Table arguments{{"size", rank.tensors->bytes[access.tensor]},
                                 {"node_name", std::string(node)},
                                 {"node_id", std::move(id)}};
    const char* category = writes ? "tensorWrite" : "tensorRead";
    for (const bool begin : {true, false}) {
      events.push_back(event(rank.tensors->names[access.tensor], category, begin ? "B" : "E",
                             begin ? access.start : access.end, npu, access.tensor, arguments));
    }
  };
  for (const Access& access : rank.accesses) {
    const auto& [id, name] = rank.tensors->nodes[access.node];
    const bool first = !written[access.tensor];
    written[access.tensor] = true;
    if (first && !access.writes) {
      draw({access.tensor, 0, SimTime{0}, SimTime{10}, true}, true, "UNDEFINED", kUndefined);
    }
    if (first || !access.writes) draw(access, access.writes, name, id);
  }
  for (size_t t = 0; t < all.size(); ++t) {
    if (!all[t].lives) continue;
    const std::string& name = rank.tensors->names[t];
    const Value::Table arguments{{"size", rank.tensors->bytes[t]}};
    const auto thread = static_cast<int64_t>(t);
    events.push_back(
        event(name, "tensorLifetime", "B", all[t].begin, npu + kLifetimes, thread, arguments));
    if (!all[t].ends) continue;
    events.push_back(
        event(name, "tensorLifetime", "E", all[t].end, npu + kLifetimes, thread, arguments));
  }
  for (const Moment& moment : timeline(rank, all)) {
    events.push_back(event("GPU Memory Usage (MB)", "GPU Memory", "C", moment.at, npu + kTimeline,
                           0, {{"Memory_MB", static_cast<double>(moment.bytes) / (1 << 20)}}));
  }
  return Value(Value::Table{{"traceEvents", std::move(events)}});
}

}  // namespace tombolo::astra
