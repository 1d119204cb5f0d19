#include "ember/driver/cuda/recent_work.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ember/driver/cuda/text.h"

namespace ember::inline v0::driver::cuda {
namespace {

std::string operation_text(const RecentWork::Operation& operation) {
  const char* quote = operation.is_kernel ? "'" : "";
  std::string text = quote;
  text.append(operation.name).append(quote);
  if (operation.bytes != 0) text += " of " + bytes_text(operation.bytes);
  return text + " on " + stream_text(operation.stream);
}

}  // namespace

void RecentWork::retract(Number number) noexcept {
  slots_[number % kKept].number.compare_exchange_strong(number, 0, std::memory_order_relaxed);
}

bool RecentWork::read(const Slot& slot, Number& number, Operation& out) const noexcept {
  number = slot.number.load(std::memory_order_acquire);
  if (number == 0) return false;
  out.name = slot.name.load(std::memory_order_acquire);
  out.stream = slot.stream.load(std::memory_order_acquire);
  out.bytes = slot.bytes.load(std::memory_order_acquire);
  out.is_kernel = slot.is_kernel.load(std::memory_order_acquire);
  return slot.number.load(std::memory_order_relaxed) == number;
}

void RecentWork::finished(Number number) noexcept {
  for (Slot& slot : slots_) {
    const Number at = slot.number.load(std::memory_order_relaxed);
    if (at != 0 && at <= number) retract(at);
  }
}

void RecentWork::finished(Number number, const void* stream) noexcept {
  for (Slot& slot : slots_) {
    Number at = 0;
    Operation operation{};
    if (read(slot, at, operation) && at <= number && operation.stream == stream) retract(at);
  }
}

std::string RecentWork::text() const {
  std::vector<std::pair<Number, Operation>> found;
  for (const Slot& slot : slots_) {
    Number number = 0;
    Operation operation{};
    if (read(slot, number, operation)) found.emplace_back(number, operation);
  }
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [number, operation] : found)
    text += (text.empty() ? "" : ", ") + operation_text(operation);
  return text;
}

}  // namespace ember::inline v0::driver::cuda
