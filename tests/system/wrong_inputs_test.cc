// Every line of wrong_inputs.txt: what the command answers, and with which status. The answers, for people to read, are
// in wrong_inputs.md of the build folder.

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

struct WrongInput {
  std::string line;  ///< as it stands in the file, up to the arrow
  Program::Environment variables;
  std::vector<std::string> arguments;
  std::vector<std::string> expected;  ///< words of the answer
};

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return parts;
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

WrongInput parse(const std::string& line) {
  const std::size_t arrow = line.find("=> ");
  WrongInput input{.line = trimmed(line.substr(0, arrow)), .variables = {}, .arguments = {}, .expected = {}};
  for (const std::string& word : split(input.line, " ")) {
    const std::size_t equals = word.find('=');
    if (word.empty()) continue;
    if (input.arguments.empty() && word.starts_with("TRIREME_") && equals != std::string::npos) {
      input.variables[word.substr(0, equals)] = word.substr(equals + 1);
    } else {
      input.arguments.push_back(word == "''" ? "" : word);
    }
  }
  for (const std::string& words : split(line.substr(arrow + 3), ";")) input.expected.push_back(trimmed(words));
  return input;
}

std::vector<WrongInput> read_wrong_inputs() {
  std::vector<WrongInput> inputs;
  std::ifstream file(std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/system/wrong_inputs.txt");
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') inputs.push_back(parse(line));
  }
  return inputs;
}

std::string rows(const char* label_of_odd, const char* label_of_even) {
  std::string text = "a,b,label\n";
  for (int i = 0; i < 30; ++i) text += fmt::format("{},{},{}\n", i, i + 1, i % 2 == 1 ? label_of_odd : label_of_even);
  return text;
}

TEST(WrongInputs, AreAnsweredWithWhatIsWrongAndWhatToDo) {
  const std::vector<WrongInput> inputs = read_wrong_inputs();
  ASSERT_GE(inputs.size(), 80u);
  const TempFolder folder;
  folder.write("numbers.csv", rows("1", "0"));
  folder.write("words.csv", rows("cat", "dog"));
  const std::vector<float> w(2, 1.0f);
  checkpoint::write_safetensors(
      folder / "small.safetensors",
      std::vector<checkpoint::TensorView>{{.name = "w", .shape = {2}, .data = std::as_bytes(std::span(w))}});
  folder.write("cut.safetensors", read_file(folder / "small.safetensors").substr(0, 40));
  folder.write("model.pt", "PK");
  std::filesystem::create_directory(folder / "empty");
  folder.write("no_equals.toml", "batch 32\n");
  folder.write("typo.toml", "batch = 32\nepoch = 3\n");
  folder.write("section.toml", "[train]\nbatch = 32\n");
  std::string table = "| input | status | answer |\n|---|---|---|\n";
  for (const WrongInput& input : inputs) {
    SCOPED_TRACE("trireme " + input.line);
    const Outcome outcome = run_trireme(folder, input.arguments, input.variables);
    EXPECT_EQ(outcome.status, 2) << "nothing was started";
    EXPECT_EQ(outcome.out, "");
    for (const std::string& words : input.expected) EXPECT_THAT(outcome.err, ::testing::HasSubstr(words));
    std::string answer = trimmed(outcome.err);
    std::ranges::replace(answer, '\n', ' ');
    table += fmt::format("| `{}` | {} | {} |\n", input.line, outcome.status, answer);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "runs")) << "refused, but a run folder was made";
  write_file_atomically(std::filesystem::path(TRIREME_BINARY_DIR).parent_path() / "wrong_inputs.md", as_bytes(table));
}

}  // namespace
}  // namespace trireme::system_test
