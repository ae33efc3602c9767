#include "observe/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace trireme::observe {
namespace {

constexpr int kUsualColumns = 80;
constexpr int kPlainColumns = 200;  // lines in a file need not fit on a screen
constexpr std::string_view kErase = "\r\x1b[K";

int terminal_columns(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

}  // namespace

ProgressLine::ProgressLine(ProgressOptions options)
    : options_(std::move(options)), terminal_(options_.terminal.value_or(::isatty(options_.descriptor) == 1)) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(const Progress& progress) {
  const MutexLock lock(mutex_);
  progress_ = progress;
  pending_ = true;
  const auto interval = terminal_ ? options_.redraw_every : options_.print_every;
  const auto now = options_.now();
  if (drawn_at_ && now - *drawn_at_ < interval) return;
  drawn_at_ = now;
  draw();
}

void ProgressLine::print_above(std::string_view text) {
  const MutexLock lock(mutex_);
  std::string output(shown_ ? kErase : "");
  output += text;
  output += '\n';
  if (shown_) output += line();
  write(output);
}

void ProgressLine::clear() {
  const MutexLock lock(mutex_);
  if (std::exchange(shown_, false)) write(kErase);
}

void ProgressLine::finish() {
  const MutexLock lock(mutex_);
  if (!progress_) return;
  if (pending_ || (terminal_ && !shown_)) draw();
  if (std::exchange(shown_, false)) write("\n");
  progress_.reset();
}

void ProgressLine::draw() {
  pending_ = false;
  if (terminal_) {
    shown_ = true;
    write("\r" + line() + "\x1b[K");
  } else {
    write(line() + "\n");
  }
}

std::string ProgressLine::line() const {
  if (!terminal_) return render_progress(*progress_, kPlainColumns, {.bar = false, .colour = false});
  const int columns = options_.columns ? options_.columns() : terminal_columns(options_.descriptor);
  // The last column stays empty: some terminals wrap as soon as it is written.
  return render_progress(*progress_, columns - 1, {.bar = true, .colour = options_.colour});
}

void ProgressLine::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(options_.descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace trireme::observe
