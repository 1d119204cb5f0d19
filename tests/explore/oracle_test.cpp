// Random programs, explored and run under many seeds: what is proved, or the same in all classes,
// no seed may contradict; and what a seed shows, exploring has to find.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ember/base/sanitizer.h"
#include "ember/explore/explore.h"
#include "tests/explore/programs.h"

namespace ember {
namespace {

using cuda::Event;
using sim::Exploration;
using sim::Verdict;
using namespace test;  // NOLINT(google-build-using-namespace)

constexpr int kStreams = 3;
constexpr int kWords = 2;

/// A program that a seed makes: work on a few words, orders of every kind, and what the host does
/// in between. What it has seen, as one text.
std::string program(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<Stream> streams;
  std::vector<Event> events;
  for (int i = 0; i < kStreams; ++i) {
    streams.emplace_back(0);
    events.emplace_back(i == 0);  // a record of a timed event is a task
  }
  std::vector<Word> words;
  PinnedBuffer host = cuda::allocate_pinned(4 * kWords);
  std::memset(host.data(), 0, 4 * kWords);
  cuda::host_writes(host.data(), 4 * kWords);
  for (int i = 0; i < kWords; ++i) {
    words.emplace_back(streams[0]);
    set(streams[0], words.back().at(), 1);
  }
  for (int i = 1; i < kStreams; ++i) streams[static_cast<std::size_t>(i)].wait_stream(streams[0]);
  std::vector<std::uint32_t> seen;
  const std::size_t length = 3 + below(7);
  // Most programs are ordered if their streams wait for each other most of the time.
  const bool orderly = below(2) != 0;
  for (std::size_t step = 0; step < length; ++step) {
    const Stream& stream = streams[below(kStreams)];
    Event& event = events[below(kStreams)];
    const std::size_t word = below(kWords);
    if (orderly)
      for (const Stream& other : streams)
        if (below(8) != 0) stream.wait_stream(other);
    switch (below(9)) {
      case 0: event.record(stream); break;
      case 1: event.wait(stream); break;
      case 2:
        if (below(3) == 0) stream.synchronize();
        break;
      case 3:
        if (below(3) == 0) event.synchronize();
        break;
      case 4: {
        cuda::copy_async(host.as<std::uint32_t>() + word, words[word].at(), 4, stream);
        break;
      }
      case 5: {
        if (orderly && below(4) != 0) cuda::synchronize(0);
        cuda::host_reads(host.as<std::uint32_t>() + word, 4);
        seen.push_back(host.as<std::uint32_t>()[word]);
        break;
      }
      case 6: assign(stream, words[word].at(), words[1 - word].at()); break;
      default: {
        const auto value = static_cast<std::uint32_t>(2 + step);
        if (below(2) != 0)
          add(stream, words[word].at(), value);
        else
          multiply(stream, words[word].at(), value);
      }
    }
  }
  for (const Stream& stream : streams) {
    for (const Word& word : words) word.used_by(stream);
    cuda::pinned_record_event(host, stream);
  }
  cuda::synchronize(0);
  cuda::host_reads(host.data(), 4 * kWords);
  for (int i = 0; i < kWords; ++i) {
    std::uint32_t value = 0;
    cuda::copy(&value, words[static_cast<std::size_t>(i)].at(), 4, streams[0]);
    seen.push_back(value);
    seen.push_back(host.as<std::uint32_t>()[i]);
  }
  std::string text;
  for (const std::uint32_t value : seen) text += std::to_string(value) + " ";
  sim::result("seen", text.data(), text.size());
  return text;
}

// A sanitizer sees as much in fewer of them.
#if defined(EMBER_SANITIZED_HEAP)
constexpr unsigned kPrograms = 60;
#else
constexpr unsigned kPrograms = 400;
#endif

TEST(ExploreOracle, NoSeedContradictsWhatIsSaid) {
  const char* const more = std::getenv("EMBER_TEST_PROGRAMS");
  const unsigned programs = more != nullptr ? static_cast<unsigned>(std::atoi(more)) : kPrograms;
  constexpr int kSeeds = 60;
  int proved = 0, same = 0, differ = 0, repeated = 0, shown = 0;
  for (unsigned number = 0; number < programs; ++number) {
    const Exploration made = sim::explore([&] { (void)program(number); }, {.max_runs = 20'000});
    const std::string what = "program " + std::to_string(number) + ": " + made.str();
    std::set<std::string> results;
    for (int seed = 0; seed < kSeeds; ++seed) {
      sim::begin_run((seed % 2 == 0 ? "random:" : "pct:") + std::to_string(seed) +
                     (seed % 2 == 0 ? "" : ":3"));
      results.insert(program(number));
    }
    ASSERT_NE(made.verdict, Verdict::not_proved) << what;
    proved += made.verdict == Verdict::proved ? 1 : 0;
    same += made.verdict == Verdict::same ? 1 : 0;
    shown += results.size() > 1 ? 1 : 0;
    if (made.verdict != Verdict::differs) {
      ASSERT_EQ(results.size(), 1U) << what << *results.begin() << "and " << *results.rbegin();
      continue;
    }
    ++differ;
    ASSERT_FALSE(made.deciding.empty()) << what;
    // The two schedules, as they are shown, give two results. (A copy that another one overwrites
    // before the host looks is one, too, which this program does not see.)
    if (made.difference.find("result 'seen'") == std::string::npos) continue;
    ++repeated;
    std::set<std::string> two;
    for (const std::string& schedule : {made.first, made.second}) {
      sim::begin_run(schedule);
      two.insert(program(number));
    }
    ASSERT_EQ(two.size(), 2U) << what;
  }
  // All of them occur, and exploring finds more than seeds do.
  EXPECT_GT(proved, static_cast<int>(programs) / 20);
  EXPECT_GT(same, 0);
  EXPECT_GT(differ, static_cast<int>(programs) / 5);
  EXPECT_GE(differ, shown);
  EXPECT_GT(repeated, differ / 2);
  RecordProperty("proved", proved);
  RecordProperty("same", same);
  RecordProperty("differ", differ);
  RecordProperty("shown_by_seeds", shown);
  sim::begin_run("random:0");
}

}  // namespace
}  // namespace ember
