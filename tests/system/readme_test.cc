// What README.md shows is what a user sees.

#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

/// A line without what differs from run to run: numbers, paths, the width of columns.
std::string shape_of(std::string line) {
  line = std::regex_replace(line, std::regex("(runs)?/[^ ;:]*"), "PATH");
  line = std::regex_replace(line, std::regex("[0-9]+([.:][0-9]+)?k?|–"), "#");
  return std::regex_replace(line, std::regex("  +"), "  ");
}

std::vector<std::string> shapes_of(const std::string& text) {
  std::vector<std::string> shapes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool of_a_busy_machine = line.find("of the time went into waiting for samples") != std::string::npos;
    if (!of_a_busy_machine) shapes.push_back(shape_of(line));
  }
  return shapes;
}

/// The first block between ``` lines after `words`.
std::string block_after(const std::string& text, const std::string& words) {
  const std::size_t begin = text.find("```\n", text.find(words)) + 4;
  return text.substr(begin, text.find("```\n", begin) - begin);
}

TEST(Readme, ShowsWhatTheDemoPrints) {
  const TempFolder folder;
  const Outcome demo = run_trireme(folder, {"train", "--model", "lenet", "--data-dir", make_images(folder).string(),
                                            "--workers", "2", "--servers", "1", "--epochs", "2"});
  ASSERT_EQ(demo.status, 0) << demo.err;
  const std::string shown = block_after(read_file(TRIREME_SOURCE_DIR "/README.md"), "`make demo` ends like this");
  std::vector<std::string> expected;  // progress goes to standard error, how much of it depends on the machine
  bool progress = false;
  for (const std::string& shape : shapes_of(shown)) {
    if (shape.starts_with("page: ")) {
      EXPECT_THAT(shapes_of(demo.err), ::testing::Contains(shape));
    } else if (!shape.starts_with("epoch ")) {
      expected.push_back(shape);
    } else if (shape.find("waiting") == std::string::npos) {
      progress = true;
      EXPECT_THAT(shapes_of(demo.err), ::testing::Contains(shape));
    }
  }
  EXPECT_TRUE(progress);
  EXPECT_EQ(shapes_of(demo.out), expected);
}

}  // namespace
}  // namespace trireme::system_test
