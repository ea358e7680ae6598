#include "perform/run/takeover_shutdown.h"

#include <set>

namespace tombolo::run {

void say_farewell(Workers& workers, size_t ranks, const state::Over& over, SimDuration patience,
                  Threads& clock) {
  constexpr SimDuration kLookMax{50'000'000};
  const SimTime deadline = clock.now() + patience;
  std::set<int32_t> gone = {0};  // rank 0 was that launcher's child, and ended with it
  while (gone.size() < ranks && clock.now() < deadline) {
    workers.tell_spares(over);
    const auto event = workers.next(kLookMax);
    if (!event) continue;
    if (std::holds_alternative<Disconnected>(event->what)) gone.insert(event->rank);
    const auto* message = std::get_if<join::ControlMessage>(&event->what);
    // A failed send: the rank has disconnected, and either reconnects or never returns.
    if (message && std::holds_alternative<join::Hello>(*message))
      static_cast<void>(workers.tell(event->rank, over));
  }
}

}  // namespace tombolo::run
