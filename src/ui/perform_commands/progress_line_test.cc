#include "ui/perform_commands/progress_line.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tombolo::perform_commands {
namespace {

observe::Progress at(int64_t step) {
  observe::Progress progress;
  progress.step = step;
  progress.steps = 60;
  progress.loss = 2.7131;
  progress.tokens_per_s = 6100;
  progress.iteration = 672_ms;
  progress.remaining = 33_s;
  return progress;
}

TEST(ProgressLine, says_what_a_person_wants_to_know) {
  EXPECT_EQ(progress_text(at(12)),
            "step 12/60  loss 2.7131  6100 tokens/s  672 ms/iteration  33 s to go");
}

TEST(ProgressLine, leaves_out_a_loss_that_nobody_computes) {
  observe::Progress progress = at(1);
  progress.loss.reset();
  progress.tokens_per_s = 123'456;
  EXPECT_EQ(progress_text(progress), "step 1/60  123.5 k tokens/s  672 ms/iteration  33 s to go");
}

TEST(ProgressLine, leaves_out_tokens_where_no_model_has_any) {
  observe::Progress progress = at(12);
  progress.tokens_per_s.reset();
  EXPECT_EQ(progress_text(progress), "step 12/60  loss 2.7131  672 ms/iteration  33 s to go");
}

TEST(ProgressLine, writes_over_its_line_on_a_terminal_and_ends_it_before_a_note) {
  ManualClock clock;
  std::ostringstream out;
  ProgressLine line(out, true, clock);
  line.show(at(1));
  line.note("checkpoint");
  EXPECT_EQ(out.str(),
            "\r\033[K[........................] " + progress_text(at(1)) + "\ncheckpoint\n");
}

TEST(ProgressLine, keeps_logs_short_but_never_leaves_out_the_last_step) {
  ManualClock clock;
  std::ostringstream out;
  ProgressLine line(out, false, clock);
  line.show(at(1));  // the first is always shown
  clock.advance({4'999'999'999});
  line.show(at(2));  // less than five seconds later: not
  clock.advance({1});
  line.show(at(3));   // five seconds after the first
  line.show(at(60));  // the last
  EXPECT_EQ(out.str(), progress_text(at(1)) + "\n" + progress_text(at(3)) + "\n" +
                           progress_text(at(60)) + "\n");
}

}  // namespace
}  // namespace tombolo::perform_commands
