#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/collective/nccl/stand_in/cuda_runtime.h"

/// A thread that carries out tasks in order. Its end waits for those that are left.
struct StandInStream {
  StandInStream() : thread([this] { work(); }) {}
  ~StandInStream() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    thread.join();
  }

  void enqueue(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
    }
    changed.notify_all();
  }

  bool empty() {
    const std::lock_guard lock(mutex);
    return tasks.empty();
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ending || !tasks.empty(); });
      if (tasks.empty()) return;
      const auto task = tasks.front();
      lock.unlock();
      task();
      lock.lock();
      tasks.pop_front();  // only now: until then the stream is not empty
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool ending = false;
  std::thread thread;
};
