#include "ember/memory/summary.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "ember/memory/memory.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {
namespace {

constexpr std::size_t kWidth = 75;

std::string left(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string right(std::int64_t number, std::size_t width) {
  const std::string text = std::to_string(number);
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

/// A number in the unit that suits `reference`: so a row has the unit of the one above it.
std::string byte_cell(std::int64_t bytes, std::int64_t reference) {
  constexpr std::array<const char*, 6> kUnits = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; unit + 1 < kUnits.size() && reference >= std::int64_t{768} * 1024; ++unit) {
    bytes /= 1024;
    reference /= 1024;
  }
  return right(bytes, 6) + " " + kUnits[unit];
}

std::string count_cell(std::int64_t count, std::int64_t reference) {
  constexpr std::array<char, 3> kUnits = {' ', 'K', 'M'};
  std::size_t unit = 0;
  for (; unit + 1 < kUnits.size() && reference >= 750000; ++unit) {
    count /= 1000;
    reference /= 1000;
  }
  return right(count, 7) + " " + kUnits[unit] + " ";
}

using Cell = std::string(std::int64_t number, std::int64_t reference);

class Table {
 public:
  void line(std::string_view text) { text_.append("|").append(text).append("|\n"); }
  void rule(char of) { line(std::string(kWidth, of)); }
  void row(std::string_view name, const Counter& counter, const Counter& reference, Cell* cell) {
    std::string text = " " + left(std::string(name), 21);
    for (const auto member :
         {&Counter::current, &Counter::peak, &Counter::allocated, &Counter::freed})
      text += " | " + cell(counter.*member, reference.*member);
    line(text + " ");
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string memory_summary(const MemoryCounters& counters, int device, bool abbreviated) {
  struct Metric {
    const char* name;
    const PoolCounters& of;
    Cell* cell;
  };
  const std::array<Metric, 9> metrics = {
      {{"Allocated memory", counters.allocated_bytes, &byte_cell},
       {"Active memory", counters.active_bytes, &byte_cell},
       {"Requested memory", counters.requested_bytes, &byte_cell},
       {"GPU reserved memory", counters.reserved_bytes, &byte_cell},
       {"Non-releasable memory", counters.inactive_split_bytes, &byte_cell},
       {"Allocations", counters.allocation, &count_cell},
       {"Active allocs", counters.active, &count_cell},
       {"GPU reserved segments", counters.segment, &count_cell},
       {"Non-releasable allocs", counters.inactive_split, &count_cell}}};
  Table table;
  table.rule('=');
  table.line(std::string(17, ' ') + " PyTorch CUDA memory summary, device ID " +
             left(std::to_string(device), 17) + " ");
  table.rule('-');
  table.line(std::string(11, ' ') + " CUDA OOMs: " + left(std::to_string(counters.num_ooms), 12) +
             " |        cudaMalloc retries: " +
             left(std::to_string(counters.num_alloc_retries), 8) + "  ");
  table.rule('=');
  table.line("        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ");
  for (const auto& [name, of, cell] : metrics) {
    table.rule('-');
    table.row(name, of.all, of.all, cell);
    if (abbreviated) continue;
    table.row("      from large pool", of.large_pool, of.all, cell);
    table.row("      from small pool", of.small_pool, of.all, cell);
  }
  table.rule('-');
  table.row("Oversize allocations", counters.oversize_allocations, counters.oversize_allocations,
            &count_cell);
  table.rule('-');
  table.row("Oversize GPU segments", counters.oversize_segments, counters.oversize_segments,
            &count_cell);
  table.rule('=');
  return std::move(table).text();
}

std::string memory_summary(DeviceArg device, bool abbreviated) {
  if (driver_if_made() == nullptr) return memory_summary(MemoryCounters(), 0, abbreviated);
  return memory_summary(memory_counters(device), device.existing(), abbreviated);
}

}  // namespace ember::inline v0::cuda
