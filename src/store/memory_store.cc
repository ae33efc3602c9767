#include "store/memory_store.h"

#include "base/error.h"
#include "base/mutex.h"

namespace trireme::store {

struct MemorySpace::State {
  Mutex mutex;
  Condition changed;  // notified when the leader or the reachability changes
  std::map<std::string, std::string> entries TRIREME_GUARDED_BY(mutex);
  std::optional<Leader> leader TRIREME_GUARDED_BY(mutex);
  std::uint64_t last_term TRIREME_GUARDED_BY(mutex) = 0;
  bool reachable TRIREME_GUARDED_BY(mutex) = true;

  void check_reachable() const TRIREME_REQUIRES(mutex) {
    if (!reachable) fail<IoError>("the memory store is out of reach: its test said so");
  }
  bool led_in(std::uint64_t term) const TRIREME_REQUIRES(mutex) { return leader && leader->term == term; }
  void end(std::uint64_t term) TRIREME_REQUIRES(mutex) {
    if (!led_in(term)) return;
    leader.reset();
    changed.notify_all();
  }
};

MemorySpace::MemorySpace() : state_(std::make_unique<State>()) {}
MemorySpace::~MemorySpace() = default;

void MemorySpace::set_reachable(bool reachable) {
  const MutexLock lock(state_->mutex);
  state_->reachable = reachable;
  state_->changed.notify_all();
}

void MemorySpace::depose() {
  const MutexLock lock(state_->mutex);
  state_->leader.reset();
  state_->changed.notify_all();
}

namespace {

class MemoryLeadership : public Leadership {
 public:
  MemoryLeadership(std::shared_ptr<MemorySpace> space, std::uint64_t term) : space_(std::move(space)), term_(term) {}
  ~MemoryLeadership() override {
    const MutexLock lock(state().mutex);
    state().end(term_);
  }

  std::uint64_t term() const override { return term_; }

  bool leading() const override {
    const MutexLock lock(state().mutex);
    return state().reachable && state().led_in(term_);
  }

  bool over() const override {
    const MutexLock lock(state().mutex);
    return !state().led_in(term_);
  }

  void commit(const Changes& changes) override {
    check_changes(changes);
    const MutexLock lock(state().mutex);
    state().check_reachable();
    if (!state().led_in(term_)) fail<StaleView>("the leadership of term {} is over: campaign again", term_);
    for (const auto& [key, value] : changes) {
      if (value) {
        state().entries[key] = *value;
      } else {
        state().entries.erase(key);
      }
    }
  }

  void resign() override {
    const MutexLock lock(state().mutex);
    state().check_reachable();
    state().end(term_);
  }

 private:
  MemorySpace::State& state() const { return space_->state(); }

  const std::shared_ptr<MemorySpace> space_;
  const std::uint64_t term_;
};

class MemoryStore : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<MemorySpace> space) : space_(std::move(space)) {}

  std::optional<std::string> get(const std::string& key) override {
    const MutexLock lock(state().mutex);
    state().check_reachable();
    const auto found = state().entries.find(key);
    return found == state().entries.end() ? std::nullopt : std::optional(found->second);
  }

  std::map<std::string, std::string> list(const std::string& prefix) override {
    const MutexLock lock(state().mutex);
    state().check_reachable();
    std::map<std::string, std::string> found;
    for (auto at = state().entries.lower_bound(prefix); at != state().entries.end() && at->first.starts_with(prefix);) {
      found.insert(*at++);
    }
    return found;
  }

  std::optional<Leader> leader() override {
    const MutexLock lock(state().mutex);
    state().check_reachable();
    return state().leader;
  }

  std::unique_ptr<Leadership> campaign(const Campaign& campaign) override {
    const MutexLock lock(state().mutex);
    const auto vacant = [&]() TRIREME_REQUIRES(state().mutex) { return state().reachable && !state().leader; };
    if (!state().changed.wait(state().mutex, campaign.deadline, vacant)) {
      state().check_reachable();
      return nullptr;
    }
    state().leader = {.name = campaign.candidate.name, .value = campaign.candidate.value, .term = ++state().last_term};
    return std::make_unique<MemoryLeadership>(space_, state().last_term);
  }

 private:
  MemorySpace::State& state() const { return space_->state(); }

  const std::shared_ptr<MemorySpace> space_;
};

}  // namespace

std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemorySpace> space) {
  return std::make_unique<MemoryStore>(std::move(space));
}

}  // namespace trireme::store
