// data/reference as it stood when the program was built.
#pragma once

#include <string_view>

namespace tombolo::published {

// By file name, as in reference_file("mlperf_training_v3.1_gpt3_175b.csv"). CHECKs that it exists.
// The bytes live as long as the program.
std::string_view reference_file(std::string_view name);

}  // namespace tombolo::published
