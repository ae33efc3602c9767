// Environments that launchers were seen to set (../environments.txt), and what is made of them.

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/resolvers/resolvers.h"

namespace trireme::cluster {
namespace {

struct Recorded {
  std::string name;
  Variables variables = {};
  std::string expect = {};  // "Slurm rank=1 …" or "nobody"
  std::string refuse = {};  // words of the message
  std::vector<std::string> losers = {};
};

std::vector<Recorded> read_recorded_environments() {
  std::ifstream file(std::string(TRIREME_SOURCE_DIR) + "/tests/cluster/environments.txt");
  std::vector<Recorded> all;
  for (std::string line; std::getline(file, line);) {
    const auto after = [&](const char* start) { return line.substr(std::string(start).size()); };
    if (line.starts_with("== ")) {
      all.push_back({.name = after("== ")});
    } else if (all.empty() || line.empty() || line.starts_with("#")) {
      continue;
    } else if (line.starts_with("expect: ")) {
      all.back().expect = after("expect: ");
    } else if (line.starts_with("refuse: ")) {
      all.back().refuse = after("refuse: ");
    } else if (line.starts_with("lose: ")) {
      all.back().losers.push_back(after("lose: "));
    } else {
      all.back().variables[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    }
  }
  return all;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// "Open_MPI" for "Open MPI": one word in the file.
std::string word_of(Launcher launcher) {
  std::string word = to_string(launcher);
  std::ranges::replace(word, ' ', '_');
  return word;
}

std::string number(const std::optional<std::uint32_t>& value) { return value ? std::to_string(*value) : "none"; }

std::map<std::string, std::string> fields_of(const LauncherPlace& place) {
  constexpr std::array kRoles{"worker", "server", "scheduler"};
  return {{"rank", number(place.rank)},
          {"ranks", std::to_string(place.ranks)},
          {"local_rank", number(place.local_rank)},
          {"local_ranks", number(place.local_ranks)},
          {"node", number(place.node)},
          {"nodes", number(place.nodes)},
          {"per_node", std::to_string(place.per_node)},
          {"workers_per_node", std::to_string(place.workers_per_node)},
          {"one_host", std::to_string(place.on_one_host())},
          {"master", place.master ? place.master->text() : "none"},
          {"port_is_ours", std::to_string(place.port_is_ours)},
          {"restarts", std::to_string(place.restarts)},
          {"threads", std::to_string(place.threads)},
          {"servers", std::to_string(place.servers)},
          {"host", place.host},
          {"job", place.job},
          {"names_job", std::to_string(place.names_job)},
          {"run_id", place.run_id},
          {"role", kRoles.at(static_cast<std::size_t>(place.role))}};
}

class RecordedEnvironment : public ::testing::TestWithParam<Recorded> {};

TEST_P(RecordedEnvironment, IsUnderstoodOrRefused) {
  const Recorded& recorded = GetParam();
  if (!recorded.refuse.empty()) {
    try {
      resolve(recorded.variables);
      FAIL() << "it was not refused";
    } catch (const InvalidArgument& problem) {
      for (const std::string& word : words_of(recorded.refuse)) EXPECT_THAT(problem.what(), testing::HasSubstr(word));
    }
    return;
  }
  const Resolution found = resolve(recorded.variables);
  const std::vector<std::string> expected = words_of(recorded.expect);
  ASSERT_FALSE(expected.empty()) << "neither expect: nor refuse:";
  EXPECT_EQ(found.launcher ? word_of(*found.launcher) : "nobody", expected.front());
  for (const std::string& field : std::span(expected).subspan(1)) {
    ASSERT_TRUE(found.place.has_value());
    const std::string name = field.substr(0, field.find('='));
    EXPECT_EQ(fields_of(*found.place).at(name), field.substr(field.find('=') + 1)) << name;
  }
  for (const std::string& loser : recorded.losers) {
    const std::string launcher = loser.substr(0, loser.find(' '));
    const auto same = [&](const LauncherFinding& finding) { return word_of(finding.launcher) == launcher; };
    const auto finding = std::ranges::find_if(found.findings, same);
    ASSERT_NE(finding, found.findings.end()) << launcher;
    EXPECT_FALSE(finding->taken);
    EXPECT_THAT(finding->reason, testing::HasSubstr(loser.substr(launcher.size() + 1)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecordedEnvironment, ::testing::ValuesIn(read_recorded_environments()),
                         [](const auto& environment) {
                           std::string name;
                           for (const char letter : environment.param.name) {
                             if (std::isalnum(static_cast<unsigned char>(letter)) != 0) name += letter;
                           }
                           return name;
                         });

TEST(RecordedEnvironments, AreMoreThanThirty) { EXPECT_GT(read_recorded_environments().size(), 30u); }

}  // namespace
}  // namespace trireme::cluster
