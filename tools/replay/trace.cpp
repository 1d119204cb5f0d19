#include "tools/replay/trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "ember/base/error.h"

namespace ember::replay {
namespace {

using Action = Entry::Action;

constexpr std::string_view kLetters = "arc+-";  // in the order of Action
constexpr std::string_view kFirstLine = "ember-trace 1";
constexpr std::uint64_t kUnit = 512;

/// One line, word by word.
class Line {
 public:
  Line(std::string_view text, std::size_t number) : rest_(text), number_(number) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw ValueError("trace: line " + std::to_string(number_) + ": " + what);
  }
  std::string_view word() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return found;
  }
  std::string_view rest() const { return rest_; }
  std::uint64_t number(const char* name, int base, std::uint64_t end) {
    const std::string_view text = word();
    std::uint64_t value = 0;
    const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (text.empty() || error != std::errc() || last != text.data() + text.size() || value >= end)
      refuse("expected " + std::string(name) + ", a number below " + std::to_string(end) +
             (base == 16 ? " in base 16" : "") + ", got '" + std::string(text.substr(0, 40)) + "'");
    return value;
  }
  void finish() const {
    if (!rest_.empty())
      refuse("expected nothing after it, got '" + std::string(rest_.substr(0, 40)) + "'");
  }

 private:
  std::string_view rest_;
  std::size_t number_;
};

Entry entry_of(Line& line, std::size_t action) {
  Entry entry;
  entry.action = static_cast<Action>(action);
  entry.address = line.number("an address divided by 512", 16, kEndOfAddresses / kUnit) * kUnit;
  if (entry.action == Action::alloc || entry.action == Action::segment_alloc) {
    entry.size = line.number("a size", 10, kEndOfSizes);
    entry.stream = static_cast<std::uint32_t>(line.number("a stream", 10, kEndOfNumbers));
    entry.pool = static_cast<std::uint32_t>(line.number("a pool", 10, kEndOfNumbers));
  }
  line.finish();
  return entry;
}

void peaks_of(Line& line, Trace& trace) {
  const std::string_view which = line.word();
  if (which != "native" && which != "expandable")
    line.refuse("expected 'native' or 'expandable', got '" + std::string(which.substr(0, 40)) +
                "'");
  std::optional<Peaks>& peaks = which == "native" ? trace.native : trace.expandable;
  if (peaks) line.refuse("these peaks are there twice");
  peaks.emplace();
  peaks->allocated = line.number("bytes", 10, kEndOfSizes);
  peaks->reserved = line.number("bytes", 10, kEndOfSizes);
  line.finish();
}

std::string hex(std::uint64_t value) {
  std::array<char, 20> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value, 16);
  return {text.data(), end};
}

}  // namespace

std::uint32_t Trace::streams() const {
  std::uint32_t most = 0;
  for (const Entry& entry : entries) most = std::max(most, entry.stream + 1);
  return most;
}

std::size_t Trace::places() const {
  std::set<std::pair<std::uint32_t, std::uint32_t>> found;
  for (const Entry& entry : entries)
    if (entry.action == Action::alloc) found.emplace(entry.stream, entry.pool);
  return found.size();
}

Trace read_trace(std::string_view text) {
  Trace trace;
  Follower follower;
  bool ended = false;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    Line line(text.substr(0, end), ++number);
    if (end == std::string_view::npos) line.refuse("the text ends within it");
    text.remove_prefix(end + 1);
    if (number == 1) {
      if (line.rest() != kFirstLine)
        line.refuse("expected '" + std::string(kFirstLine) + "', got '" +
                    std::string(line.rest().substr(0, 40)) + "'");
      continue;
    }
    if (ended) line.refuse("expected nothing after 'end'");
    const std::string_view first = line.word();
    if (first.size() == 1 && kLetters.find(first[0]) != std::string_view::npos) {
      const Entry entry = entry_of(line, kLetters.find(first[0]));
      if (const std::string why = follower.add(entry); !why.empty()) line.refuse(why);
      trace.entries.push_back(entry);
    } else if (first == "program") {
      if (!trace.program.empty()) line.refuse("the program is there twice");
      trace.program = line.rest();
    } else if (first == "peak") {
      peaks_of(line, trace);
    } else if (first == "end") {
      if (line.number("the number of entries", 10, kEndOfSizes) != trace.entries.size())
        line.refuse("there are " + std::to_string(trace.entries.size()) + " entries");
      line.finish();
      ended = true;
    } else {
      line.refuse("expected a, r, c, +, -, program, peak or end, got '" +
                  std::string(first.substr(0, 40)) + "'");
    }
  }
  if (!ended)
    throw ValueError("trace: it ends after line " + std::to_string(number) + ", without 'end'");
  return trace;
}

std::string write_trace(const Trace& trace) {
  std::string text(kFirstLine);
  text += '\n';
  if (!trace.program.empty()) text += "program " + trace.program + "\n";
  for (const auto& [name, peaks] :
       {std::pair("native", trace.native), std::pair("expandable", trace.expandable)})
    if (peaks)
      text += std::string("peak ") + name + " " + std::to_string(peaks->allocated) + " " +
              std::to_string(peaks->reserved) + "\n";
  for (const Entry& entry : trace.entries) {
    text += kLetters[static_cast<std::size_t>(entry.action)];
    text += " " + hex(entry.address / kUnit);
    if (entry.action == Action::alloc || entry.action == Action::segment_alloc)
      text += " " + std::to_string(entry.size) + " " + std::to_string(entry.stream) + " " +
              std::to_string(entry.pool);
    text += '\n';
  }
  text += "end " + std::to_string(trace.entries.size()) + "\n";
  return text;
}

// ---- What may follow what

struct Follower::State {
  struct Block {
    std::uint64_t size = 0;
    bool freed = false;  // and streams may still use it
  };
  std::map<std::uint64_t, std::uint64_t> segments;  // size by address
  std::map<std::uint64_t, Block> blocks;

  /// What begins at or before the address, in segments or blocks; null if nothing does.
  template <class Things>
  static auto before(Things& things, std::uint64_t address) {
    auto after = things.upper_bound(address);
    return after == things.begin() ? things.end() : std::prev(after);
  }
  template <class Things, class Size>
  static bool overlaps(const Things& things, std::uint64_t address, std::uint64_t size,
                       const Size& size_of) {
    const auto after = things.lower_bound(address + size);
    if (after == things.begin()) return false;
    const auto last = std::prev(after);
    return last->first + size_of(last->second) > address;
  }
};

Follower::Follower() : state_(std::make_unique<State>()) {}
Follower::~Follower() = default;

bool Follower::knows(const Entry& entry) const {
  if (entry.action == Action::segment_alloc) return true;
  if (entry.action == Action::segment_free) return state_->segments.contains(entry.address);
  if (entry.action != Action::alloc) return state_->blocks.contains(entry.address);
  const auto segment = State::before(state_->segments, entry.address);
  return segment != state_->segments.end() && entry.address - segment->first < segment->second;
}

std::string Follower::add(const Entry& entry) {
  State& state = *state_;
  const auto size_of_block = [](const State::Block& block) { return block.size; };
  switch (entry.action) {
    case Action::segment_alloc:
      if (entry.size == 0 || entry.size % kUnit != 0)
        return "a segment of " + std::to_string(entry.size) + " bytes, expected a multiple of 512";
      if (State::overlaps(state.segments, entry.address, entry.size,
                          [](std::uint64_t size) { return size; }))
        return "a segment that overlaps another one";
      state.segments.emplace(entry.address, entry.size);
      return {};
    case Action::alloc: {
      if (entry.size == 0) return "an allocation of no bytes";
      const auto segment = State::before(state.segments, entry.address);
      if (segment == state.segments.end() || entry.address - segment->first >= segment->second ||
          entry.size > segment->second - (entry.address - segment->first))
        return "a block that lies in no segment";
      if (State::overlaps(state.blocks, entry.address, entry.size, size_of_block))
        return "a block that overlaps another one";
      state.blocks[entry.address] = {entry.size, false};
      return {};
    }
    case Action::free_requested: {
      const auto block = state.blocks.find(entry.address);
      if (block == state.blocks.end() || block->second.freed) return "a free of what is not in use";
      block->second.freed = true;
      return {};
    }
    case Action::free_completed: {
      const auto block = state.blocks.find(entry.address);
      if (block == state.blocks.end() || !block->second.freed)
        return "the end of a free that was not asked for";
      state.blocks.erase(block);
      return {};
    }
    case Action::segment_free: {
      const auto segment = state.segments.find(entry.address);
      if (segment == state.segments.end()) return "no segment that could go back";
      if (State::overlaps(state.blocks, segment->first, segment->second, size_of_block))
        return "a segment that goes back with blocks in use";
      state.segments.erase(segment);
      return {};
    }
  }
  return "no action";
}

}  // namespace ember::replay
