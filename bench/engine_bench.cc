// How many events per second does the event queue handle, with how many waiting?
//
//   engine_bench [--events 5000000]
//
// The hold model: as many events wait all the time; each one popped pushes another a random span
// ahead. Spans are uniform, exponential or all equal (many events an instant). Every run is
// repeated on a binary heap ordered by (time, sequence), whose order of events must be the same;
// `ratio` is how many times faster the queue is. One JSON line each, of CPU time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <queue>

#include "base/check.h"
#include "base/random.h"
#include "predict/engine/event_queue.h"

namespace {

using namespace tombolo;
using engine::Event;

class Heap {
 public:
  void push(SimTime time, uint32_t kind, uint64_t subject) {
    heap_.push({time, pushed_++, kind, subject});
  }
  Event pop() {
    const Event event = heap_.top();
    heap_.pop();
    fingerprint_.add(static_cast<uint64_t>(event.time.ns));
    fingerprint_.add(event.kind);
    fingerprint_.add(event.subject);
    return event;
  }
  std::string fingerprint() const { return fingerprint_.text(); }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
    }
  };
  std::priority_queue<Event, std::vector<Event>, Later> heap_;
  uint64_t pushed_ = 0;
  Fingerprint fingerprint_;
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Held {
  double seconds = 0;
  std::string fingerprint;
};

// Spans are drawn beforehand, so that only the queue is timed.
template <typename Queue>
Held hold(const std::vector<int64_t>& spans, uint64_t waiting, uint64_t events) {
  Queue queue;
  const uint64_t mask = spans.size() - 1;
  for (uint64_t i = 0; i < waiting; ++i) queue.push({spans[i & mask]}, 0, i);
  const double begin = cpu_seconds();
  for (uint64_t i = 0; i < events; ++i) {
    const Event event = queue.pop();
    queue.push({event.time.ns + spans[(i + waiting) & mask]}, 0, event.subject);
  }
  return {cpu_seconds() - begin, queue.fingerprint()};
}

std::vector<int64_t> spans_of(const char* kind) {
  Random random(1);
  std::vector<int64_t> out(1 << 16);
  for (int64_t& span : out) {
    if (std::strcmp(kind, "uniform") == 0) {
      span = static_cast<int64_t>(random.below(2'000'000));
    } else if (std::strcmp(kind, "exponential") == 0) {
      span = static_cast<int64_t>(-1e6 * std::log(1 - random.uniform()));
    } else {
      span = 1'000'000;
    }
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t events = 5'000'000;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--events") == 0) events = std::strtoull(argv[i + 1], nullptr, 10);
  }
  for (const char* kind : {"uniform", "exponential", "equal"}) {
    const std::vector<int64_t> spans = spans_of(kind);
    for (const uint64_t waiting : {100u, 10'000u, 1'000'000u}) {
      std::vector<double> seconds;
      Held queue;
      for (int repeat = 0; repeat < 5; ++repeat) {
        queue = hold<engine::EventQueue>(spans, waiting, events);
        seconds.push_back(queue.seconds);
      }
      std::sort(seconds.begin(), seconds.end());
      const Held heap = hold<Heap>(spans, waiting, events);
      CHECK(queue.fingerprint == heap.fingerprint, "another order of events than the heap's");
      fmt::print(
          "{{\"question\": \"event queue\", \"spans\": \"{}\", \"waiting\": {}, "
          "\"million_events_per_second\": {:.1f}, \"slowest\": {:.1f}, \"heap\": {:.1f}, "
          "\"ratio\": {:.2f}}}\n",
          kind, waiting, static_cast<double>(events) / seconds[2] / 1e6,
          static_cast<double>(events) / seconds[4] / 1e6,
          static_cast<double>(events) / heap.seconds / 1e6, heap.seconds / seconds[2]);
      std::fflush(stdout);
    }
  }
}
