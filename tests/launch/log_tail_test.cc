#include "launch/job/log_tail.h"

#include <gtest/gtest.h>

#include "tests/launch/testing.h"

namespace trireme::launch {
namespace {

std::string tail(const std::string& content, std::size_t lines) {
  TempFolder folder;
  std::ofstream(folder / "log") << content;
  return tail_of_log(folder / "log", lines);
}

TEST(LogTail, LastLines) {
  EXPECT_EQ(tail("one\ntwo\nthree\n", 2), "two\nthree");
  EXPECT_EQ(tail("one\ntwo\nthree", 1), "three");
  EXPECT_EQ(tail("one\ntwo\nthree\n", 3), "one\ntwo\nthree");
  EXPECT_EQ(tail("one\ntwo\n", 10), "one\ntwo");
  EXPECT_EQ(tail("one\n\nthree\n\n\n", 2), "\nthree");
  EXPECT_EQ(tail("one\n", 0), "");
}

TEST(LogTail, MissingOrEmptyLogHasNoLines) {
  EXPECT_EQ(tail("", 5), "");
  EXPECT_EQ(tail("\n\n", 5), "");
  EXPECT_EQ(tail_of_log("/no/such/file", 5), "");
  EXPECT_EQ(tail_of_log("/", 5), "");
}

TEST(LogTail, WhatAnEarlierLaunchWroteIsLeftOut) {
  TempFolder folder;
  std::ofstream(folder / "log") << "before\nnow\n";
  EXPECT_EQ(tail_of_log(folder / "log", 5, 7), "now");
  EXPECT_EQ(tail_of_log(folder / "log", 5, 11), "");
  EXPECT_EQ(tail_of_log(folder / "log", 5, 99), "");
}

TEST(LogTail, ALongLogIsNotReadWhole) {
  std::string content;
  for (int i = 0; i < 20'000; ++i) content += "line " + std::to_string(i) + "\n";
  EXPECT_EQ(tail(content, 2), "line 19998\nline 19999");
  const std::string most = tail(content, 1'000'000);
  EXPECT_LE(most.size(), 64U * 1024);
  EXPECT_EQ(most.substr(0, 5), "line ");  // begins with a whole line
}

TEST(LogTail, TheLastComplaintIsNoLineOfStandardOutput) {
  const auto complaint = [](const std::string& content) {
    TempFolder folder;
    std::ofstream(folder / "log") << content;
    return last_complaint(folder / "log", "own_loop");
  };
  const std::string info = "2026-03-01T09:15:02.123Z info    [worker 1] joined the job event=joined\n";
  const std::string error = "2026-03-01T09:15:03.123Z error   [worker 1] the disk is full event=x\n";
  EXPECT_EQ(complaint(info + "own_loop: no such file\nepoch 1 of 5\n"), "own_loop: no such file");
  EXPECT_EQ(complaint(error + info + "epoch 1 of 5\n"), error.substr(0, error.size() - 1));
  EXPECT_EQ(complaint("terminate called after throwing\n  what():  bad\nepoch 1\n"), "  what():  bad");
  EXPECT_EQ(complaint(info + "epoch 1 of 5\n"), "epoch 1 of 5") << "nothing better";
  EXPECT_EQ(complaint("own_loop: long ago\n" + std::string(20, '\n') + "epoch 7\n"), "epoch 7");
  EXPECT_EQ(complaint("one"), "one");
  EXPECT_EQ(complaint(""), "");
}

}  // namespace
}  // namespace trireme::launch
