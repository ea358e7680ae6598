// What `tombolo strand` says in the terminal and on its page alike, and the page.
#pragma once

#include <string>
#include <vector>

#include "predict/strand/plan_strands.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {

// The model, its machines and degrees, how many operators.
std::string strand_headline(const plan::Job& job, const strand::StrandAnswer& answer);

// What communication is for, where it hides and where it does not: what, time, share, remark.
std::vector<std::vector<std::string>> exposure_rows(const strand::Exposure& exposure);

// The page of --report.
std::string strand_page(const StrandCommandOptions& options, const plan::Job& job,
                        const strand::StrandAnswer& answer);

}  // namespace tombolo::predict_commands
