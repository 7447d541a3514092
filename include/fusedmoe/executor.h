// Threads: the pool that kernels run on, replaceable by the host program's own.
#pragma once

#include <functional>
#include <memory>

namespace fusedmoe {

/// Runs one function on all of a fixed number of threads and waits for them.
///
/// Implement this to run the layer on the threads of a host program. Threads that run forwards on
/// one executor call `run` at the same time: it must finish one run before it begins the next.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual int num_threads() const noexcept = 0;
  /// Calls `task(context, i)` once for each i in [0, num_threads()), concurrently, and returns when
  /// all have returned. `task` never throws. All calls must be in flight at once: tasks wait for
  /// each other at barriers.
  virtual void run(void (*task)(void* context, int thread_index), void* context) = 0;
};

struct ThreadPoolOptions {
  int num_threads = 0;  ///< 0: one per core that the process may use
  bool pin = false;     ///< bind thread i to the i-th allowed core
};

/// A persistent pool; the calling thread takes part as thread 0. Idle workers spin for a short time
/// and then sleep. With one thread nothing is started.
/// @throws Error(kInvalidArgument) for a negative count, Error(kDevice) when a thread cannot start.
std::unique_ptr<Executor> make_thread_pool(const ThreadPoolOptions& options = {});

/// Cores that this process may use (affinity mask and cgroup quota), at least 1.
int num_usable_cores();

}  // namespace fusedmoe
