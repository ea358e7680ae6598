#include "base/field_catalog.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace catalogued {

enum class Colour { kRed, kBlue };
constexpr auto enum_names(Colour) {
  return std::to_array<EnumName<Colour>>({{Colour::kRed, "red"}, {Colour::kBlue, "blue"}});
}

struct Wheel {
  double radius = 0.5;
};
template <class Archive>
void describe(Archive& a, Wheel& wheel) {
  a.optional("radius", wheel.radius, "of the tyre");
  a.check(wheel.radius > 0, "radius", "must be positive");
}

struct Car {
  std::string name;
  Colour colour = Colour::kBlue;
  std::vector<Wheel> wheels;
  std::optional<Seconds> age;
  int64_t seats = 4;
};
template <class Archive>
void describe(Archive& a, Car& car) {
  a.required("name", car.name, "of the car");
  a.optional("colour", car.colour, "outside");
  a.optional("wheel", car.wheels, "that it stands on");
  a.optional("age", car.age, "since it was built");
  a.check(true, "age", "must be 0 with colour = \"red\"");
  Value raw;
  a.optional("seats", raw);  // looks what it is, first
  a.optional("seats", car.seats, {"for people", "number or \"auto\""});
  a.check(car.seats > 1, "seats", fmt::format("must be less than doors = {}", car.seats));
}

}  // namespace catalogued

TEST(FieldCatalog, HasEveryKeyWithWhatItMeans) {
  const std::vector<KeyEntry> keys = keys_of<catalogued::Car>("car");
  ASSERT_EQ(keys.size(), 6);
  EXPECT_EQ(keys[0],
            (KeyEntry{.path = "car.name", .kind = "text", .text = "of the car", .required = true}));
  EXPECT_EQ(keys[1].kind, "\"red\", \"blue\"");
  EXPECT_EQ(keys[1].default_value, "\"blue\"");
  EXPECT_EQ(keys[2].kind, "list of tables");
  EXPECT_TRUE(keys[2].is_table);
  EXPECT_EQ(keys[3].path, "car.wheel.radius");
  EXPECT_EQ(keys[3].table(), "car.wheel");
  EXPECT_EQ(keys[3].name(), "radius");
  EXPECT_EQ(keys[3].limits, "must be positive");
  EXPECT_EQ(keys[3].default_value, "0.5");
  EXPECT_TRUE(keys[4].kind.starts_with("text such as"));
  EXPECT_EQ(keys[4].default_value, "");
  EXPECT_EQ(keys[5].kind, "number or \"auto\"");
  EXPECT_EQ(keys[5].default_value, "4");
  EXPECT_EQ(keys[5].limits, "must be less than doors");
  EXPECT_EQ(keys[4].limits, "");  // depends on what else the file says
}

TEST(FieldCatalog, TakesKeysThatAnotherReaderDescribes) {
  std::vector<KeyEntry> keys = keys_of<catalogued::Car>();
  graft(keys, "name", keys_of<catalogued::Wheel>());
  EXPECT_EQ(keys[1].path, "name.radius");
  EXPECT_TRUE(keys[0].is_table);
}

}  // namespace tombolo
