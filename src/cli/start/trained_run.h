#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/flags/train_flags.h"
#include "cli/model/run_samples.h"
#include "observe/run_folder.h"

namespace trireme::cli {

/// What a run was trained with: its config.toml. Throws InvalidArgument, IoError.
TrainFlags flags_in(const std::string& config);

/// What the processes of `trireme eval`, `predict` and `generate` are told: a trained model, and what to do with it.
struct ModelUse {
  TrainFlags flags = {};     ///< of the run; --data is what it was trained on, --model where the network is now
  data::Schema schema = {};  ///< of the samples that the model was made for
  std::string task = {};
  std::string weights = {};   ///< a .safetensors file, or the folder of a checkpoint
  std::string encoding = {};  ///< of the data that the model was trained on: data::Encoding, as JSON
  std::string data = {};      ///< samples to use it on; empty = the run's own
  std::string part = {};      ///< of these: train, test or all
  std::string out = {};       ///< predict: the folder for the parts of the result
  bool npy = false;           ///< as numbers, not text
  bool probabilities = false;
  std::string prompt = {};     ///< generate: "-" = standard input
  std::string tokenizer = {};  ///< empty = tokens are bytes
  std::uint64_t tokens = 0;
  double temperature = 1;
  std::uint32_t top_k = 0;  ///< 0 = all
  std::uint64_t seed = 1;
};

void to_json(nlohmann::json& json, const ModelUse& use);
void from_json(const nlohmann::json& json, ModelUse& use);

/// The model of the run in `folder`. `checkpoint`: empty = the final one or, if there is none yet, that of the newest
/// checkpoint; last = of the newest checkpoint; best = of the one with the best score; or the step of one. Throws
/// InvalidArgument that says what there is, Corrupt.
ModelUse open_trained(const observe::RunFolder& folder, const std::string& checkpoint);

/// Loads the samples that `use` names: all of a file by the encoding of the data that the model was trained on. Throws
/// as load_data.
data::DatasetPtr load_samples(const ModelUse& use);

}  // namespace trireme::cli
