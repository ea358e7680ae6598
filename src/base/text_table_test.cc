#include "base/text_table.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheirCells) {
  TextTable table({"", "iteration", "MFU", text_column("parallelism")});
  table.row({"1.", "41.3 ms", "52.0 %", "tensor 8"});
  table.row({"10.", "1.2 s", "8.1 %", "tensor 4, pipeline 2"});
  EXPECT_EQ(table.text(),
            "       iteration     MFU  parallelism\n"
            "   1.    41.3 ms  52.0 %  tensor 8\n"
            "  10.      1.2 s   8.1 %  tensor 4, pipeline 2\n");
}

TEST(TextTable, HasNoLineOfTitlesWhereNoColumnHasOne) {
  TextTable table({text_column(), ""}, "");
  table.row({"a", "10"});
  table.row({"long", "9"});
  EXPECT_EQ(table.text(), "a     10\nlong   9\n");
}

TEST(TextTable, WhatStandsAfterARowOrBetweenRowsMakesNoColumnWider) {
  TextTable table({"cells", "cost"});
  table.row({"12"}, "infeasible: too few GPUs");
  table.line("a note");
  table.row({"3", "5 USD"});
  EXPECT_EQ(table.text(),
            "  cells   cost\n"
            "     12  infeasible: too few GPUs\n"
            "a note\n"
            "      3  5 USD\n");
}

TEST(TextTable, CountsCharactersAndNotBytesAndEndsNoLineInSpaces) {
  TextTable table({text_column("name"), text_column("is")});
  table.row({"Zürich", ""});
  table.row({"Bern", "far"});
  EXPECT_EQ(table.text(), "  name    is\n  Zürich\n  Bern    far\n");
}

}  // namespace
}  // namespace tombolo
