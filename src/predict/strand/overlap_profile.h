// An overlap profile: how long operators took on a device, alone and concurrently.
//
//   first,second,first_us,second_us,first_beside_us,second_beside_us,repeats,spread
//   product,local,400,310,441,352,20,0.03
//   FC1,,412.5,,,,20,0.01
//
// A line without `second` is the time of an operator alone and replaces the law's. One with it has
// both times alone, and when each ended after a common start; names are those of operators or of
// classes (product, attention, attention-backward, elementwise, local, cross, copy). Never a bare
// ratio: it would hide what was measured. `repeats` measurements had the relative standard deviation
// `spread`; their mean is then uncertain by spread / sqrt(repeats). `tombolo profile --overlap` measures
// it on CPUs (profile_of_samples.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "predict/strand/dag.h"
#include "predict/strand/overlap.h"

namespace tombolo::strand {

inline constexpr double kSpreadMax = 10;

struct ProfileRow {
  std::string first;
  std::string second;  // empty: `first` alone
  PairTimes microseconds;
  int64_t repeats = 1;
  double spread = 0;

  double error() const;  // of the mean, relative
  bool operator==(const ProfileRow&) const = default;
};

struct Profile {
  std::vector<ProfileRow> rows;

  bool operator==(const Profile&) const = default;
};

// Unusable: a table that is none, a name that is none, a time of 0, no repeats, a pair or an
// operator twice. `file` is for messages, which blame its line.
Result<Profile> parse_profile(std::string_view csv, const std::string& file);
Result<Profile> read_profile(const std::string& path);
std::string to_csv(const Profile& profile);

// Puts what was measured over what `table` has.
void apply_pairs(const Profile& profile, OverlapTable& table);

// Times of operators alone. Returns how uncertain each is, relative; 0 where the law's stays. What is
// computed again ("rFC1") takes what it took before.
std::vector<double> apply_times(const Profile& profile, Dag& dag);
// No time of the law's would stay.
bool measures_all(const Profile& profile, const Dag& dag);

}  // namespace tombolo::strand
