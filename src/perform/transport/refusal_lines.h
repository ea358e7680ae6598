// Log lines about refused connections: of each kind one a minute, which says how many were refused
// meanwhile. So neither a port scanner nor a rank whose place is taken fills the log. Memory: a fixed
// number of kinds, whatever clients send.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/time.h"

namespace tombolo::transport {

class RefusalLines {
 public:
  // What to say now, if anything: `did` "refused a connection", for that reason. Reasons that differ
  // in numbers alone are of one kind.
  std::optional<std::string> add(const std::string& did, const std::string& remote,
                                 const std::string& reason, SimTime now);

 private:
  struct Kind {
    SimTime said;
    int64_t unsaid = 0;  // since then
  };
  std::map<std::string, Kind> kinds_;
};

}  // namespace tombolo::transport
