// Where a sweep replaces a value in a job.
//
//   training.global_batch                    a key of a section
//   cluster.wan[0].one_way_latency           an entry of a list by its number
//   cluster.wan.oregon-paris.connections     a link by its two ends, in either order
//   cluster.datacenter.oregon.nodes          a datacenter by its name
//   cluster.datacenter.*.price               all entries
//   cluster.datacenter.oregon.device.memory  a field of a catalog device, which becomes inline
//   cluster.datacenter."us.east".nodes       quotes where a name has a dot
//
// A key that its table does not have is added: optional keys may be left out of a job. Whether the
// format has it is for the ordinary reader to say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/value.h"

namespace tombolo::sweep {

class SweepPath {
 public:
  // Unusable: an empty step, a bracket or a quote that is not closed.
  static Result<SweepPath> parse(std::string_view text);

  const std::string& text() const { return text_; }

  // Puts `value` at every place of `job`. Unusable, with the keys that are near: a list without
  // such an entry, a step into what is no table. Returns how many places had nothing before.
  Result<int64_t> put(Value& job, const Value& value) const;

 private:
  struct Step {
    std::string key;
    int64_t number = -1;  // of an entry; -1: `key` says
  };
  Result<int64_t> put(Value& at, size_t step, const Value& value) const;
  Result<int64_t> put_in_list(Value::Array& list, size_t step, const Value& value) const;
  Error complaint(size_t step, const std::string& why, std::string hint = {}) const;
  std::string before(size_t step) const;  // the path up to a step

  std::string text_;
  std::vector<Step> steps_;
};

// What an entry of a list is called: its name, or the ends of a link joined by "-"; else "".
std::string sweep_entry_name(const Value& entry);

}  // namespace tombolo::sweep
