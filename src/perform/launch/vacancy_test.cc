#include "perform/launch/vacancy.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "support/folder_test.h"

namespace tombolo::launch {
namespace {

using VacancyTest = FolderTest;

TEST_F(VacancyTest, TwoSparesAndOneSeat) {
  EXPECT_EQ(read_vacancy(folder_)->has_value(), false);
  const Vacancy vacancy{.epoch = 3, .ranks = {2, 5}};
  ASSERT_TRUE(write_vacancy(folder_, vacancy));
  EXPECT_EQ(**read_vacancy(folder_), vacancy);
  EXPECT_TRUE(*claim_seat(folder_, 3, 2));
  EXPECT_FALSE(*claim_seat(folder_, 3, 2)) << "the second spare is late";
  EXPECT_TRUE(*claim_seat(folder_, 3, 5)) << "and takes the other seat";
}

// Who claimed a seat and did not come: the next epoch offers it again.
TEST_F(VacancyTest, AnotherEpochAsksAnew) {
  ASSERT_TRUE(write_vacancy(folder_, {.epoch = 3, .ranks = {2}}));
  EXPECT_TRUE(*claim_seat(folder_, 3, 2));
  remove_vacancies(folder_);
  EXPECT_EQ(read_vacancy(folder_)->has_value(), false);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_TRUE(*claim_seat(folder_, 4, 2));
}

TEST_F(VacancyTest, ADamagedNoteIsNamed) {
  ASSERT_TRUE(write_file(folder_ + "/vacant.json", "{\"epoch\": 3, \"ranks\": \"all\"}"));
  const auto read = read_vacancy(folder_);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("vacant.json"), std::string::npos) << read.error().text();
}

TEST_F(VacancyTest, AFolderThatIsNotThere) {
  EXPECT_EQ(claim_seat(folder_ + "/none", 1, 0).error().code, ErrorCode::kUnusable);
}

using VacancyDeathTest = VacancyTest;

TEST_F(VacancyDeathTest, ANoteOffersSomething) {
  EXPECT_DEATH(static_cast<void>(write_vacancy(folder_, {.epoch = 3, .ranks = {}})),
               "epoch 3 offers no seat");
}

}  // namespace
}  // namespace tombolo::launch
