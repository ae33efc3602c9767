#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "trireme/schema.h"

#include "cli/flags/train_flags.h"
#include "observe/run_folder.h"

namespace trireme::data {

/// By the names of its members. Reading throws nlohmann::json::exception if one is missing, InvalidArgument as the
/// constructor of Schema does.
void to_json(nlohmann::json& json, const Schema& schema);
void from_json(const nlohmann::json& json, Schema& schema);

}  // namespace trireme::data

namespace trireme::cli {

// samples.json in a run's folder: what its model takes and gives, for those who use the model later.

struct RunSamples {
  data::Schema schema = {};
  std::string task = {};
  std::filesystem::path tokenizer = {};  ///< empty: tokens are bytes, or nobody knows
};

/// Throws IoError.
void write_samples(const observe::RunFolder& folder, const data::Schema& schema, const TrainFlags& flags);

/// Throws InvalidArgument if the run has none: it is not one of `trireme train`; Corrupt.
RunSamples read_samples_of(const observe::RunFolder& folder);

/// Throws InvalidArgument, naming the field and both sides, if a model that was trained on `trained` cannot take
/// `given`. Targets are compared if `with_targets`.
void check_same_kind(const data::Schema& trained, const data::Schema& given, bool with_targets);

}  // namespace trireme::cli
