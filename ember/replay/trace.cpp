#include "ember/replay/trace.h"

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
#include "ember/base/json_text.h"

namespace ember::inline v0::replay {
namespace {

using Action = Entry::Action;

constexpr std::string_view kLetters = "arc+-mu";  // in the order of Action
constexpr std::string_view kFirstLine = "ember-trace 1";
constexpr std::uint64_t kUnit = 512;

/// One line, word by word.
class Line {
 public:
  Line(std::string_view text, std::size_t number) : rest_(text), number_(number) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw ValueError("trace: line " + std::to_string(number_) + ": " + as_line(what));
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
  if (entry.sized()) entry.size = line.number("a size", 10, kEndOfSizes);
  if (entry.comes()) {
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

std::set<std::uint32_t> Trace::pools_emptied(std::size_t entry) const {
  std::set<std::uint32_t> pools;
  for (; entry < entries.size() && entries[entry].gives_back(); ++entry)
    pools.insert(entries[entry].pool);
  return pools;
}

bool Trace::grows() const {
  return std::any_of(entries.begin(), entries.end(),
                     [](const Entry& entry) { return entry.action == Action::segment_map; });
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
      Entry entry = entry_of(line, kLetters.find(first[0]));
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
      line.refuse("expected a, r, c, +, -, m, u, program, peak or end, got '" +
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
    if (entry.sized()) text += " " + std::to_string(entry.size);
    if (entry.comes())
      text += " " + std::to_string(entry.stream) + " " + std::to_string(entry.pool);
    text += '\n';
  }
  text += "end " + std::to_string(trace.entries.size()) + "\n";
  return text;
}

// ---- What may follow what

struct Follower::State {
  struct Memory {  // of the device's
    std::uint64_t size = 0;
    std::uint32_t pool = 0;
  };
  struct Block {
    std::uint64_t size = 0;
    bool freed = false;  // and streams may still use it
  };
  // By addresses.
  std::map<std::uint64_t, Memory> segments;
  std::map<std::uint64_t, Memory> chunks;  // of segments that grow
  std::map<std::uint64_t, Block> blocks;

  /// What begins at or before the address; the end if nothing does.
  template <class Things>
  static auto before(Things& things, std::uint64_t address) {
    auto after = things.upper_bound(address);
    return after == things.begin() ? things.end() : std::prev(after);
  }
  template <class Things>
  static bool overlaps(const Things& things, std::uint64_t address, std::uint64_t size) {
    const auto after = things.lower_bound(address + size);
    if (after == things.begin()) return false;
    const auto last = std::prev(after);
    return last->first + last->second.size > address;
  }
  bool in_segment(std::uint64_t address, std::uint64_t size) const {
    const auto segment = before(segments, address);
    return segment != segments.end() && address - segment->first < segment->second.size &&
           size <= segment->second.size - (address - segment->first);
  }
  /// Whether chunks have all of it, one behind the other.
  bool in_chunks(std::uint64_t address, std::uint64_t size) const {
    const std::uint64_t end = address + size;
    auto chunk = before(chunks, address);
    while (chunk != chunks.end() && chunk->first <= address) {
      const std::uint64_t end_of_chunk = chunk->first + chunk->second.size;
      if (end_of_chunk <= address) return false;
      if (end_of_chunk >= end) return true;
      address = end_of_chunk;
      ++chunk;
    }
    return false;
  }
  /// So that no chunk goes across the address.
  void cut(std::uint64_t address) {
    const auto chunk = before(chunks, address);
    if (chunk == chunks.end()) return;
    const std::uint64_t first = address - chunk->first;
    if (first == 0 || first >= chunk->second.size) return;
    chunks[address] = {chunk->second.size - first, chunk->second.pool};
    chunk->second.size = first;
  }
};

Follower::Follower() : state_(std::make_unique<State>()) {}
Follower::~Follower() = default;

bool Follower::knows(const Entry& entry) const {
  switch (entry.action) {
    case Action::segment_alloc:
    case Action::segment_map: return true;
    case Action::segment_free: return state_->segments.contains(entry.address);
    case Action::segment_unmap: return state_->in_chunks(entry.address, entry.size);
    case Action::alloc:
      // A block that begins in a segment and ends elsewhere contradicts that.
      return state_->in_segment(entry.address, 1) || state_->in_chunks(entry.address, entry.size);
    case Action::free_requested:
    case Action::free_completed: return state_->blocks.contains(entry.address);
  }
  return false;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> Follower::mapped(std::uint64_t address,
                                                                      std::uint64_t size) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  auto chunk = State::before(state_->chunks, address);
  if (chunk == state_->chunks.end()) chunk = state_->chunks.begin();
  for (; chunk != state_->chunks.end() && chunk->first < address + size; ++chunk) {
    const std::uint64_t begin = std::max(chunk->first, address);
    const std::uint64_t end = std::min(chunk->first + chunk->second.size, address + size);
    if (begin < end) found.emplace_back(begin, end - begin);
  }
  return found;
}

std::string Follower::add(Entry& entry) {
  State& state = *state_;
  switch (entry.action) {
    case Action::segment_alloc:
    case Action::segment_map: {
      const bool grows = entry.action == Action::segment_map;
      const std::string what = grows ? "a chunk" : "a segment";
      if (entry.size == 0 || entry.size % kUnit != 0)
        return what + " of " + std::to_string(entry.size) + " bytes, expected a multiple of 512";
      if (State::overlaps(state.segments, entry.address, entry.size) ||
          State::overlaps(state.chunks, entry.address, entry.size))
        return what + " that overlaps another one";
      (grows ? state.chunks : state.segments)[entry.address] = {entry.size, entry.pool};
      return {};
    }
    case Action::alloc:
      if (entry.size == 0) return "an allocation of no bytes";
      if (!state.in_segment(entry.address, entry.size) &&
          !state.in_chunks(entry.address, entry.size))
        return "a block that lies in no segment";
      if (State::overlaps(state.blocks, entry.address, entry.size))
        return "a block that overlaps another one";
      state.blocks[entry.address] = {entry.size, false};
      return {};
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
      if (State::overlaps(state.blocks, segment->first, segment->second.size))
        return "a segment that goes back with blocks in use";
      entry.pool = segment->second.pool;
      state.segments.erase(segment);
      return {};
    }
    case Action::segment_unmap: {
      if (entry.size == 0 || entry.size % kUnit != 0)
        return "chunks of " + std::to_string(entry.size) + " bytes, expected a multiple of 512";
      if (!state.in_chunks(entry.address, entry.size)) return "no chunks that could go back";
      if (State::overlaps(state.blocks, entry.address, entry.size))
        return "chunks that go back with blocks in use";
      state.cut(entry.address);
      state.cut(entry.address + entry.size);
      const auto first = state.chunks.find(entry.address);
      entry.pool = first->second.pool;
      state.chunks.erase(first, state.chunks.lower_bound(entry.address + entry.size));
      return {};
    }
  }
  return "no action";
}

}  // namespace ember::inline v0::replay
