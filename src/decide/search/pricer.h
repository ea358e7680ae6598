// Laws as the search sees them (search.h).
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "decide/search/search.h"
#include "predict/cost/law.h"
#include "spec/plan/job.h"

namespace tombolo::search {

// Unusable: what the law says against the job. The job has a model and one
// datacenter.
Result<std::unique_ptr<Pricer>> make_pricer(const plan::Job& job, cost::Law law);

}  // namespace tombolo::search
