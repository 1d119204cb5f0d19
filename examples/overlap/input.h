// The bytes to work on: a file, or many copies of it as if they were one long file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace overlap {

class Input {
 public:
  /// Empty `path`: the program itself. UsageError unless it is a regular file that can be read.
  explicit Input(const std::string& path);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  const std::string& name() const noexcept { return name_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  std::uint64_t repeat() const noexcept { return repeat_; }
  std::uint64_t total_bytes() const noexcept { return file_bytes_ * repeat_; }

  /// UsageError if the total would be more than 1 EiB.
  void set_repeat(std::uint64_t times);
  /// Often enough to make at least `bytes` of it.
  void repeat_up_to(std::uint64_t bytes);

  /// Reads `bytes` bytes of the long file from `offset` on. Any number of threads may call it.
  /// Throws std::runtime_error if the file can't be read or has become shorter.
  void read(std::uint64_t offset, std::size_t bytes, std::uint8_t* target) const;

 private:
  void read_file(std::uint64_t offset, std::size_t bytes, std::uint8_t* target) const;

  std::string name_;
  int descriptor_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t repeat_ = 1;
};

}  // namespace overlap
