#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "trireme/open.h"

#include "base/error.h"

namespace trireme::data {
namespace {

using nlohmann::json;

const char* name_of(Role role) { return role == Role::kInput ? "input" : role == Role::kTarget ? "target" : "other"; }

Role role_of(const std::string& name) {
  if (name == "input") return Role::kInput;
  if (name == "target") return Role::kTarget;
  if (name == "other") return Role::kOther;
  fail<Corrupt>("a field of the role '{}'", name);
}

json to_object(const Field& field) {
  return {{"name", field.name},       {"dtype", trireme::name_of(field.dtype)},
          {"shape", field.shape},     {"role", name_of(field.role)},
          {"classes", field.classes}, {"class_names", field.class_names},
          {"padding", field.padding}};
}

Field to_field(const json& object) {
  const auto dtype = dtype_from_name(object.at("dtype").get<std::string>());
  if (!dtype) fail<Corrupt>("a field of the type {}", object.at("dtype").dump());
  return {.name = object.at("name"),
          .dtype = *dtype,
          .shape = object.at("shape"),
          .role = role_of(object.at("role")),
          .classes = object.at("classes"),
          .class_names = object.at("class_names"),
          .padding = object.at("padding")};
}

json to_object(const ColumnEncoding& column) {
  json object{{"name", column.name}, {"kind", name_of(column.kind)}};
  if (column.kind == ColumnKind::kNumber || column.kind == ColumnKind::kDate) {
    object["fill"] = column.fill;
    object["indicator"] = column.indicator;
  }
  if (column.kind == ColumnKind::kDate) {
    object["date"] = column.date;
    object["time"] = column.time;
  }
  if (column.kind == ColumnKind::kCategory) object["vocabulary"] = column.vocabulary;
  return object;
}

ColumnKind column_kind_of(const std::string& name) {
  for (const ColumnKind kind : {ColumnKind::kNumber, ColumnKind::kDate, ColumnKind::kCategory, ColumnKind::kIgnored}) {
    if (name == name_of(kind)) return kind;
  }
  fail<Corrupt>("a column of the kind '{}'", name);
}

ColumnEncoding to_column(const json& object) {
  return {.name = object.at("name"),
          .kind = column_kind_of(object.at("kind")),
          .fill = object.value("fill", 0.0),
          .indicator = object.value("indicator", false),
          .date = object.value("date", std::string()),
          .time = object.value("time", false),
          .vocabulary = object.value("vocabulary", std::vector<std::string>())};
}

constexpr std::array kTargetKinds{"quantity", "class", "numbered", "condition"};  // as TargetEncoding::Kind has them

json to_object(const TargetEncoding& target) {
  return {{"name", target.name},
          {"column", target.column},
          {"kind", kTargetKinds[static_cast<std::size_t>(target.kind)]},
          {"classes", target.classes},
          {"vocabulary", target.vocabulary},
          {"comparison", target.comparison},
          {"bound", target.bound}};
}

TargetEncoding to_target(const json& object, std::size_t columns) {
  const auto* const kind = std::ranges::find(kTargetKinds, object.at("kind").get<std::string>());
  TargetEncoding target{.name = object.at("name"),
                        .column = object.at("column"),
                        .kind = static_cast<TargetEncoding::Kind>(kind - kTargetKinds.begin()),
                        .classes = object.at("classes"),
                        .vocabulary = object.at("vocabulary"),
                        .comparison = object.at("comparison"),
                        .bound = object.at("bound")};
  if (kind == kTargetKinds.end() || target.column >= columns) {
    fail<Corrupt>("target '{}' is {} of column {}", target.name, object.at("kind").dump(), target.column);
  }
  return target;
}

json to_object(const TableEncoding& table) {
  json object{{"header", table.header},
              {"separator", std::string(1, table.separator)},
              {"columns", json::array()},
              {"targets", json::array()}};
  for (const ColumnEncoding& column : table.columns) object["columns"].push_back(to_object(column));
  for (const TargetEncoding& target : table.targets) object["targets"].push_back(to_object(target));
  return object;
}

TableEncoding to_table(const json& object) {
  TableEncoding table{.header = object.at("header")};
  const std::string separator = object.at("separator");
  if (separator.size() != 1) fail<Corrupt>("the separator '{}'", separator);
  table.separator = separator.front();
  for (const json& column : object.at("columns")) table.columns.push_back(to_column(column));
  for (const json& target : object.at("targets")) table.targets.push_back(to_target(target, table.columns.size()));
  return table;
}

}  // namespace

std::string Encoding::to_json() const {
  json object{{"kind", kind}, {"fields", json::array()}, {"normalization", json::object()}};
  for (const Field& field : fields) object["fields"].push_back(to_object(field));
  if (table) object["table"] = to_object(*table);
  for (const auto& [field, by] : normalization) {
    json list = json::array();
    for (const Normalization& one : by) list.push_back({one.mean, one.std});
    object["normalization"][field] = std::move(list);
  }
  return object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Encoding Encoding::parse(std::string_view text) {
  try {
    const json object = json::parse(text);
    Encoding encoding{.kind = object.at("kind")};
    for (const json& field : object.at("fields")) encoding.fields.push_back(to_field(field));
    if (object.contains("table")) encoding.table = to_table(object.at("table"));
    for (const auto& [field, list] : object.at("normalization").items()) {
      for (const json& one : list) {
        encoding.normalization[field].push_back({.mean = one.at(0).get<float>(), .std = one.at(1).get<float>()});
      }
    }
    return encoding;
  } catch (const json::exception& problem) {
    fail<Corrupt>("the description of the data is damaged: {}", problem.what());
  } catch (const Corrupt& problem) {
    fail<Corrupt>("the description of the data is damaged: {}", problem.what());
  }
}

}  // namespace trireme::data
