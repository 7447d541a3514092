#include "progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "terminal.h"
#include "text_table.h"

namespace fusedmoe::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr std::size_t kBarWidth = 30;
constexpr const char* kWipeLine = "\r\x1b[K";

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      is_terminal_(stderr_is_terminal()),
      next_draw_(std::chrono::steady_clock::now() + kPatience) {}

ProgressBar::~ProgressBar() {
  if (drawn_) fmt::print(stderr, "{}", kWipeLine);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!is_terminal_ || total == 0) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  const auto now = std::chrono::steady_clock::now();
  if (!lock.owns_lock() || now < next_draw_) return;
  next_draw_ = now + kRedraw;
  drawn_ = true;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  std::string bar(static_cast<std::size_t>(share * static_cast<double>(kBarWidth)), '#');
  bar.resize(kBarWidth, '.');
  fmt::print(stderr, "{}{} [{}] {:3.0f}% of {}", kWipeLine, label_, bar, 100.0 * share,
             format_bytes(static_cast<double>(total)));
  std::fflush(stderr);
}

std::function<void(std::uint64_t, std::uint64_t)> ProgressBar::callback() {
  return [this](std::uint64_t done, std::uint64_t total) { update(done, total); };
}

}  // namespace fusedmoe::cli
