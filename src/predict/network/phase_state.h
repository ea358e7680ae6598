// How far the members of a phase are, message by message (collective_phase.h has the steps).
//
// A state machine without clock or network: it is called with what happened to a member, and calls
// its driver for what follows. The driver decides when things happen: phase_solver.h for one phase
// alone, the simulator for phases that share links.
//
//   struct Driver {
//     void send(int32_t from, int32_t to, int64_t bytes);   // later: arrived(to, from)
//     void insert(int32_t member, int64_t bytes, bool reduces);  // later: ready(member)
//     void asks(int32_t member, int32_t source);  // a receive is posted
//     void receive_later(int32_t member);  // it has come already. At this instant, after what is
//                                          // under way: received(member)
//     void over(int32_t member);
//   };
//
// Memory: 24 bytes a member and 2 for each source that it receives from.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "predict/network/collective_phase.h"

namespace tombolo::network {

class PhaseState {
 public:
  explicit PhaseState(const CollectivePhase& phase) : PhaseState(phase, 0, phase.members()) {}
  // Of one member, where all do the same at the same times: its driver tells it of a message
  // from from(m, j) when its own j-th one is there. Not of a tree.
  static PhaseState of_one(const CollectivePhase& phase, int32_t m) { return {phase, m, 1}; }

  const CollectivePhase& phase() const { return *phase_; }

  template <typename Driver>
  void start(int32_t m, Driver& driver) {
    if (phase_->is_tree()) return start_tree(m, driver);
    for (int32_t i = 0; i < phase_->window(); ++i) insert(m, driver);
  }

  // A message from `source` is here. Messages may come before the member has started.
  template <typename Driver>
  void arrived(int32_t m, int32_t source, Driver& driver) {
    if (unmatched(m, source)++ < 0) received(m, driver);
  }

  // It is here and was asked for.
  template <typename Driver>
  void received(int32_t m, Driver& driver) {
    ++at(m).received;
    if (phase_->is_tree()) return received_tree(m, driver);
    if (phase_->in_switch()) return received_by_switch(driver);
    insert(m, driver);
  }

  // Something inserted has become ready.
  template <typename Driver>
  void ready(int32_t m, Driver& driver) {
    if (phase_->is_tree()) return ready_tree(m, driver);
    Member& member = at(m);
    ++member.ready;
    const int64_t gate = phase_->gate();
    if (gate > 0 && phase_->messages() - member.sent <= gate) {
      if (member.received < gate) return;
      for (int32_t i = 0; i < phase_->window(); ++i) send_next(m, driver);
    } else {
      send_next(m, driver);
    }
    if (member.sent == phase_->messages() && member.ready - member.sent == phase_->window()) {
      driver.over(m);
    }
  }

 private:
  struct Member {
    int64_t inserted = 0, ready = 0, sent = 0, received = 0;
  };
  const CollectivePhase* phase_;
  int32_t first_;
  std::vector<Member> members_;     // from the first on
  int32_t in_switch_ = 0;           // messages that a switch has
  std::vector<int16_t> unmatched_;  // per member and source: messages here, less receives posted

  PhaseState(const CollectivePhase& phase, int32_t first, int32_t members)
      : phase_(&phase),
        first_(first),
        members_(static_cast<size_t>(members)),
        unmatched_(members_.size() * static_cast<size_t>(phase.slots())) {}

  Member& at(int32_t m) { return members_[static_cast<size_t>(m - first_)]; }
  int16_t& unmatched(int32_t m, int32_t source) {
    return unmatched_[static_cast<size_t>(m - first_) * static_cast<size_t>(phase_->slots()) +
                      static_cast<size_t>(phase_->slot(m, source))];
  }

  template <typename Driver>
  void insert(int32_t m, Driver& driver) {
    const int64_t insertion = at(m).inserted++;
    driver.insert(m, phase_->bytes(insertion), phase_->reduces(insertion));
  }

  template <typename Driver>
  void post_receive(int32_t m, int32_t source, Driver& driver) {
    driver.asks(m, source);
    if (unmatched(m, source)-- > 0) driver.receive_later(m);
  }

  template <typename Driver>
  void send_next(int32_t m, Driver& driver) {
    Member& member = at(m);
    if (member.sent == phase_->messages() || member.ready == member.sent) return;
    const int64_t message = member.sent;
    driver.send(m, phase_->to(m, message), phase_->bytes(message));
    post_receive(m, phase_->from(m, message), driver);
    ++member.sent;
  }

  // What a switch reduces or gathers goes down when all of it is there.
  template <typename Driver>
  void received_by_switch(Driver& driver) {
    if (++in_switch_ < std::ssize(members_)) return;
    for (int32_t m = first_; m < first_ + std::ssize(members_); ++m) insert(m, driver);
  }

  // The tree. `ready` counts what has become ready, `received` what has come.
  template <typename Driver>
  void start_tree(int32_t m, Driver& driver) {
    const CollectivePhase::TreeNode& node = phase_->tree(m);
    if (node.leaf()) return driver.insert(m, phase_->spec().bytes, false);
    post_receive(m, node.left, driver);
    if (node.right >= 0) post_receive(m, node.right, driver);
  }

  template <typename Driver>
  void received_tree(int32_t m, Driver& driver) {
    driver.insert(m, phase_->spec().bytes, !phase_->tree(m).leaf());
  }

  // A leaf sends first, an inner node when both children are reduced; then they wait for the
  // parent.
  template <typename Driver>
  void ready_tree(int32_t m, Driver& driver) {
    const CollectivePhase::TreeNode& node = phase_->tree(m);
    const int64_t children = (node.left >= 0) + (node.right >= 0);
    const int64_t up = children == 2 ? 2 : 1;  // becomes ready so often before it sends up
    const int64_t ready = ++at(m).ready;
    if (ready < up) return;
    if (node.parent >= 0 && ready == up) {
      driver.send(m, node.parent, phase_->spec().bytes);
      post_receive(m, node.parent, driver);
      return;
    }
    if (node.left >= 0) driver.send(m, node.left, phase_->spec().bytes);
    if (node.right >= 0) driver.send(m, node.right, phase_->spec().bytes);
    driver.over(m);
  }
};

}  // namespace tombolo::network
