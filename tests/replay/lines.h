// Traces by hand.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "ember/replay/trace.h"

namespace ember::replay {

/// Addresses are bytes from the first segment's beginning.
class Lines {
 public:
  Lines& segment(std::uint64_t at, std::uint64_t size, int stream = 0, int pool = 0) {
    return sized('+', at, size, stream, pool);
  }
  Lines& map(std::uint64_t at, std::uint64_t size, int stream = 0, int pool = 0) {
    return sized('m', at, size, stream, pool);
  }
  Lines& block(std::uint64_t at, std::uint64_t size, int stream = 0, int pool = 0) {
    return sized('a', at, size, stream, pool);
  }
  Lines& request(std::uint64_t at) { return bare('r', at); }
  Lines& complete(std::uint64_t at) { return bare('c', at); }
  Lines& free(std::uint64_t at) { return request(at).complete(at); }
  Lines& give_back(std::uint64_t at) { return bare('-', at); }
  Lines& unmap(std::uint64_t at, std::uint64_t size) {
    bare('u', at);
    text_.pop_back();
    text_ += " " + std::to_string(size) + "\n";
    return *this;
  }
  std::string text() const { return text_ + "end " + std::to_string(count_) + "\n"; }
  Trace trace() const { return read_trace(text()); }

 private:
  Lines& bare(char letter, std::uint64_t at) {
    char address[24];
    std::snprintf(address, sizeof address, "%llx",
                  static_cast<unsigned long long>((kStart + at) / 512));
    text_ += std::string(1, letter) + " " + address + "\n";
    ++count_;
    return *this;
  }
  Lines& sized(char letter, std::uint64_t at, std::uint64_t size, int stream, int pool) {
    bare(letter, at);
    text_.pop_back();
    text_ += " " + std::to_string(size) + " " + std::to_string(stream) + " " +
             std::to_string(pool) + "\n";
    return *this;
  }
  static constexpr std::uint64_t kStart = std::uint64_t{1} << 40;
  std::string text_ = "ember-trace 1\n";
  std::size_t count_ = 0;
};

}  // namespace ember::replay
