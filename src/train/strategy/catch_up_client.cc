#include "train/strategy/catch_up_client.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "net/event_loop.h"

namespace trireme {
namespace {

constexpr auto kStepWithin = 600s;  // the members may be slow, or evaluating; the end of the source is noticed
constexpr int kPatience = 3;        // steps

std::uint64_t bytes_of(const std::vector<torch::Tensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

void check_size(const CatchUpHeader& header, std::uint64_t expected, const std::string& source) {
  if (header.bytes == expected) return;
  fail<Corrupt>("{} tells {} bytes of what has {} here: do all workers run the same program with the same flags?",
                source, header.bytes, expected);
}

}  // namespace

CatchUpClient::CatchUpClient(net::RawStream source, CatchUpClientOptions options)
    : options_(std::move(options)),
      change_(std::make_unique_for_overwrite<std::byte[]>(options_.change_bytes)),
      stream_(std::move(source)),
      thread_([this] { run(); }) {}

CatchUpClient::~CatchUpClient() { interrupt(); }

bool CatchUpClient::wait_until_near() {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [&]() TRIREME_REQUIRES(mutex_) { return near_ || over_; });
  return near_;
}

std::optional<Position> CatchUpClient::finish(Deadline deadline) {
  {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, deadline, [&]() TRIREME_REQUIRES(mutex_) { return over_; });
  }
  interrupt();
  if (thread_.joinable()) thread_.join();
  return at_;
}

void CatchUpClient::interrupt() { ::shutdown(stream_.descriptor(), SHUT_RDWR); }

void CatchUpClient::run() {
  net::name_thread("catch up");
  torch::NoGradGuard no_grad;
  try {
    while (take_message()) continue;
  } catch (const std::exception& problem) {
    log_info("catch_up_ended", "stopped catching up with the job", {{"reason", problem.what()}});
  }
  {
    const MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

/// False at the end.
bool CatchUpClient::take_message() {
  CatchUpHeader header;
  stream_.recv_all({reinterpret_cast<std::byte*>(&header), sizeof(header)}, Deadline::in(kStepWithin));
  if (header.kind == CatchUpHeader::Kind::kEnd) return false;
  bool near = false;
  if (header.kind == CatchUpHeader::Kind::kState) {
    take_state(header);
  } else if (header.kind == CatchUpHeader::Kind::kChange && at_) {
    take_change(header);
    near = makes_no_progress(header.behind);
  } else if (header.kind == CatchUpHeader::Kind::kAll && at_ && at_->version == header.version) {
    near = true;
  } else {
    fail<Corrupt>("{} sends what is no state", stream_.peer());
  }
  at_ = {.fresh = false, .version = header.version, .updates = header.updates};
  {
    const MutexLock lock(mutex_);
    near_ = near_ || near;
  }
  changed_.notify_all();
  return true;
}

/// On a link that is hardly faster than the steps it may be a little behind for ever.
bool CatchUpClient::makes_no_progress(std::uint32_t behind) {
  if (behind < least_behind_) {
    least_behind_ = behind;
    without_progress_ = 0;
    return false;
  }
  return ++without_progress_ >= kPatience;
}

void CatchUpClient::take_state(const CatchUpHeader& header) {
  const std::uint64_t size = bytes_of(options_.state);
  check_size(header, size, stream_.peer());
  const auto arrived = std::make_unique_for_overwrite<std::byte[]>(size);
  receive({arrived.get(), size});
  std::byte* from = arrived.get();
  for (const torch::Tensor& tensor : options_.state) {
    tensor.detach().copy_(torch::from_blob(from, tensor.sizes(), tensor.scalar_type()));
    from += tensor.nbytes();
  }
  options_.on_state();
}

void CatchUpClient::take_change(const CatchUpHeader& header) {
  check_size(header, options_.change_bytes, stream_.peer());
  if (header.version != at_->version + 1 || header.updates < at_->updates || header.updates > at_->updates + 1) {
    fail<Corrupt>("{} tells of step {} after step {}", stream_.peer(), header.version, at_->version);
  }
  const MutableBytes change{change_.get(), options_.change_bytes};
  receive(change);
  const StepChange step{.after = {.fresh = false, .version = header.version, .updates = header.updates},
                        .updated = header.updates > at_->updates,
                        .left_out = header.left_out != 0,
                        .input = {.step = header.updates, .lr = header.lr, .gradient_scale = header.gradient_scale}};
  options_.on_change(step, change);
}

void CatchUpClient::receive(MutableBytes bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kStateBlock);
    stream_.recv_all(bytes.first(size), Deadline::in(kStateBlockWithin));
    bytes = bytes.subspan(size);
  }
}

}  // namespace trireme
