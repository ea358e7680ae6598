#include <array>

#include "base/check.h"
#include "base/fields.h"
#include "base/json.h"
#include "perform/control/journal.h"
#include "perform/control/lease.h"

namespace tombolo::control {
namespace {

constexpr size_t kTextMax = 4096;

constexpr auto enum_names(Entry::Kind) {
  using Kind = Entry::Kind;
  return std::to_array<EnumName<Kind>>({{Kind::kRun, "run"},
                                        {Kind::kBegun, "begun"},
                                        {Kind::kLost, "lost"},
                                        {Kind::kEnded, "ended"},
                                        {Kind::kDone, "done"},
                                        {Kind::kClosed, "closed"}});
}

std::string_view name_of(Entry::Kind kind) {
  for (const auto& entry : enum_names(kind)) {
    if (entry.value == kind) return entry.name;
  }
  return "?";
}

}  // namespace

template <class Archive>
void describe(Archive& a, Entry& entry) {
  auto epoch = static_cast<int64_t>(entry.epoch);
  a.optional("epoch", epoch);
  a.check(epoch >= 0, "epoch", "must not be negative");
  if constexpr (Archive::kReads) entry.epoch = static_cast<uint64_t>(epoch);
  a.optional("step", entry.step);
  a.check(entry.step >= 0, "step", "must not be negative");
  a.optional("lease_ns", entry.lease.ns);
  a.check(entry.lease.ns >= 0 && entry.lease <= kLeaseMax, "lease_ns", "is longer than any lease");
  a.optional("text", entry.text);
}

std::string to_record(const Entry& entry) {
  CHECK(entry.step >= 0, "an entry of step {}", entry.step);
  Entry cut = entry;
  cut.text = cut.text.substr(0, kTextMax);
  return to_json(Value(Value::Table{{std::string(name_of(entry.kind)), write_fields(cut)}}), -1);
}

Result<Entry> parse_record(std::string_view record, const std::string& where) {
  const Value value = TRY(parse_json(record, where, 0));
  const Value::Table* table = value.get<Value::Table>();
  if (!table || table->size() != 1) return failed(fmt::format("{}: wanted one kind", where));
  const std::string& name = table->front().first;
  for (const auto& kind : enum_names(Entry::Kind{})) {
    if (kind.name != name) continue;
    Entry entry = TRY(read_fields<Entry>(table->front().second, where, name));
    entry.kind = kind.value;
    return entry;
  }
  return failed(fmt::format("{}: unknown kind \"{}\"", where, name));
}

}  // namespace tombolo::control
