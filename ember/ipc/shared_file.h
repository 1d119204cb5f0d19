// Memory in a file without a name, which other processes can map.
#pragma once

#include <cstddef>

#include "ember/base/file.h"
#include "ember/base/status.h"

namespace ember::inline v0::ipc {

/// A file of that size, which can no longer shrink, without memory behind it yet.
Status make_shared_file(const char* name, std::size_t bytes, File& out);
/// Puts memory behind a part of it, so that an access cannot fail later: Code::out_of_memory if
/// there is none left.
Status commit(const File& file, std::size_t offset, std::size_t bytes);
/// Takes the memory away again; the bytes are zeros then.
void decommit(const File& file, std::size_t offset, std::size_t bytes) noexcept;

/// A mapped file, or a part of one: unmapped with its owner.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept { swap(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Mapping();

  /// All of a file. With `theirs`, of another process: Code::invalid_value unless it cannot shrink
  /// and has at least `bytes`.
  Status map(const File& file, std::size_t bytes, bool theirs = false);

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  void swap(Mapping& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ember::inline v0::ipc
