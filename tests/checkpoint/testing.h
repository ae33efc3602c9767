#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/writer.h"
#include "tests/support/temp_folder.h"

namespace trireme::checkpoint {

/// The state of an imaginary run: tensors and their bytes.
struct State {
  std::vector<TensorInfo> tensors = {};
  std::vector<std::vector<std::byte>> bytes = {};  // by tensor
  nlohmann::json meta = {};
};

inline State make_state(std::uint64_t seed, std::vector<TensorInfo> tensors) {
  RandomStream random(seed);
  State state{.tensors = std::move(tensors), .meta = {{"seed", seed}, {"model", "lenet"}, {"lr", 0.125}}};
  for (const TensorInfo& tensor : state.tensors) {
    auto& bytes = state.bytes.emplace_back(bytes_of(tensor));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  }
  return state;
}

/// Of all kinds: several blocks long, scalars, nothing, one byte.
inline State make_state(std::uint64_t seed) {
  return make_state(seed, {{"model/conv1.weight", DType::kF32, {6, 1, 5, 5}},
                           {"model/fc.weight", DType::kBF16, {300, 700}},
                           {"optimizer/conv1.weight/0", DType::kF64, {150}},
                           {"optimizer/steps", DType::kI64, {}},
                           {"buffer/mask", DType::kBool, {1}},
                           {"buffer/none", DType::kU8, {0, 4}},
                           {"model/large", DType::kU8, {3 * 256 * 1024 + 17}}});
}

inline State small_state(std::uint64_t seed) {
  return make_state(seed, {{"model/w", DType::kF32, {2, 3}}, {"model/b", DType::kF16, {5}}});
}

/// The tensors cut anywhere, and the pieces dealt to `parts` writers in any order.
inline std::vector<std::vector<Piece>> deal(const State& state, std::uint32_t parts, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<std::vector<Piece>> dealt(parts);
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const Bytes bytes = state.bytes[i];
    for (std::uint64_t begin = 0; begin < bytes.size();) {
      const std::uint64_t length = parts == 1 ? bytes.size() : 1 + random.below(bytes.size() - begin);
      dealt[random.below(parts)].push_back({state.tensors[i].name, begin, bytes.subspan(begin, length)});
      begin += length;
    }
  }
  for (auto& pieces : dealt) {
    for (std::size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random.below(i)]);
  }
  return dealt;
}

inline PartInfo info_of(const State& state, Step step, std::uint32_t part = 0, std::uint32_t parts = 1,
                        std::string attempt = "1") {
  return {.step = step,
          .part = part,
          .parts = parts,
          .attempt = std::move(attempt),
          .tensors = state.tensors,
          .meta = state.meta};
}

/// Writes `state` through one writer, and tells how that ended.
inline WriteReport write_state(const WriterOptions& options, const State& state, Step step, std::string attempt = "1") {
  Writer writer(options);
  EXPECT_TRUE(writer.start(info_of(state, step, 0, 1, std::move(attempt)), deal(state, 1, 1)[0]));
  return writer.finish(Deadline::in(60s)).value();
}

/// The same through several writers at the same time; part 0 tells.
inline WriteReport write_parts(const std::filesystem::path& folder, const State& state, Step step,
                               std::uint32_t parts) {
  const auto dealt = deal(state, parts, step);
  std::vector<std::unique_ptr<Writer>> writers;
  for (std::uint32_t part = 0; part < parts; ++part) {
    writers.push_back(std::make_unique<Writer>(WriterOptions{.folder = folder}));
    EXPECT_TRUE(writers.back()->start(info_of(state, step, part, parts), dealt[part]));
  }
  for (std::uint32_t part = parts; part-- > 1;) {
    const auto report = writers[part]->finish(Deadline::in(60s));
    EXPECT_TRUE(report->written) << report->problem;
    EXPECT_FALSE(report->complete);
  }
  return writers[0]->finish(Deadline::in(60s)).value();
}

inline void expect_holds(const Checkpoint& checkpoint, const State& state) {
  ASSERT_TRUE(std::ranges::equal(checkpoint.tensors(), state.tensors));
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    EXPECT_EQ(checkpoint.read(state.tensors[i].name), state.bytes[i]) << state.tensors[i].name;
  }
  EXPECT_EQ(checkpoint.meta(), state.meta);
}

inline std::filesystem::path step_path(const std::filesystem::path& folder, Step step) {
  return folder / step_folder_name(step);
}

inline void overwrite(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

/// All files of a checkpoint by name.
inline std::map<std::string, std::string> files_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

}  // namespace trireme::checkpoint
