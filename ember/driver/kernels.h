// The kernels that ship with the core. Their CUDA columns live in the CUDA object and are bound to
// the rows when it is opened, before anything can be launched.
#pragma once

#include <cstdint>
#include <span>

#include "ember/driver/kernel.h"

namespace ember::driver::kernels {

/// Spins for a number of clock cycles (on simulated devices: at 1 GHz, so nanoseconds).
struct SleepArgs {
  std::uint64_t cycles = 0;
};
extern Kernel sleep;

/// A table of rows that have CUDA columns of the same names. Tables are objects of static duration;
/// making one adds it to those that are bound when the CUDA object is opened. One made later, by a
/// library that was loaded afterwards, stays without CUDA columns.
class Table {
 public:
  explicit Table(std::span<Kernel> rows) noexcept;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

 private:
  friend void bind(CudaColumn (*column)(const char* name)) noexcept;
  std::span<Kernel> rows_;
  Table* next_;
};

/// Gives every row of every table its CUDA column.
void bind(CudaColumn (*column)(const char* name)) noexcept;

}  // namespace ember::driver::kernels
