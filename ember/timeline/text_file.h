// A file that is written piece by piece: a timeline's text may be larger than what it is made of.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace ember::inline v0::cuda::timeline {

class TextFile {
 public:
  /// FileError if it cannot be opened.
  explicit TextFile(const std::string& path);
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  TextFile& operator<<(std::string_view text) {
    waiting_ += text;
    if (waiting_.size() >= kMost) flush();
    return *this;
  }
  TextFile& operator<<(std::integral auto number) {
    char text[24];
    const auto end = std::to_chars(text, text + sizeof text, number).ptr;
    return *this << std::string_view(text, static_cast<std::size_t>(end - text));
  }
  /// As append_json_text() does.
  TextFile& quoted(std::string_view text);
  /// FileError if anything could not be written.
  void close();

 private:
  static constexpr std::size_t kMost = 1 << 20;
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
  };
  void flush();
  [[noreturn]] void fail() const;

  const std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::string waiting_;
};

}  // namespace ember::inline v0::cuda::timeline
