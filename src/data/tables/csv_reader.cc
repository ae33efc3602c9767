#include "data/tables/csv_reader.h"

#include <string_view>

#include "base/error.h"

namespace trireme::data {
namespace {

constexpr int kEnd = -1;
constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kMaxFieldBytes = 64 * 1024;
constexpr std::size_t kMaxFields = std::size_t{1} << 20;

}  // namespace

CsvReader::CsvReader(const std::filesystem::path& path, char separator, std::uint64_t max_bytes)
    : source_(path), separator_(static_cast<unsigned char>(separator)), max_bytes_(max_bytes), buffer_(kReadBytes) {
  if (std::string_view("0123456789+-.eE\"\r\n").find(separator) != std::string_view::npos || separator == '\0') {
    fail<InvalidArgument>("the CSV separator cannot be a digit, sign, point, quote or line end (code {})",
                          static_cast<int>(separator));
  }
  peek();
  if (as_text(input_).starts_with("\xEF\xBB\xBF")) input_ = input_.subspan(3);
}

bool CsvReader::next() {
  do {
    count_ = 0;
    while (peek() == '\n' || peek() == '\r') get();
    row_line_ = line_;
    if (peek() == kEnd) return false;
    read_field();
    while (peek() == separator_) {
      get();
      read_field();
    }
  } while (count_ == 1 && fields_[0].empty());  // a blank line
  return true;
}

/// Returns the next byte, with CRLF and CR as LF; counts lines.
int CsvReader::get() {
  int character = peek();
  if (character == kEnd) return kEnd;
  input_ = input_.subspan(1);
  if (character == '\r') {
    if (peek() == '\n') input_ = input_.subspan(1);
    character = '\n';
  }
  if (character == '\n') ++line_;
  return character;
}

int CsvReader::peek() {
  if (input_.empty()) {
    input_ = Bytes(buffer_).first(source_.read(buffer_));
    if (source_.offset() > max_bytes_) {
      fail<Corrupt>("{}: longer than the {} bytes allowed for a CSV file", source_.at(source_.offset()), max_bytes_);
    }
    if (input_.empty()) return kEnd;
  }
  return std::to_integer<int>(input_.front());
}

void CsvReader::read_field() {
  if (count_ == kMaxFields)
    fail<Corrupt>("{}: more than {} columns; is the separator right?", where(line_), kMaxFields);
  if (count_ == fields_.size()) fields_.emplace_back();
  std::string& field = fields_[count_++];
  field.clear();
  skip_blanks();
  if (peek() == '"') {
    read_quoted(field);
    return;
  }
  read_plain(field);
  while (!field.empty() && (field.back() == ' ' || field.back() == '\t')) field.pop_back();
}

/// Up to the end of the field, a buffer at a time: most of a table is this.
void CsvReader::read_plain(std::string& field) {
  while (!at_field_end()) {
    const std::string_view text = as_text(input_);
    std::size_t end = 0;
    while (end < text.size() && text[end] != '\n' && text[end] != '\r' &&
           static_cast<unsigned char>(text[end]) != separator_) {
      ++end;
    }
    check_room(field, end);
    field.append(text.substr(0, end));
    input_ = input_.subspan(end);
  }
}

void CsvReader::read_quoted(std::string& field) {
  const std::uint64_t first_line = line_;
  get();
  while (true) {
    const int character = get();
    if (character == kEnd) fail<Corrupt>("{}: expected a closing quote, found the end of the file", where(first_line));
    if (character == '"') {
      if (peek() != '"') break;
      get();
    }
    append(field, character);
  }
  skip_blanks();
  if (!at_field_end()) {
    fail<Corrupt>("{}: expected '{}' or the end of the line after the closing quote, found more text", where(line_),
                  static_cast<char>(separator_));
  }
}

void CsvReader::check_room(const std::string& field, std::size_t more) const {
  if (field.size() + more > kMaxFieldBytes) {
    fail<Corrupt>("{}: a field of more than {} bytes; is a quote left open or the separator wrong?", where(line_),
                  kMaxFieldBytes);
  }
}

void CsvReader::append(std::string& field, int character) {
  check_room(field, 1);
  field += static_cast<char>(character);
}

void CsvReader::skip_blanks() {
  while ((peek() == ' ' || peek() == '\t') && peek() != separator_) get();
}

bool CsvReader::at_field_end() {
  const int character = peek();
  return character == kEnd || character == '\n' || character == '\r' || character == separator_;
}

std::string CsvReader::where(std::uint64_t line) const {
  return fmt::format("{}, line {}, column {}", source_.path().string(), line, count_);
}

}  // namespace trireme::data
