#include "cli/bench/input_files.h"

#include <zlib.h>
#ifdef TRIREME_HAS_ZSTD
#include <zstd.h>
#endif

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "trireme/sources.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "data/records/tfrecord_file.h"

namespace trireme::cli {
namespace {

using std::filesystem::path;

constexpr std::uint64_t kLength = 1024;           // tokens of a window
constexpr std::size_t kImageBytes = 3 * 64 * 64;  // of a record: an image as bytes, and a label
constexpr std::uint64_t kSmallBytes = 16 * kMiB;  // of what is not read where it is
constexpr std::uint64_t kImages = 2000;           // files, or members of a tar
constexpr std::uint32_t kSide = 32;               // of an image
constexpr std::size_t kColumns = 20;              // of a table

/// Numbers that look like data: neighbours differ, and no compressor makes nothing of them.
std::uint32_t scramble(std::uint64_t number) {
  return static_cast<std::uint32_t>((number * 0x9e3779b97f4a7c15u) >> 40);
}

/// Writes pieces, one after the other, until there are `bytes`. Returns how many pieces.
std::uint64_t write_pieces(const path& file, std::uint64_t bytes,
                           const std::function<void(std::string&, std::uint64_t)>& make) {
  std::ofstream out(file, std::ios::binary);
  std::string piece;
  std::uint64_t number = 0;
  for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
    piece.clear();
    while (piece.size() < kMiB && done + piece.size() < bytes) make(piece, number++);
    out.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  }
  if (!out.flush()) fail<IoError>("cannot write {}", file.string());
  return number;
}

void write_text(const path& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary);
  if (!out.write(text.data(), static_cast<std::streamsize>(text.size())).flush())
    fail<IoError>("cannot write {}", file.string());
}

std::string big_endian(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

// ---- Streams.

void make_tokens(std::string& piece, std::uint64_t number) {
  std::uint16_t tokens[512];
  for (std::size_t i = 0; i < std::size(tokens); ++i) tokens[i] = static_cast<std::uint16_t>((number * 31 + i) % 50257);
  piece.append(reinterpret_cast<const char*>(tokens), sizeof(tokens));
}

/// A length as protocol buffers write it.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value > 0x7f; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::string field(int number, std::string_view content) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  put_varint(out, content.size());
  return out.append(content);
}

void make_record(std::string& piece, std::uint64_t number) {
  const std::string image(kImageBytes, static_cast<char>(number));
  const std::string label(1, static_cast<char>(number % 10));
  const std::string features = field(1, field(1, "image") + field(2, field(1, field(1, image)))) +
                               field(1, field(1, "label") + field(2, field(3, field(1, label))));
  data::append_record(as_bytes(field(1, features)), piece);
}

data::DatasetPtr open_tokens(const path& file) {
  return data::load_tokens({file.string()}, {.length = kLength, .vocabulary = 50257});
}

void add_streams(const path& folder, std::uint64_t bytes, std::vector<InputSource>& sources) {
  const path tokens = folder / "tokens.bin";
  write_pieces(tokens, bytes, make_tokens);
  sources.push_back(
      {.name = "tokens", .files = {tokens}, .open = [tokens] { return open_tokens(tokens); }, .streams = true});
  const path records = folder / "records.tfrecord";
  write_pieces(records, bytes, make_record);
  sources.push_back({.name = "tfrecord",
                     .files = {records},
                     .open = [records] { return data::load_tfrecord({records.string()}, {.classes = 10}); },
                     .streams = true});
}

// ---- Tables and arrays.

void make_row(std::string& piece, std::uint64_t number) {
  for (std::size_t i = 0; i < kColumns; ++i) {
    piece += fmt::format("{:.4f},", scramble(number * kColumns + i) / 16777216.0);
  }
  piece += fmt::format("{}\n", number % 10);
}

void make_sparse_row(std::string& piece, std::uint64_t number) {
  piece += fmt::format("{}", number % 10);
  for (std::size_t i = 0; i < kColumns; ++i) {
    piece += fmt::format(" {}:{:.4f}", 1 + 50 * i + scramble(number + i) % 50, scramble(number * 7 + i) / 16777216.0);
  }
  piece += '\n';
}

void add_tables(const path& folder, std::uint64_t bytes, std::vector<InputSource>& sources) {
  const path csv = folder / "table.csv";
  write_pieces(csv, bytes, make_row);
  sources.push_back({.name = "csv", .files = {csv}, .open = [csv] { return data::load_csv(csv); }});
  const path sparse = folder / "table.libsvm";
  write_pieces(sparse, bytes, make_sparse_row);
  sources.push_back(
      {.name = "libsvm", .files = {sparse}, .open = [sparse] { return data::load_libsvm({sparse.string()}); }});

  const std::uint64_t rows = std::max<std::uint64_t>(1, bytes / (kColumns * sizeof(float)));
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, kColumns);
  header.resize((header.size() + 10 + 64) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string text = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() % 256) +
                     static_cast<char>(header.size() / 256) + header;
  for (std::uint64_t i = 0; i < rows * kColumns; ++i) {
    const float value = static_cast<float>(scramble(i)) / 16777216.0f;
    text.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  const path npy = folder / "features.npy";
  write_text(npy, text);
  sources.push_back({.name = "npy", .files = {npy}, .open = [npy] { return data::load_npy({npy.string()}); }});
}

// ---- Images.

void add_pixels(std::string& out, std::uint64_t number, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out += static_cast<char>(scramble(number * count + i));
}

void add_idx(const path& folder, std::uint64_t bytes, std::vector<InputSource>& sources) {
  constexpr std::uint32_t kIdxSide = 28;
  const auto count = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, bytes / (kIdxSide * kIdxSide)));
  std::string images = big_endian(0x803) + big_endian(count) + big_endian(kIdxSide) + big_endian(kIdxSide);
  std::string labels = big_endian(0x801) + big_endian(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    add_pixels(images, i, kIdxSide * kIdxSide);
    labels += static_cast<char>(i % 10);
  }
  const path image_file = folder / "images-idx3-ubyte";
  const path label_file = folder / "labels-idx1-ubyte";
  write_text(image_file, images);
  write_text(label_file, labels);
  sources.push_back({.name = "idx", .files = {image_file, label_file}, .open = [image_file, label_file] {
                       return data::load_idx(image_file, label_file);
                     }});
}

void add_cifar(const path& folder, std::uint64_t bytes, std::vector<InputSource>& sources) {
  std::filesystem::create_directories(folder);
  const auto make = [](std::string& piece, std::uint64_t number) {
    piece += static_cast<char>(number % 10);
    add_pixels(piece, number, 3 * kSide * kSide);
  };
  InputSource source{.name = "cifar", .open = [folder] { return data::load_cifar_binary(folder).train; }};
  for (int batch = 1; batch <= 5; ++batch) {
    write_pieces(source.files.emplace_back(folder / fmt::format("data_batch_{}.bin", batch)), bytes / 5, make);
  }
  write_pieces(folder / "test_batch.bin", 1, make);
  sources.push_back(std::move(source));
}

std::string packed_zlib(std::string_view content) {
  uLongf size = ::compressBound(static_cast<uLong>(content.size()));
  std::string out(size, '\0');
  const int status = ::compress(reinterpret_cast<Bytef*>(out.data()), &size,
                                reinterpret_cast<const Bytef*>(content.data()), static_cast<uLong>(content.size()));
  if (status != Z_OK) fail<IoError>("cannot pack {} bytes", content.size());
  out.resize(size);
  return out;
}

std::string png_chunk(std::string_view type, std::string_view content) {
  const std::string checked = std::string(type) + std::string(content);
  const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(static_cast<std::uint32_t>(content.size())) + checked + big_endian(static_cast<std::uint32_t>(crc));
}

/// A colour image of bytes.
std::string png(std::uint64_t number) {
  std::string rows;
  for (std::uint32_t row = 0; row < kSide; ++row) {
    rows += '\0';  // no filter
    for (std::uint32_t i = 0; i < 3 * kSide; ++i) rows += static_cast<char>(scramble(number * 31 + row / 4 + i / 12));
  }
  const std::string header = big_endian(kSide) + big_endian(kSide) + std::string("\x08\x02\x00\x00\x00", 5);
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + png_chunk("IDAT", packed_zlib(rows)) + png_chunk("IEND", "");
}

void add_image_folder(const path& folder, std::uint64_t images, std::vector<InputSource>& sources) {
  InputSource source{.name = "png folder", .open = [folder] { return data::load_image_folder(folder); }};
  for (std::uint64_t i = 0; i < images; ++i) {
    const path class_folder = folder / fmt::format("class{}", i % 10);
    std::filesystem::create_directories(class_folder);
    write_text(source.files.emplace_back(class_folder / fmt::format("{:06}.png", i)), png(i));
  }
  sources.push_back(std::move(source));
}

void put_member(std::string& tar, const std::string& name, std::string_view content) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, std::string_view text) { header.replace(at, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", content.size()));
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, "ustar");
  put(263, "00");
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  tar += header;
  tar += content;
  tar.append((512 - content.size() % 512) % 512, '\0');
}

void add_tar(const path& folder, std::uint64_t images, std::vector<InputSource>& sources) {
  std::string tar;
  for (std::uint64_t i = 0; i < images; ++i) {
    put_member(tar, fmt::format("{:06}.cls", i), fmt::format("{}", i % 10));
    put_member(tar, fmt::format("{:06}.png", i), png(i));
  }
  tar.append(1024, '\0');
  const path file = folder / "images.tar";
  write_text(file, tar);
  sources.push_back({.name = "webdataset", .files = {file}, .open = [file] {
                       return data::load_webdataset({file.string()}, {.classes = 10});
                     }});
}

// ---- Packed files: unpacked when they are opened.

void add_packed(const path& folder, std::uint64_t bytes, std::vector<InputSource>& sources) {
  const path plain = folder / "small.bin";
  write_pieces(plain, bytes, make_tokens);
  const std::string content = read_file(plain);
  std::filesystem::remove(plain);

  const path gz = folder / "gzip.bin.gz";
  gzFile out = ::gzopen(gz.c_str(), "wb6");
  const bool written = out != nullptr && ::gzwrite(out, content.data(), static_cast<unsigned>(content.size())) ==
                                             static_cast<int>(content.size());
  if ((out != nullptr && ::gzclose(out) != Z_OK) || !written) fail<IoError>("cannot write {}", gz.string());
  sources.push_back({.name = "tokens .gz", .files = {gz}, .open = [gz] { return open_tokens(gz); }});
#ifdef TRIREME_HAS_ZSTD
  std::string packed(::ZSTD_compressBound(content.size()), '\0');
  packed.resize(::ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), 3));
  const path zst = folder / "zstd.bin.zst";
  write_text(zst, packed);
  sources.push_back({.name = "tokens .zst", .files = {zst}, .open = [zst] { return open_tokens(zst); }});
#endif
}

}  // namespace

std::vector<InputSource> make_input_files(const path& folder, std::uint64_t bytes) {
  const std::uint64_t small = std::min(bytes, kSmallBytes);
  const std::uint64_t images = std::clamp<std::uint64_t>(bytes / 1024, 10, kImages);
  std::vector<InputSource> sources;
  add_streams(folder, bytes, sources);
  add_idx(folder, small, sources);
  add_tables(folder, small, sources);
  add_cifar(folder / "cifar", small, sources);
  add_image_folder(folder / "png", images, sources);
  add_tar(folder, images, sources);
  add_packed(folder, small, sources);
  return sources;
}

}  // namespace trireme::cli
