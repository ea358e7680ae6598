// A loop over indices that several threads share.
//
//   parallel_for(rows.size(), threads, [&](size_t i) { rows[i] = answer(i); });
//
// Which thread runs which index is not defined, so a result belongs to its index, and equal inputs
// give equal outputs whatever the number of threads. The calling thread works, too.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>

namespace tombolo {

// Calls work(i) once for each i below `count`, lower ones first; returns when all are done. Where `work` throws, or this thread's
// work is interrupted or out of time (interruption.h), no more is begun, and the calling thread throws the first exception. Cost: an atomic increment per index and a thread per helper.
void parallel_for(size_t count, int threads, const std::function<void(size_t)>& work);

// A thread with signals blocked: they are for the program's own threads. Processes that it starts
// inherit that.
std::thread start_without_signals(std::function<void()> work);

// The number of threads that a user asked for; 0: as many as this machine runs at once.
int threads_or_all(int asked);

}  // namespace tombolo
