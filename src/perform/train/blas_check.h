// Which BLAS does the matrix products? LibTorch takes whatever libblas.so.3 the loader finds.
//
// Debian's default, netlib's reference implementation, reaches 6 GFLOP/s a core where OpenBLAS
// reaches 90 or more, so a run on it is refused rather than silently fifteen times slower.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo::train {

// The file of the loaded library that provides sgemm_, links resolved; empty if none does.
std::string blas_library();

// Unusable, saying what to install or switch, when the library is netlib's or there is none.
Status check_blas();
Status check_blas(const std::string& library);

// netlib's library is recognised by what it lacks: every fast BLAS brings its own file, while
// netlib's stands in a folder "blas" as libblas.so.3.x (Debian, Ubuntu), or is libblas.so.3.x
// itself (no alternatives).
bool is_netlib(std::string_view library);

// OpenBLAS with POSIX threads ignores the number of OpenMP threads that LibTorch sets; this asks
// it for as many. False: this BLAS is another one.
bool use_blas_threads(int threads);

}  // namespace tombolo::train
