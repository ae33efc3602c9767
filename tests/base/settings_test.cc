#include "base/settings.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme {
namespace {

TEST(Settings, TextGivesNameAndNumbers) {
  EXPECT_EQ(Settings::parse("lenet").name, "lenet");
  EXPECT_TRUE(Settings::parse("lenet").numbers.empty());
  const Settings settings = Settings::parse("gpt:layers=4,dropout=0.1");
  EXPECT_EQ(settings.name, "gpt");
  EXPECT_EQ(settings.count("layers", 12), 4);
  EXPECT_EQ(settings.number("dropout", 0), 0.1);
  EXPECT_EQ(settings.count("heads", 12), 12);
}

TEST(Settings, WhatIsWrongIsNamed) {
  EXPECT_FAILS(Settings::parse("gpt:"), InvalidArgument, "gpt:KEY=NUMBER");
  EXPECT_FAILS(Settings::parse("gpt:layers"), InvalidArgument, "'layers'");
  EXPECT_FAILS(Settings::parse("gpt:layers=x"), InvalidArgument, "'layers=x'");
  EXPECT_FAILS(Settings::parse("gpt:layers=nan"), InvalidArgument, "'layers=nan'");
  EXPECT_FAILS(Settings::parse("gpt:layer=1").check_keys({"layers", "width"}), InvalidArgument,
               "did you mean 'layers'");
  EXPECT_FAILS(Settings::parse("lenet:a=1").check_keys({}), InvalidArgument, "no settings");
  EXPECT_FAILS(Settings::parse("gpt:layers=1.5").count("layers", 1), InvalidArgument, "layers=1.5");
  EXPECT_FAILS(Settings::parse("gpt:layers=0").count("layers", 1), InvalidArgument, "layers=0");
}

}  // namespace
}  // namespace trireme
