// Why the other values of each choice lost, over several datacenters.
//
// A family is all settings with one value of a choice, such as recompute = full, or all plans that
// use one datacenter. Of each the book keeps the best score found, the lowest bound of what was cut
// off and, where memory rules it out, how close it came.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "decide/geo/mixed_search.h"

namespace tombolo::geo {

class MixedWhyNotBook {
 public:
  MixedWhyNotBook(const MixedTask& task, const std::vector<MixedSetting>& settings)
      : task_(task), settings_(settings) {}

  void add(size_t setting, const MixedFindings& findings);
  std::vector<MixedWhyNot> why_not(const MixedSplit& best) const;
  // Where nothing was found: the closest miss of all.
  Error infeasible() const;

 private:
  struct Name {
    std::string axis, value;
    bool operator==(const Name&) const = default;
  };
  struct Family {
    Name name;
    MixedOutlook outlook;
    int64_t layers_held = -1;
    size_t closest = 0;  // setting
  };

  std::vector<Name> names_of(const MixedSetting& setting) const;
  Family& family(const Name& name);
  std::string describe(const MixedSetting& setting) const;
  std::string miss(const Family& family) const;
  std::string why_no_ends() const;

  const MixedTask& task_;
  const std::vector<MixedSetting>& settings_;
  std::vector<Family> families_;
  Family all_;
};

}  // namespace tombolo::geo
