// What the exports to other programs share.
#pragma once

#include <string_view>

#include "decide/search/export.h"

namespace tombolo::search::detail {

// Whether `order`, innermost first, numbers ranks as the job's does. Only kinds of ranks that there
// are several of tell; where experts lie follows from the others.
bool same_order(const layout::Parallelism& p, std::string_view order);

// Whether chunks hold different numbers of layers.
bool uneven(const plan::Job& job);

// Of a pipeline.
int64_t microbatches(const plan::Job& job);

// Notes what either program leaves to its user or has not.
void leave_out_for_all(const plan::Job& job, Export& out);

}  // namespace tombolo::search::detail
