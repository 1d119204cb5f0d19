// Snapshots as text: one description, in snapshot_writer.cpp, and two forms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ember::inline v0::cuda {
struct MemorySnapshot;
}

namespace ember::inline v0::memory {

/// Values are written one by one; what is between begin_ and end_ is in the list or dict.
class SnapshotWriter {
 public:
  virtual ~SnapshotWriter() = default;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  virtual void begin_dict() = 0;
  virtual void end_dict() = 0;
  /// The next value's, in a dict. A literal.
  virtual void key(const char* name) = 0;
  virtual void integer(std::int64_t value) = 0;
  virtual void natural(std::uint64_t value) = 0;
  virtual void number(double value) = 0;
  virtual void boolean(bool value) = 0;
  virtual void text(std::string_view value) = 0;
  /// Two numbers: a tuple, where there are tuples.
  virtual void pair(std::uint64_t first, std::uint64_t second) = 0;
  /// Writes the value that was kept under that number; false, and nothing, if there is none. Then
  /// the value that follows is to be closed with keep().
  virtual bool kept(std::uint32_t number) = 0;
  virtual void keep(std::uint32_t number) = 0;
};

/// Protocol 4. Lists are added to by at most 1,000 items at once; keys, texts and what is kept are
/// there once.
class PickleWriter final : public SnapshotWriter {
 public:
  PickleWriter();
  void begin_list() override;
  void end_list() override;
  void begin_dict() override;
  void end_dict() override;
  void key(const char* name) override;
  void integer(std::int64_t value) override;
  void natural(std::uint64_t value) override;
  void number(double value) override;
  void boolean(bool value) override;
  void text(std::string_view value) override;
  void pair(std::uint64_t first, std::uint64_t second) override;
  bool kept(std::uint32_t number) override;
  void keep(std::uint32_t number) override;
  /// After the one value.
  std::string pickle() &&;

 private:
  static constexpr std::size_t kMostAppended = 1000;
  void item();
  void put(unsigned char code) { out_.push_back(static_cast<char>(code)); }
  void little_endian(std::uint64_t value, std::size_t bytes);
  void whole(std::uint64_t bits, bool negative);
  void new_text(std::string_view value);
  std::uint32_t memoize();
  void get(std::uint32_t index);

  struct Open {
    bool list = false;
    std::size_t items = 0;
  };
  std::string out_;
  std::vector<Open> open_;
  std::uint32_t memo_ = 0;
  std::unordered_map<const char*, std::uint32_t> keys_;
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::unordered_map<std::uint32_t, std::uint32_t> kept_;
};

class JsonWriter final : public SnapshotWriter {
 public:
  void begin_list() override { begin('['); }
  void end_list() override { end(']'); }
  void begin_dict() override { begin('{'); }
  void end_dict() override { end('}'); }
  void key(const char* name) override;
  void integer(std::int64_t value) override;
  void natural(std::uint64_t value) override;
  void number(double value) override;
  void boolean(bool value) override;
  void text(std::string_view value) override;
  void pair(std::uint64_t first, std::uint64_t second) override;
  bool kept(std::uint32_t number) override;
  void keep(std::uint32_t number) override;
  std::string json() && { return std::move(out_); }

 private:
  void begin(char bracket);
  void end(char bracket);
  void separate();

  std::string out_;
  bool first_ = true;  // in its container
  bool after_key_ = false;
  std::vector<std::size_t> begun_;
  std::size_t closed_ = 0;  // where the value begins that was closed last
  std::unordered_map<std::uint32_t, std::string> kept_;
};

/// Chapter 10's structure.
void describe(const cuda::MemorySnapshot& snapshot, SnapshotWriter& writer);

}  // namespace ember::inline v0::memory
