#include "lab/wanem/forwarder.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/check.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "lab/wanem/frame_pool.h"
#include "lab/wanem/lateness.h"
#include "lab/wanem/wan.h"
#include "lab/wanem/window_bound.h"

namespace tombolo::wanem {
namespace {

// Frames that are read from one device before the others and what is due have their turn.
constexpr int kReadsAtOnce = 16;

// How the thread learns by how much it oversleeps; see wait(). At first from a few sleeps.
constexpr SimDuration kOversleepStep{2'000}, kOversleepMax{300'000}, kFirstSleep{5'000'000};
constexpr int kFirstSleeps = 9;

// What one direction between two hosts has seen.
struct Tally {
  LinkCounters counters;
  Lateness lateness;
};

class ForwardingThread : public Forwarder {
 public:
  ForwardingThread(std::vector<Port> ports, const Scenario& scenario,
                   const ForwarderOptions& options, int wake_fd);
  ~ForwardingThread() override;

  Status reload(const Scenario& scenario) override;
  std::vector<LinkCounters> counters() const override;
  ForwarderReport report() const override;

 private:
  // Runs `work` on the forwarding thread between two rounds, and waits for it.
  void ask(std::function<void()> work) const;
  void answer();

  void run();
  void prepare_thread();
  void deliver(SimTime now);
  void write_piece(const Wan::Arrival& arrival);
  void read_from(int port);
  void take_in(int from, uint32_t size, SimTime came);
  void wait(SimTime now);
  void dropped(int from, int to, const Cargo& cargo, Wan::Fate fate);
  Tally& tally(int from, int to);
  void lose(int port);

  std::vector<Port> ports_;
  const ForwarderOptions options_;
  const std::vector<std::string> datacenters_;

  // Of the forwarding thread alone, once it runs.
  SystemClock clock_;
  Wan wan_;
  FramePool frames_;
  WindowBound window_bound_;
  std::unordered_map<uint32_t, int> port_of_address_;
  std::vector<std::unique_ptr<Tally>> tallies_;  // [from * ports + to]
  std::vector<pollfd> polled_;                   // the ports', then the one that wakes
  ForwarderReport report_;
  SimDuration oversleeps_;
  SimTime came_;     // the first frame that can be read, by estimate; see wait()
  SimTime offered_;  // the last frame's instant; they do not go back

  // How others reach the thread.
  mutable std::mutex mutex_;
  mutable std::condition_variable answered_;
  mutable std::function<void()> question_;
  mutable std::atomic<bool> asked_ = false;
  std::atomic<bool> stop_ = false;
  const int wake_fd_;
  std::thread thread_;
};

std::vector<Wan::Host> hosts_of(const std::vector<Port>& ports) {
  std::vector<Wan::Host> hosts;
  for (const Port& port : ports) hosts.push_back({port.name, port.datacenter});
  return hosts;
}

ForwardingThread::ForwardingThread(std::vector<Port> ports, const Scenario& scenario,
                                   const ForwarderOptions& options, int wake_fd)
    : ports_(std::move(ports)),
      options_(options),
      datacenters_(scenario.datacenters),
      wan_(hosts_of(ports_), scenario, clock_.now(), options.seed,
           [this](int from, int to, const Cargo& cargo, Wan::Fate fate) {
             dropped(from, to, cargo, fate);
           }),
      tallies_(ports_.size() * ports_.size()),
      wake_fd_(wake_fd) {
  for (size_t i = 0; i < ports_.size(); ++i) {
    port_of_address_[ports_[i].address] = static_cast<int>(i);
    polled_.push_back({ports_[i].tun_fd, POLLIN, 0});
  }
  polled_.push_back({wake_fd_, POLLIN, 0});
  thread_ = start_without_signals([this] { run(); });
  ask([] {});  // until it is ready for frames
}

ForwardingThread::~ForwardingThread() {
  stop_ = true;
  eventfd_write(wake_fd_, 1);
  thread_.join();
  close(wake_fd_);
}

void ForwardingThread::ask(std::function<void()> work) const {
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [&] { return !question_; });  // another caller's turn
  bool done = false;
  question_ = [&] {
    work();
    done = true;
  };
  asked_ = true;
  eventfd_write(wake_fd_, 1);
  answered_.wait(lock, [&] { return done; });
}

void ForwardingThread::answer() {
  const std::lock_guard lock(mutex_);
  question_();
  question_ = nullptr;
  asked_ = false;
  answered_.notify_all();
}

Status ForwardingThread::reload(const Scenario& scenario) {
  TRY(scenario.check());
  if (scenario.datacenters != datacenters_) {
    return unusable("the new scenario has other datacenters than the one that runs",
                    "the same datacenters in the same order; only links may change");
  }
  ask([&] { wan_.reload(clock_.now(), scenario); });
  return {};
}

std::vector<LinkCounters> ForwardingThread::counters() const {
  std::vector<LinkCounters> out;
  ask([&] {
    for (const auto& tally : tallies_) {
      if (!tally) continue;
      LinkCounters counters = tally->counters;
      counters.lateness_p50 = tally->lateness.quantile(0.5);
      counters.lateness_p99 = tally->lateness.quantile(0.99);
      counters.lateness_max = tally->lateness.max();
      out.push_back(counters);
    }
  });
  return out;
}

ForwarderReport ForwardingThread::report() const {
  ForwarderReport out;
  ask([&] {
    out = report_;
    timespec cpu{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    out.cpu = Seconds{static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec)};
  });
  return out;
}

void ForwardingThread::prepare_thread() {
  prctl(PR_SET_NAME, "wanem");
  prctl(PR_SET_TIMERSLACK, 1);  // wakes at the nanosecond asked for, not up to 50 us later
  if (options_.realtime_priority > 0) {
    sched_param parameters{};
    parameters.sched_priority = options_.realtime_priority;
    report_.realtime = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameters) == 0;
  }
  std::array<SimDuration, kFirstSleeps> late;
  for (SimDuration& one : late) {
    const SimTime due = clock_.now() + kFirstSleep;
    clock_.sleep_until(due);
    one = clock_.now() - due;
  }
  std::nth_element(late.begin(), late.begin() + kFirstSleeps / 2, late.end());
  oversleeps_ = std::min(late[kFirstSleeps / 2], kOversleepMax);
}

void ForwardingThread::run() {
  prepare_thread();
  while (!stop_) {
    if (asked_) answer();
    deliver(clock_.now());
    wait(clock_.now());
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (polled_[i].revents != 0) read_from(static_cast<int>(i));
    }
  }
  if (asked_) answer();
}

// Waits until a device is readable, a frame is due, or another thread wakes it. Timers fire on
// time, but the thread runs some tens of microseconds later, most of it the same every time. So it
// asks to be woken earlier by what it usually oversleeps (a median, tracked in steps), and polls
// for the rest. A frame that wakes it has waited just as long for the thread to run, and so counts
// as having come that much earlier.
void ForwardingThread::wait(SimTime now) {
  timespec timeout{.tv_sec = 3600, .tv_nsec = 0};
  SimDuration sleep;
  if (const auto next = wan_.next()) {
    sleep = std::max(*next - now - oversleeps_, SimDuration{});
    timeout = {.tv_sec = sleep.ns / 1'000'000'000, .tv_nsec = sleep.ns % 1'000'000'000};
  }
  const int ready = ppoll(polled_.data(), polled_.size(), &timeout, nullptr);
  const SimTime woken = clock_.now();
  came_ = std::max(now, woken - oversleeps_);
  if (ready <= 0) {
    for (pollfd& polled : polled_) polled.revents = 0;
    if (ready == 0 && sleep.ns > 0) {
      const bool more = woken - now - sleep > oversleeps_;
      oversleeps_ = std::clamp(oversleeps_ + (more ? kOversleepStep : kOversleepStep * -1),
                               SimDuration{}, kOversleepMax);
    }
    return;
  }
  if (polled_.back().revents != 0) {
    eventfd_t ignored;
    eventfd_read(wake_fd_, &ignored);
  }
}

void ForwardingThread::read_from(int port) {
  const int fd = ports_[static_cast<size_t>(port)].tun_fd;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t size = read(fd, frames_.space(), kFrameMax);
    if (size > 0) {
      offered_ = std::max(offered_, i == 0 ? came_ : clock_.now());
      take_in(port, static_cast<uint32_t>(size), offered_);
    } else if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    } else {
      return lose(port);
    }
  }
}

// A device that is gone would be readable for ever. poll ignores negative descriptors.
void ForwardingThread::lose(int port) {
  polled_[static_cast<size_t>(port)].fd = -1;
  polled_[static_cast<size_t>(port)].revents = 0;
  report_.lost.push_back(ports_[static_cast<size_t>(port)].name);
}

void ForwardingThread::take_in(int from, uint32_t size, SimTime came) {
  const Packet packet = parse_packet({frames_.space(), size});
  if (packet.kind == PacketKind::kBroken) {
    ++report_.frames_broken;
    return;
  }
  const auto found = packet.kind == PacketKind::kIpv4 ? port_of_address_.find(packet.destination)
                                                      : port_of_address_.end();
  if (found == port_of_address_.end() || !wan_.connects(from, found->second)) {
    ++report_.frames_foreign;
    return;
  }
  const int to = found->second;
  window_bound_.pass({frames_.space(), size}, packet, wan_.tcp_window(from, to));
  const Cargo cargo{.frame = frames_.keep(size, packet),
                    .first = 0,
                    .last = packet.segments,
                    .frame_segments = packet.segments,
                    .segment_bytes = packet.segment_bytes(),
                    .last_bytes = packet.last_segment_bytes()};
  LinkCounters& counters = tally(from, to).counters;
  ++counters.frames;
  counters.segments += packet.segments;
  counters.bytes += cargo.bytes();
  wan_.offer(came, from, to, cargo);
}

void ForwardingThread::dropped(int from, int to, const Cargo& cargo, Wan::Fate fate) {
  LinkCounters& counters = tally(from, to).counters;
  (fate == Wan::Fate::kDroppedByQueue ? counters.dropped_by_queue : counters.dropped_by_loss) +=
      cargo.count();
  frames_.release(cargo.frame, cargo.count());
}

void ForwardingThread::deliver(SimTime now) {
  while (const auto arrival = wan_.arrive(now)) {
    write_piece(*arrival);
    frames_.release(arrival->cargo.frame, arrival->cargo.count());
  }
}

void ForwardingThread::write_piece(const Wan::Arrival& arrival) {
  Tally& tally = this->tally(arrival.from, arrival.to);
  const Cargo& cargo = arrival.cargo;
  const Frame& frame = frames_[cargo.frame];
  const int fd = ports_[static_cast<size_t>(arrival.to)].tun_fd;
  tally.lateness.add(clock_.now() - arrival.due);
  ssize_t written;
  if (cargo.count() == cargo.frame_segments) {
    written = write(fd, frame.buffer.get(), frame.size);
  } else {
    PacketSlice slice = cut(frame.bytes(), frame.packet, cargo.first, cargo.last);
    const iovec parts[] = {
        {slice.head_bytes.data(), slice.head_size},
        {const_cast<uint8_t*>(slice.payload.data()), slice.payload.size()},
    };
    written = writev(fd, parts, 2);
  }
  if (written < 0) {
    ++tally.counters.writes_failed;
    return;
  }
  tally.counters.segments_delivered += cargo.count();
  tally.counters.bytes_delivered += cargo.bytes();
}

Tally& ForwardingThread::tally(int from, int to) {
  auto& slot = tallies_[static_cast<size_t>(from) * ports_.size() + static_cast<size_t>(to)];
  if (!slot) {
    slot = std::make_unique<Tally>();
    slot->counters.from = ports_[static_cast<size_t>(from)].name;
    slot->counters.to = ports_[static_cast<size_t>(to)].name;
  }
  return *slot;
}

Status check_ports(const std::vector<Port>& ports, const Scenario& scenario) {
  std::unordered_map<uint32_t, std::string> seen;
  for (const Port& port : ports) {
    if (port.tun_fd < 0 || fcntl(port.tun_fd, F_GETFL) < 0) {
      return unusable(fmt::format("{}: {} is no open descriptor", port.name, port.tun_fd));
    }
    if (!(fcntl(port.tun_fd, F_GETFL) & O_NONBLOCK)) {
      return unusable(fmt::format("{}: its device would block", port.name), "O_NONBLOCK");
    }
    const int count = static_cast<int>(scenario.datacenters.size());
    if (port.datacenter < 0 || port.datacenter >= count) {
      return unusable(fmt::format("{}: there is no datacenter {}", port.name, port.datacenter));
    }
    const auto [other, fresh] = seen.try_emplace(port.address, port.name);
    if (!fresh) {
      return unusable(fmt::format("{} and {} have the same address", other->second, port.name));
    }
  }
  return {};
}

double in_us(SimDuration d) { return static_cast<double>(d.ns) * 1e-3; }

}  // namespace

Status enable_offloads(int tun_fd) {
  int header = kVnetHeader;
  if (ioctl(tun_fd, TUNSETVNETHDRSZ, &header) != 0 ||
      ioctl(tun_fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO_ECN) != 0) {
    return unusable(
        fmt::format("cannot enable the offloads of a TUN device: {}", std::strerror(errno)),
        "a device with IFF_TUN | IFF_NO_PI | IFF_VNET_HDR");
  }
  return {};
}

std::string LinkCounters::brief() const {
  return fmt::format(
      "{} -> {}: {} frames, {} segments, {:.1f} MB; {:.1f} MB delivered; dropped {} by queue, {} "
      "by "
      "loss; {} writes failed; late p50 {:.0f} us, p99 {:.0f} us, max {:.0f} us",
      from, to, frames, segments, static_cast<double>(bytes) * 1e-6,
      static_cast<double>(bytes_delivered) * 1e-6, dropped_by_queue, dropped_by_loss, writes_failed,
      in_us(lateness_p50), in_us(lateness_p99), in_us(lateness_max));
}

std::string ForwarderReport::brief() const {
  return fmt::format("{} thread, {:.2f} s of CPU; {} frames without a receiver, {} broken{}{}",
                     realtime ? "real-time" : "ordinary", cpu.value, frames_foreign, frames_broken,
                     lost.empty() ? "" : "; devices gone: ", fmt::join(lost, ", "));
}

Result<std::unique_ptr<Forwarder>> Forwarder::start(std::vector<Port> ports,
                                                    const Scenario& scenario,
                                                    const ForwarderOptions& options) {
  TRY(scenario.check());
  TRY(check_ports(ports, scenario));
  if (options.realtime_priority < 0 || options.realtime_priority > 99) {
    return unusable(fmt::format("realtime_priority = {}: must lie between 0 and 99",
                                options.realtime_priority));
  }
  const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd < 0) return failed(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  return std::make_unique<ForwardingThread>(std::move(ports), scenario, options, wake_fd);
}

}  // namespace tombolo::wanem
