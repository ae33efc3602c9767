#include "net/secure/admission.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trireme::net {

std::optional<std::size_t> choose_idle(const std::vector<Unproven>& all, const AdmissionLimits& limits,
                                       Deadline::Clock::time_point now) {
  std::map<std::string, std::size_t> held;
  for (const Unproven& one : all) ++held[one.from];
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t places = held[all[i].from];
    const auto patience = 2 * places > limits.places ? limits.idle_after / 4 : limits.idle_after;
    if (now - all[i].progress < patience) continue;
    const auto rank = [&](std::size_t index) {  // the smallest goes
      return std::pair(limits.places - std::min(limits.places, held[all[index].from]), all[index].progress);
    };
    if (!chosen || rank(i) < rank(*chosen)) chosen = i;
  }
  return chosen;
}

Admission::Place::Place(std::shared_ptr<Admission> admission, std::string from)
    : admission_(std::move(admission)), about_{.from = std::move(from), .progress = Deadline::Clock::now()} {
  const MutexLock lock(admission_->mutex_);
  admission_->places_.push_back(this);
}

Admission::Place::~Place() { release(); }

bool Admission::Place::release() {
  const MutexLock lock(admission_->mutex_);
  std::erase(admission_->places_, this);
  return !evicted_;
}

void Admission::Place::on_eviction(std::function<void()> close) {
  {
    const MutexLock lock(admission_->mutex_);
    if (!evicted_) close_ = std::move(close);
  }
  if (close) close();  // too late: it had to go before it was set up
}

void Admission::Place::progressed() {
  const MutexLock lock(admission_->mutex_);
  about_.progress = Deadline::Clock::now();
}

bool Admission::Place::evicted() const {
  const MutexLock lock(admission_->mutex_);
  return evicted_;
}

bool Admission::make_room() {
  std::function<void()> close;
  {
    const MutexLock lock(mutex_);
    if (places_.size() < limits_.places) return true;
    std::vector<Unproven> all;
    for (const Place* place : places_) all.push_back(place->about_);
    const auto idle = choose_idle(all, limits_, Deadline::Clock::now());
    if (!idle) return false;
    const auto chosen = std::next(places_.begin(), static_cast<std::ptrdiff_t>(*idle));
    (*chosen)->evicted_ = true;
    close = std::move((*chosen)->close_);
    places_.erase(chosen);
  }
  if (close) close();
  return true;
}

}  // namespace trireme::net
