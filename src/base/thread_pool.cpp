// A persistent pool: workers spin briefly for the next task, then sleep on a condition variable.
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/spin.h"
#include "fusedmoe/error.h"
#include "fusedmoe/executor.h"

namespace fusedmoe {
namespace {

// Long enough to bridge the gap between two layers of a decode step, short enough that an idle
// process costs nothing that anybody sees.
constexpr auto kSpinTime = std::chrono::microseconds(200);

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

// cgroup v2: "max 100000" or "200000 100000".
int cgroup_core_limit() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  try {
    const double cores = std::stod(quota) / period;
    return cores < 1 ? 1 : static_cast<int>(cores);
  } catch (const std::exception&) {
    return 0;
  }
}

class ThreadPool final : public Executor {
 public:
  ThreadPool(int num_threads, bool pin) : num_threads_(num_threads) {
    const std::vector<int> cores = allowed_cores();
    try {
      for (int i = 1; i < num_threads; ++i) {
        workers_.emplace_back([this, i] { work(i); });
        if (pin) bind(workers_.back().native_handle(), cores, i);
      }
    } catch (const std::system_error& error) {
      stop();
      throw Error(ErrorCode::kDevice,
                  fmt::format("[base] thread pool: could not start thread {} of {}: {}",
                              workers_.size() + 1, num_threads, error.what()));
    }
    if (pin) bind(pthread_self(), cores, 0);
    // What a thread does to come up (it allocates) is over before anybody runs a layer on it.
    for (SpinWait spin; started_.load(std::memory_order_acquire) < num_threads - 1;) spin.pause();
  }

  ~ThreadPool() override { stop(); }

  int num_threads() const noexcept override { return num_threads_; }

  void run(void (*task)(void*, int), void* context) override {
    if (num_threads_ == 1) {
      task(context, 0);
      return;
    }
    const std::lock_guard one_at_a_time(run_mutex_);
    task_ = task;
    context_ = context;
    pending_.store(num_threads_ - 1, std::memory_order_relaxed);
    {
      const std::lock_guard lock(mutex_);
      generation_.fetch_add(1, std::memory_order_release);
    }
    if (sleepers_.load(std::memory_order_acquire) > 0) wake_.notify_all();
    task(context, 0);
    for (SpinWait spin; pending_.load(std::memory_order_acquire) != 0;) spin.pause();
  }

 private:
  static void bind(pthread_t thread, const std::vector<int>& cores, int index) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cores[static_cast<std::size_t>(index) % cores.size()], &set);
    pthread_setaffinity_np(thread, sizeof set, &set);  // a refusal leaves the thread unpinned
  }

  void work(int index) {
    std::uint64_t seen = 0;
    started_.fetch_add(1, std::memory_order_release);
    while (true) {
      wait_for_task(seen);
      seen = generation_.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      task_(context_, index);
      pending_.fetch_sub(1, std::memory_order_release);
    }
  }

  void wait_for_task(std::uint64_t seen) {
    const auto until = std::chrono::steady_clock::now() + kSpinTime;
    for (SpinWait spin; std::chrono::steady_clock::now() < until; spin.pause()) {
      if (generation_.load(std::memory_order_acquire) != seen) return;
    }
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_release);
    wake_.wait(lock, [&] { return generation_.load(std::memory_order_acquire) != seen; });
    sleepers_.fetch_sub(1, std::memory_order_release);
  }

  void stop() {
    stopping_.store(true, std::memory_order_relaxed);
    {
      const std::lock_guard lock(mutex_);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  const int num_threads_;
  std::vector<std::thread> workers_;
  std::mutex run_mutex_;  // two layers on two threads may share a pool: their runs take turns
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> started_{0};
  std::atomic<int> pending_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  void (*task_)(void*, int) = nullptr;
  void* context_ = nullptr;
};

}  // namespace

int num_usable_cores() {
  const int cores = static_cast<int>(allowed_cores().size());
  const int limit = cgroup_core_limit();
  return limit > 0 && limit < cores ? limit : cores;
}

std::unique_ptr<Executor> make_thread_pool(const ThreadPoolOptions& options) {
  if (options.num_threads < 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("[base] thread pool: expected num_threads >= 0, got {}", options.num_threads));
  }
  const int count = options.num_threads == 0 ? num_usable_cores() : options.num_threads;
  return std::make_unique<ThreadPool>(count, options.pin);
}

}  // namespace fusedmoe
