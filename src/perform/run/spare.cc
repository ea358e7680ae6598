#include "perform/run/spare.h"

#include <algorithm>
#include <filesystem>
#include <variant>

#include "perform/join/control_message.h"
#include "perform/join/listen_address.h"
#include "perform/join/rendezvous.h"

namespace tombolo::run {
namespace {

constexpr SimDuration kSpareLooksAgain{200'000'000};
constexpr SimDuration kSpareCallMax{1'000'000'000};  // then it looks whether it was asked to end

class SpareSession {
 public:
  SpareSession(const SpareOptions& options, Threads& threads)
      : options_(options), start_(options.start), clock_(threads) {}

  Result<std::optional<int32_t>> wait() {
    patience_ends_ = clock_.now() + start_.join_max;
    while (!options_.asked_to_end()) {
      if (ended()) return std::nullopt;
      if (clock_.now() >= patience_ends_) return fail(nobody_there());
      if (!TRY(call())) {
        clock_.sleep_until(clock_.now() + kSpareLooksAgain);
        continue;
      }
      const Told told = TRY(listen());
      endpoint_.reset();
      if (told.seat || told.over) return told.seat;
      patience_ends_ = clock_.now() + start_.join_max;  // it was there until now
    }
    return std::nullopt;
  }

 private:
  struct Told {
    std::optional<int32_t> seat;
    bool over = false;  // no spare is needed any more
  };

  // Whether the run has ended, by its journal, if that was ever seen.
  bool ended() {
    if (options_.journal.empty()) return false;
    std::error_code ec;
    const bool there = std::filesystem::exists(options_.journal, ec);
    if (there) patience_ends_ = clock_.now() + start_.join_max;
    const bool over = std::exchange(journal_seen_, journal_seen_ || there) && !there;
    if (over) note("the run is over: its journal is gone");
    return over;
  }

  Error nobody_there() const {
    return {
        ErrorCode::kFailed,
        fmt::format("no run at {}: no answer for {:g} s", start_.launcher.text(),
                    seconds(start_.join_max).value),
        {},
        "rank 0 with the same --rendezvous and --restarts; without TOMBOLO_TOKEN the same --out"};
  }

  Result<std::optional<link::Token>> token() const {
    if (start_.token) return start_.token;
    return join::read_token_file(start_.token_file);
  }

  // True: the launcher took it.
  Result<bool> call() {
    const auto known = TRY(token());
    const auto at = address_now(start_);
    if (!known || !at) return false;
    transport::Endpoint::Options listener{.identity = {.rank = start_.ranks + 1 + number_,
                                                       .ranks = ranks_with_spares(start_.ranks),
                                                       .token = *known},
                                          .listen_address = at->listen,
                                          .network = options_.network,
                                          .credentials = TRY(join::credentials_of(start_.security)),
                                          .plain_tcp = start_.security.plain_tcp,
                                          .log = options_.log};
    join::outlive_cuts(listener, start_.terms);
    endpoint_ = TRY(options_.sockets->open(std::move(listener), clock_));
    const transport::Address& there = start_.launcher;
    const Status linked =
        endpoint_->connect(launcher(), there.host, there.port, {}, clock_.now() + kSpareCallMax);
    if (linked) {
      patience_ends_ = clock_.now() + start_.join_max;
      // False if the launcher ended meanwhile, because the next epoch gathers: the caller retries.
      return endpoint_
          ->send(launcher(), join::kControlTag,
                 join::encode(join::Waiting{options_.datacenter, options_.seat}))
          .has_value();
    }
    endpoint_.reset();
    const Error& error = linked.error();
    const bool is_duplicate = error.cause == ErrorCause::kDuplicateRank;
    if (is_duplicate) number_ = (number_ + 1) % kSparesMax;
    const bool may_change = error.code == ErrorCode::kLostPeer || is_duplicate ||
                            error.cause == ErrorCause::kAboutToEnd ||
                            (error.cause == ErrorCause::kTokenDiffers && !start_.token);
    if (!may_change) return fail(error);
    return false;
  }

  // Waits until a rank is vacant, the run has ended or the launcher is gone. In the last case the
  // caller connects again.
  Result<Told> listen() {
    while (!options_.asked_to_end()) {
      const SimTime until = clock_.now() + kSpareLooksAgain;
      const auto received = endpoint_->receive(launcher(), join::kControlTag, until);
      if (!received && clock_.now() < until) return Told{};  // it went away
      if (!received) continue;
      const join::ControlMessage message = TRY(join::decode(received->payload));
      if (const auto* seat = std::get_if<join::VacantRank>(&message)) {
        const bool wanted =
            options_.seat < 0 || seat->rank == options_.seat || !options_.datacenter.empty();
        if (wanted && seat->rank >= 0 && seat->rank < start_.ranks) return Told{.seat = seat->rank};
        return failed(fmt::format("the launcher offered rank {} of {}", seat->rank, start_.ranks));
      }
      const auto* stop = std::get_if<join::Stop>(&message);
      if (stop && stop->again) return Told{};
      if (stop) note("the run has ended: " + stop->reason);
      if (std::holds_alternative<state::Over>(message))
        note("the run is over; no rank was left for this process");
      if (stop || std::holds_alternative<state::Over>(message)) return Told{.over = true};
    }
    return Told{.over = true};
  }

  void note(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  int32_t launcher() const { return start_.ranks; }

  const SpareOptions& options_;
  const WorkerStart& start_;
  Threads& clock_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  int32_t number_ = 0;  // among the spares
  SimTime patience_ends_;
  bool journal_seen_ = false;
};

}  // namespace

Result<std::optional<int32_t>> wait_for_seat(const SpareOptions& options, Threads& threads) {
  return SpareSession(options, threads).wait();
}

}  // namespace tombolo::run
