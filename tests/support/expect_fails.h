#pragma once

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

/// `statement` throws exactly an `Exception` whose message contains each of the given texts.
#define EXPECT_FAILS(statement, Exception, ...)                               \
  do {                                                                        \
    try {                                                                     \
      statement;                                                              \
      ADD_FAILURE() << #statement " did not throw";                           \
    } catch (const Exception& error) {                                        \
      for (const std::string& part : std::vector<std::string>{__VA_ARGS__}) { \
        EXPECT_THAT(error.what(), ::testing::HasSubstr(part));                \
      }                                                                       \
    }                                                                         \
  } while (false)
