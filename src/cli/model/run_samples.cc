#include "cli/model/run_samples.h"

#include <algorithm>

#include "trireme/sources.h"

#include "base/error.h"
#include "base/file.h"
#include "data/task_rules.h"

namespace trireme::data {

NLOHMANN_JSON_SERIALIZE_ENUM(Role, {{Role::kInput, "input"}, {Role::kTarget, "target"}, {Role::kOther, "other"}})

void to_json(nlohmann::json& json, const Schema& schema) {
  json = nlohmann::json::array();
  for (const Field& field : schema.fields()) {
    json.push_back({{"name", field.name},
                    {"dtype", name_of(field.dtype)},
                    {"shape", field.shape},
                    {"role", field.role},
                    {"classes", field.classes},
                    {"class_names", field.class_names},
                    {"padding", field.padding}});
  }
}

void from_json(const nlohmann::json& json, Schema& schema) {
  std::vector<Field> fields;
  for (const nlohmann::json& item : json) {
    const auto dtype = dtype_from_name(item.at("dtype").get<std::string>());
    if (!dtype) fail<InvalidArgument>("there is no type {}", item.at("dtype").dump());
    fields.push_back({.name = item.at("name"),
                      .dtype = *dtype,
                      .shape = item.at("shape"),
                      .role = item.at("role"),
                      .classes = item.at("classes"),
                      .class_names = item.at("class_names"),
                      .padding = item.at("padding")});
  }
  schema = Schema(std::move(fields));
}

}  // namespace trireme::data

namespace trireme::cli {
namespace {

using data::Field;
using data::Role;

/// The file of the tokenizer that made the tokens in the flags' data; empty if there is none.
std::filesystem::path tokenizer_of(const TrainFlags& flags) {
  if (!std::filesystem::is_regular_file(flags.data)) return {};
  const auto info = data::token_info(flags.data);
  if (!info || info->tokenizer.empty()) return {};
  return std::filesystem::absolute(std::filesystem::path(flags.data).parent_path() / info->tokenizer);
}

/// What a field of a class limit takes also fits one of a larger limit.
bool fits(const Field& trained, const Field& given) {
  if (trained.dtype != given.dtype || trained.classes.size() != given.classes.size()) return false;
  for (std::size_t i = 0; i < trained.classes.size(); ++i) {
    if (given.classes[i] > trained.classes[i]) return false;
  }
  return trained.shape == given.shape;
}

}  // namespace

void write_samples(const observe::RunFolder& folder, const data::Schema& schema, const TrainFlags& flags) {
  const nlohmann::json samples{{"fields", schema},
                               {"task", flags.task.empty() ? data::fitting_task(schema) : flags.task},
                               {"tokenizer", tokenizer_of(flags).string()}};
  write_file_atomically(folder.samples(), as_bytes(samples.dump(2) + "\n"));
}

RunSamples read_samples_of(const observe::RunFolder& folder) {
  if (!std::filesystem::exists(folder.samples())) {
    fail<InvalidArgument>(
        "{} holds no model whose samples are known (there is no samples.json): it must be a run of 'trireme train', or "
        "of a program with train_main",
        folder.path().string());
  }
  try {
    const nlohmann::json samples = nlohmann::json::parse(read_file(folder.samples()));
    return {.schema = samples.at("fields").get<data::Schema>(),
            .task = samples.at("task"),
            .tokenizer = samples.at("tokenizer").get<std::string>()};
  } catch (const nlohmann::json::exception& problem) {
    fail<Corrupt>("{} does not describe samples: {}", folder.samples().string(), problem.what());
  } catch (const InvalidArgument& problem) {
    fail<Corrupt>("{} does not describe samples: {}", folder.samples().string(), problem.what());
  }
}

void check_same_kind(const data::Schema& trained, const data::Schema& given, bool with_targets) {
  for (const Field& wanted : trained.fields()) {
    if (wanted.role == Role::kTarget && !with_targets) continue;
    const auto at = given.find(wanted.name);
    if (!at) {
      fail<InvalidArgument>("the data has no field '{}', which the model was trained on ({}): it has {}", wanted.name,
                            wanted.describe(), given.describe());
    }
    if (fits(wanted, given[*at])) continue;
    fail<InvalidArgument>("field '{}' is {} in the data, and the model was trained on {}", wanted.name,
                          given[*at].describe(), wanted.describe());
  }
}

}  // namespace trireme::cli
