// The ledger: bytes that ranks send one another in one iteration, and money.
//
//   const Ledger ledger = Ledger::of(plan);
//   ledger.wan();                        // by direction between datacenters, by class
//   ledger.cost(iteration).total();      // devices x price x time + WAN bytes x price
//
// The messages are those that the schedule's Graph sends (spec/schedule/to_graph, exchange_graph): the
// same lists, counted instead of simulated. What is sent once every n iterations (outer steps of
// [exchange] mode = "local") counts as 1/n of it per iteration.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/units.h"
#include "spec/plan/plan.h"

namespace tombolo::ledger {

enum class MessageClass : uint8_t {
  kPipeline,    // activations to the next stage and their gradients back
  kGradients,   // sums among replicas in several datacenters, or their sparse updates
  kOuterSteps,  // updates of datacenters that train on their own
  kTied,        // gradients of a tied embedding, between the ends of a pipeline that both hold it
};
inline constexpr size_t kMessageClasses = 4;
constexpr auto enum_names(MessageClass) {
  return std::to_array<EnumName<MessageClass>>({{MessageClass::kPipeline, "pipeline"},
                                                {MessageClass::kGradients, "gradients"},
                                                {MessageClass::kOuterSteps, "outer-steps"},
                                                {MessageClass::kTied, "tied"}});
}

// From one rank to another, all shards of the rank together.
struct PairFlow {
  int32_t from = 0;
  int32_t to = 0;
  MessageClass kind = MessageClass::kPipeline;
  Bytes bytes;  // per iteration
};

// One direction between two datacenters.
struct WanFlow {
  std::string from;
  std::string to;
  std::array<Bytes, kMessageClasses> by_class;  // per iteration
  Dollars price;                                // of all of them

  Bytes bytes() const;
};

struct Cost {
  std::optional<Dollars> devices;  // none where a datacenter in use names no price
  Dollars egress;

  std::optional<Dollars> total() const {
    return devices ? std::optional(*devices + egress) : std::nullopt;
  }
};

// What all pipelines together pay for one boundary over a WAN link, there and back, per iteration.
Dollars egress_of(const cluster::WanLink& link, Bytes boundary, int64_t microbatches, int64_t data);

// What `pipelines` pipelines from one datacenter to another pay for the gradients of a tied embedding
// (plan::tied_bytes), per iteration.
Dollars tied_egress(const cluster::Cluster& cluster, const std::string& first,
                    const std::string& last, Bytes each, int64_t pipelines);
// A note that no link joins the two ends of a pipeline that hold a tied embedding, so that its cost
// is left out; empty: nothing is left out.
std::string note_on_tied_ends(const cluster::Cluster& cluster, const std::string& first,
                              const std::string& last, Bytes each);
// The same of a Plan.
std::string note_on_tied_ends(const plan::Plan& plan);

class Ledger {
 public:
  // Cost: O(messages of an exchange + pipelines x stages).
  static Ledger of(const plan::Plan& plan);

  const std::vector<PairFlow>& pairs() const { return pairs_; }  // by (from, to, class)
  const std::vector<WanFlow>& wan() const { return wan_; }       // by (from, to)
  Dollars egress() const;                                        // per iteration
  // Of an iteration that takes so long.
  Cost cost(Seconds iteration) const;

 private:
  std::vector<PairFlow> pairs_;
  std::vector<WanFlow> wan_;
  std::optional<DollarsPerSecond> devices_;
};

}  // namespace tombolo::ledger
