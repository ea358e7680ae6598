// The ocean's doors for ranks that can only call out: who is joined with whom is decided by the code
// that sockets use (link/splice.h), what is joined is a link by way of the listener's host. It lasts as
// long as the launcher's process; then both ends call again, in vain, for the link's grace.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "perform/link/splice.h"
#include "perform/run/workers.h"
#include "support/ocean_sea.h"

namespace tombolo::ocean {

class OceanSpliceListener : public Belonging {
 public:
  OceanSpliceListener(Sea& sea, Process& process, transport::SpliceListener::Options options)
      : sea_(sea), process_(process), options_(std::move(options)), number_(++sea.attempts_) {
    process_.belongings.push_back(this);
    sea_.splices_[number_] = this;
  }
  ~OceanSpliceListener() override { close(); }
  void process_ended(bool) override { close(); }

  int host() const { return process_.host; }
  uint16_t port() const { return options_.port; }
  uint64_t number() const { return number_; }

  // Who called; the two of a pair that is complete now, the one that called first in front.
  using Pair = std::pair<link::Pairing::Id, link::Pairing::Id>;
  struct Answer {
    std::optional<Pair> joined;
    std::optional<link::Pairing::Id> replaced;
  };
  Result<Answer> call(link::Pairing::Id id, const link::Preface& preface) {
    link::SpliceCall wanted = TRY(link::decode_preface(options_.token, options_.ranks, preface));
    if (sea_.bug_ == Bug::kSplicedWithAnother) {
      wanted.from = any_++ % 2;
      wanted.to = 1 - wanted.from;
    }
    const link::Pairing::Answer answer = pairing_.add(id, wanted);
    Answer out{.joined = {}, .replaced = answer.replaced};
    if (answer.partner) out.joined = {*answer.partner, id};
    return out;
  }
  void hang_up(link::Pairing::Id id) { pairing_.remove(id); }

 private:
  void close() {
    if (sea_.splices_.erase(number_) == 0) return;
    std::erase(process_.belongings, this);
    sea_.lose_spliced(number_);
  }

  Sea& sea_;
  Process& process_;
  const transport::SpliceListener::Options options_;
  const uint64_t number_;
  link::Pairing pairing_;
  int32_t any_ = 0;
};

inline OceanSpliceListener* find_splice(const Sea& sea, const std::string& host, uint16_t port) {
  for (const auto& [number, listener] : sea.splices_) {
    if (address_of(listener->host()) == host && listener->port() == port) return listener;
  }
  return nullptr;
}

// As a launcher opens one.
inline run::OpenSplice open_splice_in(Sea& sea, Process& process) {
  return [&sea, &process](transport::SpliceListener::Options options) -> Result<run::Splice> {
    const uint16_t port = options.port;
    return run::Splice{std::make_shared<OceanSpliceListener>(sea, process, std::move(options)),
                       port};
  };
}

}  // namespace tombolo::ocean
