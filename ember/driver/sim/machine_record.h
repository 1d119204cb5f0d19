// The record of a simulated machine that several processes share: what the file holds in which they
// keep account.
//
// A header, which is written before anybody else sees the file and never again; then a slot for
// each process, the bytes that each holds of each device, and what each device's meters have
// counted for it. Each slot's part is written by its process alone, in single words. So there is
// nothing that a process could leave half done wherever it is killed, and whatever lies in the
// file, readers only ever compute with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ember/base/status.h"
#include "ember/driver/choice.h"
#include "ember/driver/sim/activity.h"

namespace ember::inline v0::driver::sim {

struct RecordHeader {
  static constexpr std::uint64_t kMagic = 0x6863614d'72626d65;  // "embrMach"
  static constexpr std::uint32_t kVersion = 1;

  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t layout;  // kRecordLayout of who made it
  std::uint64_t bytes;   // of each device
  std::uint32_t devices;
  std::uint32_t slots;
  std::uint64_t size;  // of the file
};

/// What a process says of itself. Whether it lives is asked of the kernel (record_file.h).
struct alignas(64) RecordSlot {
  std::atomic<std::uint32_t> process;  // its number; 0 if the slot was never used
  std::atomic<std::uint32_t> leaving;  // 1: it ends, and needs the record no more
};

using RecordBytes = std::atomic<std::uint64_t>;

struct RecordMeters {
  MeterRecord busy;
  MeterRecord memory;
};

/// Where things are in the file of a machine of so many devices.
struct RecordShape {
  static constexpr std::uint32_t kSlots = 256;  ///< how many processes there can be
  static constexpr std::size_t kPage = 4096;

  std::uint32_t devices = 1;

  static constexpr std::size_t slots_at() noexcept { return 64; }
  static constexpr std::size_t bytes_at() noexcept {
    return slots_at() + kSlots * sizeof(RecordSlot);
  }
  /// The end of what there is for every process; the meters of a slot get memory when it is taken.
  std::size_t fixed_size() const noexcept {
    return to_pages(bytes_at() + std::size_t{devices} * kSlots * sizeof(RecordBytes));
  }
  std::size_t meters_size() const noexcept {
    return to_pages(std::size_t{devices} * sizeof(RecordMeters));
  }
  std::size_t meters_at(std::uint32_t slot) const noexcept {
    return fixed_size() + slot * meters_size();
  }
  std::size_t size() const noexcept { return meters_at(kSlots); }

 private:
  static std::size_t to_pages(std::size_t bytes) noexcept {
    return (bytes + kPage - 1) / kPage * kPage;
  }
};

/// Changes with what the file looks like, whatever kVersion says.
inline constexpr std::uint32_t kRecordLayout = static_cast<std::uint32_t>(
    sizeof(RecordHeader) | sizeof(RecordSlot) << 8 | sizeof(RecordMeters) << 16);
static_assert(sizeof(RecordHeader) <= RecordShape::slots_at());
static_assert(RecordBytes::is_always_lock_free && sizeof(RecordBytes) == 8);

/// The header of a machine like that.
RecordHeader make_header(const SimulatedSpec& spec) noexcept;

/// Reads the header at the beginning of a file of `size` bytes. Code::invalid_value if it is none,
/// of another version or layout, or does not fit the file: says which, and what was expected. Pure.
Status check_record(std::span<const std::byte> beginning, std::uint64_t size, RecordHeader& out);

/// A mapped file whose header was checked; does not own it.
class RecordView {
 public:
  RecordView() noexcept = default;
  RecordView(std::byte* data, std::uint32_t devices) noexcept
      : data_(data), shape_{.devices = devices} {}

  explicit operator bool() const noexcept { return data_ != nullptr; }
  const RecordShape& shape() const noexcept { return shape_; }
  RecordSlot& slot(std::uint32_t slot) const noexcept {
    return at<RecordSlot>(RecordShape::slots_at())[slot];
  }
  /// What the slot's process holds of a device.
  RecordBytes& bytes(int device, std::uint32_t slot) const noexcept {
    return at<RecordBytes>(
        RecordShape::bytes_at())[static_cast<std::size_t>(device) * RecordShape::kSlots + slot];
  }
  RecordMeters& meters(int device, std::uint32_t slot) const noexcept {
    return at<RecordMeters>(shape_.meters_at(slot))[device];
  }

 private:
  template <class T>
  T* at(std::size_t offset) const noexcept {
    return reinterpret_cast<T*>(data_ + offset);
  }

  std::byte* data_ = nullptr;
  RecordShape shape_;
};

}  // namespace ember::inline v0::driver::sim
