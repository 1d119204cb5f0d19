// Programs whose results say in which order their work ran.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ember/ember.h"
#include "ember/explore/explore.h"

namespace ember::test {

using cuda::DeviceBuffer;
using cuda::HostLaunch;
using cuda::PinnedBuffer;
using cuda::Stream;

/// Whether a text is part of a reason why nothing is proved.
inline bool has_reason(const sim::Exploration& made, const std::string& text) {
  for (const std::string& reason : made.reasons)
    if (reason.find(text) != std::string::npos) return true;
  return false;
}

/// Calls `change(word)` for the word at `data`, on the stream.
template <class Change>
void change(const Stream& on, cuda::Name name, std::uint32_t* data, const Change& change) {
  launch(on, name, {cuda::reads(data, 1), cuda::writes(data, 1)},
         [data, change](const HostLaunch& at) {
           std::uint32_t* const word = at.at(data, 1);
           if (word == nullptr) return at.fault();
           change(*word);
           return Status();
         });
}
inline void add(const Stream& on, std::uint32_t* data, std::uint32_t value) {
  change(on, "add", data, [value](std::uint32_t& word) { word += value; });
}
inline void multiply(const Stream& on, std::uint32_t* data, std::uint32_t value) {
  change(on, "multiply", data, [value](std::uint32_t& word) { word *= value; });
}
inline void set(const Stream& on, std::uint32_t* data, std::uint32_t value) {
  launch(on, "set", {cuda::writes(data, 1)}, [data, value](const HostLaunch& at) {
    std::uint32_t* const word = at.at(data, 1);
    if (word == nullptr) return at.fault();
    *word = value;
    return Status();
  });
}
inline void assign(const Stream& on, std::uint32_t* to, const std::uint32_t* from) {
  launch(on, "assign", {cuda::writes(to, 1), cuda::reads(from, 1)},
         [to, from](const HostLaunch& at) {
           std::uint32_t* const target = at.at(to, 1);
           const std::uint32_t* const source = at.at(from, 1);
           if (target == nullptr || source == nullptr) return at.fault();
           *target = *source;
           return Status();
         });
}

/// One word of device memory, for work of several streams.
class Word {
 public:
  explicit Word(const Stream& owner) : buffer_(cuda::allocate(4, owner)) {}
  std::uint32_t* at() const { return static_cast<std::uint32_t*>(buffer_.data()); }
  void used_by(const Stream& other) const { cuda::record_stream(buffer_.data(), other); }

 private:
  DeviceBuffer buffer_;
};

/// 1 plus 5, times 7, as the host gets it; the wait between the two is what may be missing.
inline std::uint32_t add_and_multiply(bool fixed) {
  const Stream adds(0), multiplies(0);
  const Word word(adds);
  set(adds, word.at(), 1);
  multiplies.wait_stream(adds);
  add(adds, word.at(), 5);
  if (fixed) multiplies.wait_stream(adds);
  multiply(multiplies, word.at(), 7);
  adds.wait_stream(multiplies);
  std::uint32_t value = 0;
  cuda::copy(&value, word.at(), sizeof value, adds);
  word.used_by(multiplies);
  return value;
}

/// Two streams that each add 1 to a word: 3 unless an update is lost.
inline std::uint32_t two_updates(bool fixed) {
  const Stream first(0), second(0);
  const Word word(first);
  set(first, word.at(), 1);
  second.wait_stream(first);
  add(first, word.at(), 1);
  if (fixed) second.wait_stream(first);
  add(second, word.at(), 1);
  first.wait_stream(second);
  std::uint32_t value = 0;
  cuda::copy(&value, word.at(), sizeof value, first);
  word.used_by(second);
  return value;
}

/// `count` times two writes of one word that nothing orders, on streams of their own.
inline void independent_pairs(int count) {
  const Stream main(0);
  std::vector<Stream> streams;
  std::vector<Word> words;
  for (int i = 0; i < 2 * count; ++i) streams.emplace_back(0);
  for (int i = 0; i < count; ++i) words.emplace_back(main);
  for (int i = 0; i < count; ++i) {
    const auto pair = static_cast<std::size_t>(i);
    set(streams[2 * pair], words[pair].at(), 1);
    set(streams[2 * pair + 1], words[pair].at(), 1);  // the same, so that all are run
    for (const std::size_t stream : {2 * pair, 2 * pair + 1}) words[pair].used_by(streams[stream]);
  }
}

/// One write, and reads on another stream, all of which agree.
inline void writer_and_readers(int readers) {
  const Stream writer(0), reader(0);
  const Word word(writer), out(reader);
  set(writer, word.at(), 3);
  reader.wait_stream(writer);
  set(writer, word.at(), 3);
  for (int i = 0; i < readers; ++i) assign(reader, out.at(), word.at());
  word.used_by(reader);
}

/// `rounds` rounds of a task on each of four streams, behind which one adds 5 to a word of 1, and
/// another multiplies it by 7: 42, unless the product comes first.
inline std::uint32_t many_tasks(int rounds) {
  std::vector<Stream> streams;
  for (int i = 0; i < 4; ++i) streams.emplace_back(0);
  const Word word(streams[0]);
  std::vector<Word> others;
  for (const Stream& stream : streams) others.emplace_back(stream);
  set(streams[0], word.at(), 1);
  for (int i = 1; i < rounds - 1; ++i)
    for (std::size_t s = 0; s < 4; ++s) set(streams[s], others[s].at(), 1);
  streams[1].wait_stream(streams[0]);
  add(streams[0], word.at(), 5);
  multiply(streams[1], word.at(), 7);
  streams[0].wait_stream(streams[1]);
  std::uint32_t value = 0;
  cuda::copy(&value, word.at(), sizeof value, streams[0]);
  word.used_by(streams[1]);
  return value;
}

/// A schedule of it in which all tasks are steps, 4 * rounds - 6 of them, and the product is early.
inline std::string all_steps_of_many_tasks(int rounds) {
  std::string steps = "steps:";
  const std::string last = std::to_string(4 * (rounds - 2) + 1 + 3);
  const auto step = [&](int stream, int task) {
    steps += (steps.back() == ':' ? "" : ",") + last + ":s" + std::to_string(stream) + "." +
             std::to_string(task);
  };
  for (int task = 1; task <= rounds - 1; ++task) step(1, task);
  for (int stream = 2; stream <= 4; ++stream)
    for (int task = 1; task <= rounds - 2; ++task) step(stream, task);
  step(2, rounds - 1);
  return steps;
}

}  // namespace ember::test
