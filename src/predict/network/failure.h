// What a failure costs: a GPU, a server, a rail switch or a link fails under a rail-optimised or a
// rail-only fabric, with and without optical switches in reserve.
//
// Rows answer three questions. What is lost at once: bandwidth, pairs of GPUs. What the remedy
// takes: GPUs that do no work until the repair, tasks that move. What the job pays afterwards: the
// time of a hierarchical all-gather and of an all-to-all, relative to the time before.
//
// Source: Wang et al. 2023 (rail-only), section 4.1, which has no numbers. `claim` says of each row
// whether the paper states the remedy; every number is ours, from the laws in grid_collective.h.
// Forwarding is charged in full, as if it overlapped with nothing: those times are upper bounds of
// what a good schedule needs. docs/laws/rail_failures.md derives them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "predict/network/grid_collective.h"

namespace tombolo::network {

enum class FailedPart { kGpu, kServer, kRailSwitch, kLink };
constexpr auto enum_names(FailedPart) {
  return std::to_array<EnumName<FailedPart>>({{FailedPart::kGpu, "gpu"},
                                              {FailedPart::kServer, "server"},
                                              {FailedPart::kRailSwitch, "rail-switch"},
                                              {FailedPart::kLink, "link"}});
}

enum class Claim { kPaper, kDerived };
constexpr auto enum_names(Claim) {
  return std::to_array<EnumName<Claim>>({{Claim::kPaper, "paper"}, {Claim::kDerived, "derived"}});
}

struct FailureOptions {
  // GPUs per server, a divisor of the domain. Left out: the domain if it has up to 16 GPUs (DGX),
  // else 1 (GH200), the two cases of the paper.
  std::optional<int64_t> server;
  // GPUs that an optical switch inside a domain exchanges together; the paper says "a small set".
  int64_t optical_group = 8;
};

struct FailureCase {
  FailedPart failed = FailedPart::kGpu;
  Fabric fabric = Fabric::kRailOnly;
  bool optical = false;  // the remedy needs optical switches
  std::string spare;     // what stands by: "idle GPU in the domain", "nothing", ...
  std::string remedy;
  Claim claim = Claim::kDerived;  // who states the remedy
  std::string note;               // what the paper says, what is assumed

  // At once.
  double bandwidth_lost = 0;      // share of all GPUs' network ports
  int64_t pairs_off_network = 0;  // live pairs that lose the path over switches alone
  int64_t pairs_cut_off = 0;      // of those: without any path, forwarding included

  // With the remedy.
  int64_t gpus_out = 0;              // do no work until the repair, the failed ones included
  int64_t gpus_moved = 0;            // tasks that continue elsewhere
  std::optional<double> all_gather;  // time, relative to before; nothing where the job must shrink
  std::optional<double> all_to_all;
};

// GPUs behind the lowest switch of a rail: `rails` places in each of `domains` domains.
struct RailSwitch {
  int64_t rails = 1;
  int64_t domains = 1;
  int64_t gpus() const { return rails * domains; }
};
RailSwitch rail_switch(Fabric fabric, const FabricSize& size);

Status check(const FabricSize& size, const FailureOptions& options);

// All rows, in the order of FailedPart. Sizes and rates must have passed check(); the grid is the
// whole domains of the size.
std::vector<FailureCase> failure_cases(const FabricSize& size, const Grid& grid,
                                       const FailureOptions& options = {});

}  // namespace tombolo::network
