#include "predict/strand/overlap_profile.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/csv.h"
#include "base/file.h"

namespace tombolo::strand {
namespace {

constexpr const char* kColumns =
    "first,second,first_us,second_us,first_beside_us,second_beside_us,repeats,spread";
constexpr int64_t kRepeatsMax = 1'000'000'000;

Result<std::string> read_name(const CsvRow& row, std::string_view column) {
  const std::string name = TRY(row.text(column));
  constexpr std::string_view kSigns =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (name.find_first_not_of(kSigns) != name.npos) {
    return fail(row.complaint(column, "is no name of an operator",
                              "\"FC1\", or a class: product, attention, attention-backward, "
                              "elementwise, local, cross, copy"));
  }
  return name;
}

Result<double> read_time(const CsvRow& row, std::string_view column) {
  const double time = TRY(row.number(column));
  if (time <= 0) return fail(row.complaint(column, "must be above 0 us"));
  return time;
}

Result<ProfileRow> read_row(const CsvRow& row) {
  ProfileRow out;
  out.first = TRY(read_name(row, "first"));
  out.microseconds.first = TRY(read_time(row, "first_us"));
  if (row.has("second")) {
    out.second = TRY(read_name(row, "second"));
    out.microseconds.second = TRY(read_time(row, "second_us"));
    out.microseconds.first_beside = TRY(read_time(row, "first_beside_us"));
    out.microseconds.second_beside = TRY(read_time(row, "second_beside_us"));
  } else if (is_class(out.first)) {
    return fail(row.complaint("first", "is a class: alone only an operator has a time",
                              "the name of one, such as \"FC1\""));
  }
  out.repeats = TRY(row.count("repeats"));
  if (out.repeats < 1 || out.repeats > kRepeatsMax) {
    return fail(row.complaint("repeats", "must lie between 1 and 1000000000"));
  }
  out.spread = TRY(row.number("spread"));
  if (out.spread > kSpreadMax)
    return fail(
        row.complaint("spread", fmt::format("must lie between 0 and {:g}", kSpreadMax), "0.03"));
  return out;
}

// Of the operator alone; nothing where there is none.
const ProfileRow* time_of(const Profile& profile, const Operator& op) {
  const std::string_view name = name_in_layer(op);
  const ProfileRow* found = nullptr;
  for (const ProfileRow& row : profile.rows) {
    if (!row.second.empty()) continue;
    if (row.first == name) return &row;
    if (name.starts_with('r') && row.first == name.substr(1)) found = &row;
  }
  return found;
}

}  // namespace

double ProfileRow::error() const { return spread / std::sqrt(static_cast<double>(repeats)); }

Result<Profile> parse_profile(std::string_view csv, const std::string& file) {
  Profile profile;
  std::set<std::pair<std::string, std::string>> seen;
  for (const CsvRow& row : TRY(parse_csv(csv, file))) {
    ProfileRow read = TRY(read_row(row));
    if (!seen.emplace(std::min(read.first, read.second), std::max(read.first, read.second))
             .second) {
      return fail(row.complaint("first", read.second.empty()
                                             ? "stands here for the second time"
                                             : "stands here with the same other a second time"));
    }
    profile.rows.push_back(std::move(read));
  }
  if (profile.rows.empty()) {
    return unusable(fmt::format("{}: an overlap profile without a line", file),
                    fmt::format("{}\n      product,local,400,310,441,352,20,0.03", kColumns));
  }
  return profile;
}

Result<Profile> read_profile(const std::string& path) {
  return parse_profile(TRY(read_file(path)), path);
}

std::string to_csv(const Profile& profile) {
  std::string out = std::string(kColumns) + "\n";
  for (const ProfileRow& row : profile.rows) {
    const PairTimes& t = row.microseconds;
    if (row.second.empty()) {
      out += fmt::format("{},,{},,,,{},{}\n", row.first, t.first, row.repeats, row.spread);
    } else {
      out += fmt::format("{},{},{},{},{},{},{},{}\n", row.first, row.second, t.first, t.second,
                         t.first_beside, t.second_beside, row.repeats, row.spread);
    }
  }
  return out;
}

void apply_pairs(const Profile& profile, OverlapTable& table) {
  for (const ProfileRow& row : profile.rows) {
    if (row.second.empty()) continue;
    table.set(row.first, row.second, pace_of_times(row.microseconds, row.error()));
  }
}

std::vector<double> apply_times(const Profile& profile, Dag& dag) {
  std::vector<double> errors(dag.size());
  for (size_t i = 0; i < dag.size(); ++i) {
    const ProfileRow* const row = time_of(profile, dag[i]);
    if (!row) continue;
    dag.set_seconds(i, row->microseconds.first * 1e-6);
    errors[i] = row->error();
  }
  return errors;
}

bool measures_all(const Profile& profile, const Dag& dag) {
  return std::ranges::all_of(dag.operators(),
                             [&](const Operator& op) { return time_of(profile, op) != nullptr; });
}

}  // namespace tombolo::strand
