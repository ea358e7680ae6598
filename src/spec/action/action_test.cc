#include "spec/action/action.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::action {
namespace {

TEST(Action, TextReadsBack) {
  for (const auto& entry : enum_names(ActionKind{})) {
    for (const int32_t stage : {0, 1, 99'999, INT32_MAX}) {
      for (const int32_t microbatch : {-1, 0, 7, INT32_MAX}) {
        const Action action{entry.value, stage, microbatch};
        const Result<Action> again = parse_action(to_text(action));
        ASSERT_TRUE(again) << again.error().text();
        EXPECT_EQ(*again, action) << to_text(action);
      }
    }
  }
}

TEST(Action, SpeaksTorchtitansNotation) {
  EXPECT_EQ(to_text({ActionKind::kForward, 0, 1}), "0F1");
  EXPECT_EQ(to_text({ActionKind::kSendGradient, 3, 12}), "3SEND_B12");
  EXPECT_EQ(to_text({ActionKind::kUpdate, 2, -1}), "2U");
}

TEST(Action, RefusesWhatIsNone) {
  for (const char* text : {"", "F", "0", "F0", "0X1", "0F-1", "-1F0", "0f1", "0F1 ", " 0F1", "0F1F",
                           "0SEND_1", "99999999999F0", "0F99999999999", "0F1.5"}) {
    const Result<Action> action = parse_action(text);
    ASSERT_FALSE(action) << text;
    EXPECT_EQ(action.error().exit_code(), 2);
    EXPECT_THAT(action.error().text(), ::testing::HasSubstr("is not an action"));
  }
}

}  // namespace
}  // namespace tombolo::action
