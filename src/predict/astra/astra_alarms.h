// Alarms: what a rank is woken for, in ASTRA-sim's order.
//
// There a rank keeps its own list of what it will do at an instant, and the list stands in the
// global queue where its first entry was put. So two alarms of one rank for one instant ring one
// right after the other, and an alarm that is set for this very instant while the rank's list is
// being worked off rings before other ranks' events of that instant. Where such ties decide who
// goes first (two chunks that reach a link together), equal answers need the equal order.
//
// Cost: a scan over the instants that a rank has alarms for, which are few, and one event of the
// queue for each of them. Memory is reused.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "predict/engine/event_queue.h"

namespace tombolo::astra {

struct Alarm {
  uint32_t kind = 0;  // all fields belong to the caller
  uint32_t subject = 0;
  uint32_t part = 0;
  int64_t detail = 0;
};

class Alarms {
 public:
  // Events that it puts into the queue are of kind `event_kind`.
  Alarms(engine::EventQueue& queue, uint32_t event_kind, int32_t ranks)
      : queue_(&queue), event_kind_(event_kind), first_list_(static_cast<size_t>(ranks), kNone) {}

  void set(int32_t rank, SimTime time, Alarm alarm) {
    CHECK(static_cast<size_t>(rank) < first_list_.size(), "an alarm for rank {} of {}", rank,
          first_list_.size());
    const uint32_t list = list_for(rank, time);
    const uint32_t entry = take(entries_, free_entry_);
    entries_[entry] = {alarm, kNone};
    (lists_[list].last == kNone ? lists_[list].first : entries_[lists_[list].last].next) = entry;
    lists_[list].last = entry;
  }

  // An event of event_kind has come: calls ring(rank, alarm) for each alarm of its list.
  template <typename Ring>
  void work_off(uint64_t subject, Ring ring) {
    const auto list = static_cast<uint32_t>(subject);
    CHECK(list < lists_.size(), "list {} of {}", list, lists_.size());
    const int32_t rank = lists_[list].rank;
    while (lists_[list].first != kNone) {
      const uint32_t entry = lists_[list].first;
      lists_[list].first = entries_[entry].next;
      if (lists_[list].first == kNone) lists_[list].last = kNone;
      const Alarm alarm = entries_[entry].alarm;
      entries_[entry].next = free_entry_;
      free_entry_ = entry;
      ring(rank, alarm);
    }
    uint32_t* link = &first_list_[static_cast<size_t>(rank)];
    while (*link != list) link = &lists_[*link].next;
    *link = lists_[list].next;
    lists_[list].next = free_list_;
    free_list_ = list;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    Alarm alarm;
    uint32_t next = kNone;
  };
  struct List {  // a rank's alarms of one instant
    SimTime time;
    int32_t rank = 0;
    uint32_t first = kNone, last = kNone;
    uint32_t next = kNone;  // of the same rank
  };

  template <typename T>
  static uint32_t take(std::vector<T>& pool, uint32_t& free) {
    if (free == kNone) {
      pool.emplace_back();
      return static_cast<uint32_t>(pool.size() - 1);
    }
    const uint32_t taken = free;
    free = pool[taken].next;
    return taken;
  }

  uint32_t list_for(int32_t rank, SimTime time) {
    uint32_t& first = first_list_[static_cast<size_t>(rank)];
    for (uint32_t list = first; list != kNone; list = lists_[list].next) {
      if (lists_[list].time == time) return list;
    }
    const uint32_t list = take(lists_, free_list_);
    lists_[list] = {time, rank, kNone, kNone, first};
    first = list;
    queue_->push(time, event_kind_, list);
    return list;
  }

  engine::EventQueue* queue_;
  uint32_t event_kind_;
  std::vector<uint32_t> first_list_;  // per rank
  std::vector<List> lists_;
  std::vector<Entry> entries_;
  uint32_t free_list_ = kNone, free_entry_ = kNone;
};

}  // namespace tombolo::astra
