#include "net/shm/shm_poller.h"

#include <poll.h>

#include <algorithm>

#include "net/event_loop.h"
#include "net/shm/spin.h"

namespace trireme::net {

ShmPoller::ShmPoller(const std::string& name)
    : thread_([this, name](const std::stop_token& stop) {
        name_thread(name);
        run(stop);
      }) {}

ShmPoller::~ShmPoller() {
  thread_.request_stop();
  doorbell_->ring();
}

void ShmPoller::add(std::shared_ptr<ShmChannel> channel) {
  {
    const MutexLock lock(mutex_);
    added_.push_back(std::move(channel));
  }
  some_added_.store(true, std::memory_order_release);
  doorbell_->ring();
}

void ShmPoller::take_new_channels() {
  if (!some_added_.exchange(false)) return;
  const MutexLock lock(mutex_);
  channels_.insert(channels_.end(), added_.begin(), added_.end());
  added_.clear();
}

void ShmPoller::run(const std::stop_token& stop) {
  Spinner spinner;
  while (!stop.stop_requested()) {
    take_new_channels();
    std::size_t delivered = 0;
    for (const auto& channel : channels_) delivered += channel->poll();
    if (++turns_ % 4096 == 0) check_sockets();  // the death of one peer shows even while others keep us busy
    if (delivered > 0) {
      spinner.reset();
    } else if (!spinner.spin()) {
      sleep();
      spinner.reset();
    }
  }
  for (const auto& channel : channels_) channel->close("the service stops");
}

void ShmPoller::check_sockets() {
  for (const auto& channel : channels_) channel->check_socket();
  std::erase_if(channels_, [](const auto& channel) { return channel->closed(); });
}

void ShmPoller::sleep() {
  bool quiet = true;
  for (const auto& channel : channels_) quiet = channel->prepare_sleep() && quiet;
  std::vector<pollfd> waiting{{doorbell_->descriptor(), POLLIN, 0}};
  for (const auto& channel : channels_) waiting.push_back({channel->socket(), POLLIN, 0});
  if (quiet) {
    const bool backlog =
        std::any_of(channels_.begin(), channels_.end(), [](const auto& c) { return c->has_backlog(); });
    const int ready = ::poll(waiting.data(), waiting.size(), backlog ? 1 : 200);
    if (ready > 0 && waiting[0].revents != 0) doorbell_->silence();
  }
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    channels_[i]->awake();
    if (waiting[i + 1].revents != 0) channels_[i]->check_socket();
  }
  std::erase_if(channels_, [](const auto& channel) { return channel->closed(); });
}

}  // namespace trireme::net
