// Coordinator and members in a simulated network: messages are delayed, lost and overtake each
// other; datacenters are cut off from each other, in one direction or both; every process has a
// clock of its own that starts anywhere and runs a little fast or slow; workers, spares and the
// coordinator are killed in the middle of what they do, and paused.
//
// At every instant: those that work are of one epoch, one per rank, and while a datacenter has been
// cut off for longer than any lease no member works anywhere. When the failures end, all work.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <queue>
#include <set>

#include "base/random.h"
#include "perform/control/coordinator.h"
#include "support/seeds.h"

namespace tombolo::control {
namespace {

SimDuration milliseconds(double ms) { return {static_cast<int64_t>(ms * 1e6)}; }

// A clock that starts anywhere and runs fast or slow by at most the drift that leases allow for.
struct OddClock {
  SimTime origin;
  double pace = 1;
  SimTime at(SimTime now) const {
    return origin + SimDuration{static_cast<int64_t>(static_cast<double>(now.ns) * pace)};
  }
};

struct Process {
  MemberId id = 0;
  size_t datacenter = 0;
  std::optional<size_t> wanted;  // nullopt: a spare, which waits for a rank
  std::optional<size_t> seat;    // the rank that it has
  OddClock clock;
  std::unique_ptr<Member> member;
  bool alive = true;
  SimTime paused_until;
};

class Ocean {
 public:
  explicit Ocean(uint64_t seed) : random_(Random(seed).stream("control ocean")) {
    terms_ = {.beat = milliseconds(100), .floor = milliseconds(500), .ceiling = milliseconds(2000)};
    datacenters_ = 1 + random_.below(3);
    const size_t seats = datacenters_ + random_.below(5);
    for (size_t i = 0; i < seats; ++i) {
      seats_.push_back({fmt::format("rank {}", i), name(i % datacenters_)});
      start(i % datacenters_, i);
    }
    const size_t spares = random_.below(3);
    for (size_t i = 0; i < spares; ++i) start(random_.below(datacenters_), std::nullopt);
    loss_ = random_.below(2) == 0 ? 0 : 0.2 * random_.uniform();
    delay_ms_ = 1 + 100 * random_.uniform();
    cut_.assign(datacenters_ * datacenters_, SimTime{});
  }

  void run() {
    restart_coordinator();
    every(milliseconds(20), [this] { check(); });
    every(milliseconds(30), [this] { tick(); });
    const SimDuration storm = milliseconds(30'000);
    for (int i = 0; i < 12; ++i) {
      at(SimTime{} + milliseconds(random_.uniform() * 30'000), [this] { trouble(); });
    }
    // The longest fence, then the longest lease, and some beats that are lost: then all are back.
    const SimTime calm = SimTime{} + storm + milliseconds(40'000);
    while (step(calm)) {
    }
    const auto last = working();
    EXPECT_EQ(last.size(), seats_.size()) << "they do not go on";
    EXPECT_GT(begun_, 0);
  }

  int epochs() const { return begun_; }
  int cuts_that_stopped_all() const { return long_cuts_; }

 private:
  static std::string name(size_t datacenter) { return fmt::format("dc{}", datacenter); }

  void at(SimTime when, std::function<void()> what) {
    queue_.push({when, sequence_++, std::move(what)});
  }
  void after(SimDuration span, std::function<void()> what) { at(now_ + span, std::move(what)); }
  void every(SimDuration span, std::function<void()> what) {
    after(span, [this, span, what] {
      what();
      every(span, what);
    });
  }
  bool step(SimTime until) {
    if (queue_.empty() || queue_.top().when > until || ::testing::Test::HasFailure()) return false;
    Happening next = queue_.top();
    queue_.pop();
    now_ = next.when;
    next.what();
    return true;
  }

  OddClock odd_clock() {
    return {SimTime{static_cast<int64_t>(random_.below(1'000'000'000'000))},
            1 + terms_.drift * (2 * random_.uniform() - 1)};
  }

  void start(size_t datacenter, std::optional<size_t> wanted) {
    auto process = std::make_shared<Process>();
    process->datacenter = datacenter;
    process->wanted = wanted;
    process->clock = odd_clock();
    begin_anew(*process);
    processes_.push_back(process);
  }
  // What was an epoch's member comes back as a new one.
  void begin_anew(Process& process) {
    process.id = ++ids_;
    if (process.seat) process.wanted = process.seat;
    process.seat.reset();
    process.member = std::make_unique<Member>(terms_);
  }

  bool is_cut(size_t from, size_t to) const { return cut_[from * datacenters_ + to] > now_; }
  void send(size_t from, size_t to, std::function<void()> arrive) {
    if (random_.uniform() < loss_) return;
    after(milliseconds(delay_ms_ * (0.5 + random_.uniform())), [this, from, to, arrive] {
      if (!is_cut(from, to)) arrive();
    });
  }

  // --- the coordinator, in datacenter 0 ---

  void restart_coordinator() {
    coordinator_clock_ = odd_clock();
    coordinator_.emplace(CoordinatorOptions{.terms = terms_,
                                            .seats = seats_,
                                            .losses_max = 1'000'000,
                                            .gather_max = milliseconds(15'000)},
                         journal_, coordinator_clock_.at(now_));
    carry_out();
  }
  // It may be killed behind any order.
  void carry_out() {
    for (const Instruction& order : coordinator_->orders()) {
      if (storming() && random_.below(2000) == 0) return kill_coordinator();
      if (const auto* write = std::get_if<Write>(&order)) {
        if (write->entry.kind == Entry::Kind::kBegun) {
          EXPECT_TRUE(used_.insert(write->entry.epoch).second) << "an epoch was used twice";
        }
        journal_.push_back(write->entry);
      }
      if (std::get_if<Begin>(&order)) ++begun_;
      if (const auto* answer = std::get_if<Answer>(&order)) reply(*answer);
    }
  }
  void kill_coordinator() {
    coordinator_.reset();
    after(milliseconds(3000 * random_.uniform()), [this] { restart_coordinator(); });
  }
  void reply(const Answer& answer) {
    for (const auto& process : processes_) {
      if (process->id != answer.member) continue;
      send(0, process->datacenter, [this, process, answer] {
        if (process->id == answer.member)
          when_awake(process, [this, process, answer] {
            if (process->id != answer.member) return;
            process->member->answered(answer.grant, process->clock.at(now_));
            if (answer.seat) process->seat = answer.seat;
          });
      });
    }
  }

  // --- members ---

  bool awake(const Process& process) const { return process.alive && process.paused_until <= now_; }
  void when_awake(const std::shared_ptr<Process>& process, std::function<void()> what) {
    if (!process->alive) return;
    if (awake(*process)) return what();
    at(process->paused_until, [this, process, what] { when_awake(process, what); });
  }
  void tick() {
    if (coordinator_ && coordinator_paused_until_ <= now_) {
      coordinator_->tick(coordinator_clock_.at(now_));
      carry_out();
    }
    for (const auto& process : processes_) {
      if (!awake(*process)) continue;
      const SimTime own = process->clock.at(now_);
      if (process->member->over(own)) begin_anew(*process);
      if (!process->wanted) process->wanted = vacant(process->datacenter);
      if (own < process->member->next_beat()) continue;
      const Beat beat = process->member->beat(own);
      send(process->datacenter, 0,
           [this, beat, id = process->id, wanted = process->wanted, in = process->datacenter] {
             hear(id, wanted, in, beat);
           });
    }
  }
  // As a launcher gives it to a spare: a rank for which no process is left.
  std::optional<size_t> vacant(size_t datacenter) const {
    for (size_t seat = datacenter; seat < seats_.size(); seat += datacenters_) {
      const bool wanted = std::any_of(processes_.begin(), processes_.end(), [&](const auto& p) {
        return p->alive && (p->seat == seat || p->wanted == seat);
      });
      if (!wanted) return seat;
    }
    return std::nullopt;
  }
  void hear(MemberId id, std::optional<size_t> wanted, size_t in, const Beat& beat) {
    if (!coordinator_) return;
    if (coordinator_paused_until_ > now_) {
      return at(coordinator_paused_until_, [=, this] { hear(id, wanted, in, beat); });
    }
    const SimTime own = coordinator_clock_.at(now_);
    if (beat.epoch == 0 && wanted) coordinator_->came(id, *wanted, name(in), own);
    coordinator_->beat(id, beat, own);
    carry_out();
  }

  // --- trouble ---

  bool storming() const { return now_ < SimTime{} + milliseconds(30'000); }
  void trouble() {
    switch (random_.below(7)) {
      case 0:
        return coordinator_ ? kill_coordinator() : void();
      case 1:
        coordinator_paused_until_ = now_ + milliseconds(4000 * random_.uniform());
        return;
      case 2:
      case 3:
        return kill_one();
      case 4:
        processes_[random_.below(processes_.size())]->paused_until =
            now_ + milliseconds(8000 * random_.uniform());
        return;
      case 5:
        if (!coordinator_ || coordinator_paused_until_ > now_) return;
        coordinator_->halt("its owner saw trouble", coordinator_clock_.at(now_));
        return carry_out();
      default:
        return cut();
    }
  }
  // The launcher may see it at once, or find out when the lease is over. It is restarted later.
  void kill_one() {
    const auto victim = processes_[random_.below(processes_.size())];
    if (!victim->alive) return;
    victim->alive = false;
    if (coordinator_ && random_.below(2) == 0) {
      coordinator_->ended(victim->id, "killed", coordinator_clock_.at(now_));
      carry_out();
    }
    const auto seat = victim->seat ? victim->seat : victim->wanted;
    after(milliseconds(6000 * random_.uniform()), [this, victim, seat] {
      bool taken = false;  // by a spare; then it is the spare
      for (const auto& other : processes_) {
        taken = taken || (other->alive && seat && (other->seat == seat || other->wanted == seat));
      }
      start(victim->datacenter, taken ? std::nullopt : seat);
    });
  }
  void cut() {
    if (datacenters_ < 2) return;
    const size_t a = random_.below(datacenters_);
    const size_t b = (a + 1 + random_.below(datacenters_ - 1)) % datacenters_;
    const SimTime until = now_ + milliseconds(12'000 * random_.uniform());
    cut_[a * datacenters_ + b] = std::max(cut_[a * datacenters_ + b], until);
    if (random_.below(3) > 0) {
      cut_[b * datacenters_ + a] = std::max(cut_[b * datacenters_ + a], until);
    }
    if (a != 0 && b != 0) return;
    // From the coordinator's datacenter, which hears the others as long as they have leases where
    // only its answers are lost; then it misses them; then its own may take a lease to be told.
    const SimTime over = now_ + terms_.stretched(terms_.ceiling) * 3 + milliseconds(500);
    if (over >= until) return;
    at(over, [this] {
      ++long_cuts_;
      EXPECT_TRUE(working().empty()) << "a part went on alone";
    });
  }

  // --- what must hold ---

  std::vector<const Process*> working() const {
    std::vector<const Process*> out;
    for (const auto& process : processes_) {
      if (awake(*process) && process->member->may_work(process->clock.at(now_))) {
        out.push_back(process.get());
      }
    }
    return out;
  }
  void check() {
    std::set<uint64_t> epochs;
    std::set<size_t> seats;
    for (const Process* process : working()) {
      epochs.insert(process->member->epoch());
      ASSERT_TRUE(process->seat) << "works without a seat";
      ASSERT_TRUE(seats.insert(*process->seat).second) << "two work on one seat";
      ASSERT_EQ(seats_[*process->seat].datacenter, name(process->datacenter));
    }
    ASSERT_LE(epochs.size(), 1u) << "two epochs work at once";
  }

  struct Happening {
    SimTime when;
    uint64_t sequence;
    std::function<void()> what;
    bool operator<(const Happening& o) const {
      return std::pair(when, sequence) > std::pair(o.when, o.sequence);
    }
  };

  Random random_;
  LeaseTerms terms_;
  size_t datacenters_ = 1;
  std::vector<Seat> seats_;
  double loss_ = 0, delay_ms_ = 1;
  std::vector<SimTime> cut_;  // until when nothing gets from one datacenter to another
  std::vector<std::shared_ptr<Process>> processes_;
  std::optional<Coordinator> coordinator_;
  OddClock coordinator_clock_;
  SimTime coordinator_paused_until_;
  std::vector<Entry> journal_;
  std::set<uint64_t> used_;
  MemberId ids_ = 0;
  int begun_ = 0, long_cuts_ = 0;
  SimTime now_;
  uint64_t sequence_ = 0;
  std::priority_queue<Happening> queue_;
};

TEST(ControlOcean, OneEpochWorksAtATimeNobodyAloneAndAllGoOnAfterTheStorm) {
  const auto count = static_cast<int>(seeds(100, 1000));
  int epochs = 0, cuts = 0;
  for (int seed = 1; seed <= count; ++seed) {
    Ocean ocean(static_cast<uint64_t>(seed));
    ocean.run();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    epochs += ocean.epochs();
    cuts += ocean.cuts_that_stopped_all();
  }
  EXPECT_GT(epochs, 2 * count) << "the storm stops nobody";
  EXPECT_GT(cuts, count / 10) << "hardly anything was cut for long";
  fmt::print("{} seeds: {} epochs, {} long cuts\n", count, epochs, cuts);
}

}  // namespace
}  // namespace tombolo::control
