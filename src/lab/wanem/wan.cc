#include "lab/wanem/wan.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::wanem {

// One direction between two datacenters.
struct Wan::Path {
  LinkShape shape;
  std::shared_ptr<const cluster::RateTrace> trace;  // the shape's, or null
  bool open = false;                                // whether the scenario has it
  Serialiser shared;
};

// One direction between two hosts.
struct Wan::Link {
  struct Piece {
    SimTime at;  // when it leaves the first stage, or arrives
    Cargo cargo;
  };
  int index;
  int from, to;
  Path* path;
  Serialiser own;
  Loss loss;
  Jitter jitter;
  std::deque<Piece> leaving;    // of the first stage, where there is a second
  std::deque<Piece> arriving;   // the delay line
  SimTime last_due{INT64_MIN};  // nothing overtakes
};

Wan::Wan(std::vector<Host> hosts, const Scenario& scenario, SimTime start, uint64_t seed,
         OnDrop on_drop)
    : hosts_(std::move(hosts)),
      datacenters_(static_cast<int>(scenario.datacenters.size())),
      start_(start),
      now_(start),
      random_(seed),
      on_drop_(std::move(on_drop)),
      paths_(scenario.datacenters.size() * scenario.datacenters.size()),
      links_(hosts_.size() * hosts_.size()) {
  for (const Host& host : hosts_) {
    CHECK(host.datacenter >= 0 && host.datacenter < datacenters_, "{} is in datacenter {} of {}",
          host.name, host.datacenter, datacenters_);
  }
  for (auto& path : paths_) path = std::make_unique<Path>();
  reload(start, scenario);
}

Wan::~Wan() = default;

Wan::Path& Wan::path(int from, int to) const {
  const int hosts = static_cast<int>(hosts_.size());
  CHECK(from >= 0 && from < hosts && to >= 0 && to < hosts, "from host {} to {} of {}", from, to,
        hosts);
  return *paths_[static_cast<size_t>(hosts_[from].datacenter * datacenters_ +
                                     hosts_[to].datacenter)];
}

bool Wan::connects(int from, int to) const { return path(from, to).open; }

std::optional<Bytes> Wan::tcp_window(int from, int to) const {
  return path(from, to).shape.tcp_window;
}

Wan::Link& Wan::link(int index) {
  const int count = static_cast<int>(hosts_.size());
  auto& slot = links_[static_cast<size_t>(index)];
  if (!slot) {
    const int from = index / count, to = index % count;
    slot = std::make_unique<Link>(
        Link{.index = index, .from = from, .to = to, .path = &path(from, to)});
    shape(start_, *slot);
  }
  return *slot;
}

void Wan::shape(SimTime now, Link& link) {
  const LinkShape& shape = link.path->shape;
  std::optional<BytesPerSecond> rate = shape.node_pair_rate;
  if (!shape.trace.empty()) rate = shape.trace.mean();
  link.own.reshape(now, {.rate = rate,
                         .trace = link.path->trace,
                         .origin = start_,
                         .limit = rate ? queue_limit(shape, *rate) : Bytes{}});
  const Random random = random_.stream(
      fmt::format("link/{}>{}/{}", hosts_[link.from].name, hosts_[link.to].name, generation_));
  link.loss = Loss(shape.loss, shape.loss_burst, random.stream("loss"));
  link.jitter = Jitter(shape.jitter, random.stream("jitter"));
}

void Wan::reload(SimTime now, const Scenario& scenario) {
  const Status sound = scenario.check();
  CHECK(sound && static_cast<int>(scenario.datacenters.size()) == datacenters_,
        "a scenario that was not checked");
  settle(now);
  ++generation_;
  for (auto& path : paths_) path->open = false;
  for (const Direction& direction : scenario.directions) {
    Path& path = *paths_[static_cast<size_t>(direction.from * datacenters_ + direction.to)];
    path.open = true;
    path.shape = direction.shape;
    path.trace.reset();
    if (!path.shape.trace.empty())
      path.trace = std::make_shared<cluster::RateTrace>(path.shape.trace);
    const auto rate = path.shape.path_rate;
    path.shared.reshape(now,
                        {.rate = rate, .limit = rate ? queue_limit(path.shape, *rate) : Bytes{}});
  }
  for (auto& link : links_) {
    if (link) shape(now, *link);
  }
}

void Wan::offer(SimTime now, int from, int to, const Cargo& cargo) {
  CHECK(connects(from, to), "nothing leads from {} to {}", hosts_[from].name, hosts_[to].name);
  CHECK(cargo.first < cargo.last && cargo.last <= cargo.frame_segments,
        "segments [{}, {}) of a frame of {}", cargo.first, cargo.last, cargo.frame_segments);
  settle(now);
  Link& link = this->link(from * static_cast<int>(hosts_.size()) + to);
  if (link.path->shared.limited() || !link.leaving.empty()) {
    pass_first_stage(now, link, cargo);
  } else {
    pass_last_stage(now, link, link.own, cargo);
  }
}

Cargo Wan::admit(SimTime now, Link& link, const Serialiser& stage, Cargo cargo) {
  const Cargo admitted = cargo.take(stage.admits(now, cargo));
  if (cargo.count() > 0) on_drop_(link.from, link.to, cargo, Fate::kDroppedByQueue);
  return admitted;
}

void Wan::pass_first_stage(SimTime now, Link& link, Cargo cargo) {
  cargo = admit(now, link, link.own, cargo);
  while (cargo.count() > 0) {
    const Cargo piece = cargo.take(link.own.segments_at_once(now, cargo));
    const SimTime end = link.own.send(now, piece.bytes());
    if (link.leaving.empty()) leaving_.push({end, link.index});
    link.leaving.push_back({end, piece});
  }
}

// Losses are drawn behind the last bottleneck: what is lost has used its share of the rate.
void Wan::pass_last_stage(SimTime now, Link& link, Serialiser& stage, Cargo cargo) {
  cargo = admit(now, link, stage, cargo);
  while (cargo.count() > 0) {
    const Loss::Run run = link.loss.take(cargo.count());
    Cargo part = cargo.take(run.length);
    if (run.lost) {
      stage.send(now, part.bytes());
      on_drop_(link.from, link.to, part, Fate::kDroppedByLoss);
      continue;
    }
    while (part.count() > 0) {
      const Cargo piece = part.take(stage.segments_at_once(now, part));
      const SimTime end = stage.send(now, piece.bytes());
      const SimDuration delay = link.path->shape.delay + link.jitter.at(end);
      link.last_due = std::max({link.last_due, end, end + delay});
      if (link.arriving.empty()) arriving_.push({link.last_due, link.index});
      link.arriving.push_back({link.last_due, piece});
    }
  }
}

// Hands over to the shared stages what has left the first ones by now, in the order of leaving.
void Wan::settle(SimTime now) {
  CHECK(now >= now_, "the WAN at {} ns goes back to {} ns", now_.ns, now.ns);
  now_ = now;
  while (!leaving_.empty() && leaving_.top().at <= now) {
    Link& link = this->link(leaving_.top().link);
    leaving_.pop();
    const Link::Piece piece = link.leaving.front();
    link.leaving.pop_front();
    pass_last_stage(piece.at, link, link.path->shared, piece.cargo);
    if (!link.leaving.empty()) leaving_.push({link.leaving.front().at, link.index});
  }
}

std::optional<Wan::Arrival> Wan::arrive(SimTime now) {
  settle(now);
  if (arriving_.empty() || arriving_.top().at > now) return std::nullopt;
  Link& link = this->link(arriving_.top().link);
  arriving_.pop();
  const Link::Piece piece = link.arriving.front();
  link.arriving.pop_front();
  if (!link.arriving.empty()) arriving_.push({link.arriving.front().at, link.index});
  return Arrival{link.from, link.to, piece.cargo, piece.at};
}

std::optional<SimTime> Wan::next() const {
  std::optional<SimTime> next;
  if (!leaving_.empty()) next = leaving_.top().at;
  if (!arriving_.empty() && (!next || arriving_.top().at < *next)) next = arriving_.top().at;
  return next;
}

uint64_t Wan::segments_inside() const {
  uint64_t count = 0;
  for (const auto& link : links_) {
    if (!link) continue;
    for (const Link::Piece& piece : link->leaving) count += piece.cargo.count();
    for (const Link::Piece& piece : link->arriving) count += piece.cargo.count();
  }
  return count;
}

}  // namespace tombolo::wanem
