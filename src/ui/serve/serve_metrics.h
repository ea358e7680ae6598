// What a server has done, as the text of /metrics (Prometheus' exposition format 0.0.4): counts and
// times, no prompts, no keys. Any thread may call any of it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/time.h"

namespace tombolo::serve {

class ServeMetrics {
 public:
  void request(const std::string& path, int status);  // `path`: one of the server's own
  void prompt_tokens(int64_t count);
  void answer_token();
  void first_token(SimDuration since_arrival);
  void left();  // a client went before its answer was complete
  void running(int64_t change);

  std::string text(int64_t waiting) const;

 private:
  // Seconds to the first token, upper ends; one more for all others.
  static constexpr std::array kEnds = {0.01, 0.025, 0.05, 0.1,  0.25, 0.5,
                                       1.0,  2.5,   5.0,  10.0, 30.0};

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
  std::array<int64_t, kEnds.size() + 1> first_tokens_{};
  double first_token_sum_s_ = 0;
  int64_t prompt_tokens_ = 0, answer_tokens_ = 0, left_ = 0, running_ = 0;
};

}  // namespace tombolo::serve
