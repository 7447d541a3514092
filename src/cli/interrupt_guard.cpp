#include "interrupt_guard.h"

#include <iterator>
#include <type_traits>

namespace fusedmoe::cli {
namespace {

volatile std::sig_atomic_t g_remembered = 0;

void remember(int signal) { g_remembered = signal; }

}  // namespace

InterruptGuard::InterruptGuard() : former_{} {
  static_assert(std::size(kSignals) == std::extent_v<decltype(former_)>);
  g_remembered = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], &action, &former_[i]);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], &former_[i], nullptr);
  }
  if (g_remembered != 0) std::raise(g_remembered);
}

}  // namespace fusedmoe::cli
