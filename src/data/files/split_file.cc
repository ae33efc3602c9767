#include "data/files/split_file.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "data/arrays/npy.h"
#include "data/files/byte_source.h"
#include "data/files/random_access_file.h"
#include "data/open/kind.h"
#include "data/records/tar_samples.h"
#include "data/records/tfrecord_file.h"
#include "data/tables/rows.h"

namespace trireme::data {
namespace {

constexpr std::uint64_t kMostTable = std::uint64_t{1} << 50;  // no table is too long to be split

using Sink = std::function<void(Bytes)>;

/// Deals samples out to two files.
class Dealer {
 public:
  Dealer(Sink train, Sink test, std::uint64_t every, SplitFiles& result)
      : train_(std::move(train)), test_(std::move(test)), every_(every), result_(result) {}

  void both(Bytes bytes) {
    train_(bytes);
    test_(bytes);
  }

  /// The next sample; it may come in parts, of which `last` ends it.
  void add(Bytes part, bool last = true) {
    const bool test = number_ % every_ == every_ - 1;
    (test ? test_ : train_)(part);
    if (!last) return;
    ++number_;
    ++(test ? result_.test_samples : result_.train_samples);
  }

 private:
  Sink train_;
  Sink test_;
  std::uint64_t every_;
  SplitFiles& result_;
  std::uint64_t number_ = 0;
};

/// Lines of text; those within quotes go on. Empty ones are left out.
void deal_lines(const std::filesystem::path& file, bool has_header, bool quotes, Dealer& dealer) {
  constexpr std::size_t kMostRow = 64 * kMiB;
  ByteSource source(file);
  std::vector<std::byte> buffer(256 * kKiB);
  std::string row;
  bool quoted = false;
  const auto end_row = [&] {
    if (row.find_first_not_of("\r\n") != std::string::npos) {
      if (!row.ends_with('\n')) row += '\n';
      has_header ? dealer.both(as_bytes(row)) : dealer.add(as_bytes(row));
      has_header = false;
    }
    row.clear();
  };
  while (const std::size_t got = source.read(buffer)) {
    for (const char character : as_text(Bytes(buffer).first(got))) {
      row += character;
      if (quotes && character == '"') quoted = !quoted;
      if (row.size() > kMostRow) fail<Corrupt>("{}: a row of more than {} bytes", source.at(source.offset()), kMostRow);
      if (character == '\n' && !quoted) end_row();
    }
  }
  end_row();
}

void copy_range(const RandomAccessFile& file, std::uint64_t begin, std::uint64_t end, const Sink& sink) {
  std::vector<std::byte> buffer(256 * kKiB);
  while (begin < end) {
    const MutableBytes part =
        MutableBytes(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - begin)));
    file.read(begin, part);
    sink(part);
    begin += part.size();
  }
}

void deal_ranges(const RandomAccessFile& file, const Offsets& offsets, Dealer& dealer) {
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    copy_range(file, offsets[i], offsets[i + 1], [&](Bytes part) { dealer.add(part, false); });
    dealer.add({}, true);
  }
}

void deal_tar(const std::filesystem::path& path, Dealer& dealer) {
  const RandomAccessFile file(path);
  deal_ranges(file, load_index(file, kTarSamples, [&] { return scan_tar_samples(file); }), dealer);
  const std::vector<std::byte> end(1024, std::byte{0});
  dealer.both(end);
}

void deal_tfrecord(const std::filesystem::path& path, Dealer& dealer) {
  const TfRecordFile records(path);
  deal_ranges(RandomAccessFile(path), records.offsets(), dealer);
}

std::string npy_front(const NpyHeader& header, std::string_view descr, std::uint64_t rows) {
  std::vector<std::int64_t> shape = header.shape;
  shape.front() = static_cast<std::int64_t>(rows);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}", descr, fmt::join(shape, ", "));
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string front("\x93NUMPY\x01\x00", 8);
  front += static_cast<char>(text.size() & 0xff);
  front += static_cast<char>(text.size() >> 8);
  return front + text;
}

void deal_npy(const std::filesystem::path& path, const Sink& train, const Sink& test, std::uint64_t every,
              Dealer& dealer) {
  const RandomAccessFile file(path);
  std::vector<std::byte> front(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), kMostNpyHeader)));
  file.read(0, front);
  const NpyHeader header = parse_npy(front, file.size(), file.at(0));
  if (header.shape.empty()) fail<InvalidArgument>("{} is a single number: there is nothing to split", path.string());
  const std::string_view text = as_text(front);
  const std::size_t quote = text.find_first_of("<|", text.find("'descr'"));  // parse_npy has found the type there
  const auto rows = static_cast<std::uint64_t>(header.shape.front());
  train(as_bytes(npy_front(header, text.substr(quote, 3), rows - rows / every)));
  test(as_bytes(npy_front(header, text.substr(quote, 3), rows / every)));
  const std::uint64_t each = rows == 0 ? 0 : (file.size() - header.begin) / rows;
  Offsets offsets(rows + 1);
  for (std::uint64_t i = 0; i <= rows; ++i) offsets[i] = header.begin + i * each;
  deal_ranges(file, offsets, dealer);
}

/// Text and tokens: the end is for testing. Text is cut behind a line, tokens between two.
void cut_stream(const std::filesystem::path& path, SourceKind kind, std::uint64_t every, const Sink& train,
                const Sink& test, SplitFiles& result) {
  const RandomAccessFile file(path);
  const std::uint64_t unit = kind == SourceKind::kTokens ? 2 : 1;
  std::uint64_t cut = (file.size() - file.size() / every) / unit * unit;
  if (kind == SourceKind::kText) {
    std::vector<std::byte> before(static_cast<std::size_t>(std::min<std::uint64_t>(cut, 64 * kKiB)));
    file.read(cut - before.size(), before);
    const std::size_t line = as_text(before).rfind('\n');
    if (line != std::string_view::npos) cut = cut - before.size() + line + 1;
  } else if (file.size() >= 4) {
    std::vector<std::byte> magic(4);
    file.read(0, magic);
    const auto number = load_le<std::int32_t>(magic);
    if (number == 20240520 || number == 20240801) {
      fail<InvalidArgument>("{} has the header of llm.c: write the test part with its own tool", path.string());
    }
  }
  copy_range(file, 0, cut, train);
  copy_range(file, cut, file.size(), test);
  result.train_samples = cut / unit;
  result.test_samples = (file.size() - cut) / unit;
}

/// `data/x.csv.gz` becomes `x` and `.csv`.
std::pair<std::string, std::string> stem_and_ending(const std::filesystem::path& file) {
  std::filesystem::path name = file.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  return {name.stem().string(), name.extension().string()};
}

bool has_header(const std::filesystem::path& file) {
  return TableRows({file}, find_separator(file), CsvHeader::kDetect, kMostTable).has_header();
}

}  // namespace

SplitFiles split_file(const std::filesystem::path& file, const SplitFileOptions& options) {
  if (options.every < 2) fail<InvalidArgument>("every sample for testing leaves none to train on: give 2 or more");
  const Located located = locate(file.string());
  const SourceKind kind = located.kind;
  const auto [stem, ending] = stem_and_ending(file);
  const std::filesystem::path folder = options.folder.empty() ? file.parent_path() : options.folder;
  SplitFiles result{.train = folder / (stem + ".train" + ending), .test = folder / (stem + ".test" + ending)};
  const auto deal = [&](const Sink& train, const Sink& test) {
    Dealer dealer(train, test, options.every, result);
    switch (kind) {
      case SourceKind::kTable:
        return deal_lines(file, has_header(file), true, dealer);
      case SourceKind::kLibsvm:
        return deal_lines(file, false, false, dealer);
      case SourceKind::kTfRecord:
        return deal_tfrecord(file, dealer);
      case SourceKind::kWebDataset:
        return deal_tar(file, dealer);
      case SourceKind::kNpy:
        return deal_npy(file, train, test, options.every, dealer);
      case SourceKind::kText:
      case SourceKind::kTokens:
        return cut_stream(file, kind, options.every, train, test, result);
      default:
        fail<InvalidArgument>(
            "{} is {}: only single files of rows, records or text are split; of a folder of images, "
            "move some into a folder 'test' beside 'train'",
            file.string(), name_of(kind));
    }
  };
  write_file_atomically(result.train, [&](const Sink& train) {
    write_file_atomically(result.test, [&](const Sink& test) {
      deal(train, test);
      if (result.train_samples == 0 || result.test_samples == 0) {
        fail<InvalidArgument>("{} has {} samples: too few for every {}. to be for testing", file.string(),
                              result.train_samples + result.test_samples, options.every);
      }
    });
  });
  return result;
}

}  // namespace trireme::data
