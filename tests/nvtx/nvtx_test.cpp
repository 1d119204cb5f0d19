// Ranges and marks: what the observer hears of them, and, in the processes of nvtx.tool, the tool
// in tool.cpp.
#include "ember/nvtx/nvtx.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/error.h"
#include "ember/runtime/observer.h"
#include "tests/nvtx/tool.h"

namespace ember::cuda::nvtx {
namespace {

using test::SeenByTool;

// ---- The observer

struct Noticed {
  std::string kind;
  std::string domain{};
  std::string message{};
  std::uint32_t category = 0;
  std::optional<std::uint32_t> color{};
  Payload payload{};
  RangeId range = 0;

  bool operator==(const Noticed&) const = default;
};

class Recorder : public Observer {
 public:
  Recorder() { set_observer(this); }
  ~Recorder() override { set_observer(nullptr); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void notice(const Activity& activity) noexcept override {
    Noticed made{activity_name(activity.kind), activity.domain};
    if (const Attributes* said = activity.annotation) {
      made.message = said->message;
      made.category = said->category;
      made.color = said->color;
      made.payload = said->payload;
    }
    made.range = activity.range;
    const std::lock_guard lock(mutex_);
    noticed_.push_back(made);
  }
  std::vector<Noticed> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(noticed_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Noticed> noticed_;
};

TEST(Nvtx, TheObserverSeesMarksAndRanges) {
  const Domain io("io");
  const std::uint32_t reading = io.category("reading");
  Recorder recorder;
  mark("here");
  range_push("outer");
  io.range_push({.message = "inner", .category = reading, .color = 0xff00ff00, .payload = 7});
  io.range_pop();
  range_pop();
  const RangeId range = range_start("across");
  EXPECT_NE(range, 0U);
  std::thread([&] { range_end(range); }).join();
  EXPECT_EQ(
      recorder.take(),
      (std::vector<Noticed>{{"marked", "", "here"},
                            {"range_pushed", "", "outer"},
                            {"range_pushed", "io", "inner", reading, 0xff00ff00, std::int32_t{7}},
                            {"range_popped", "io"},
                            {"range_popped", ""},
                            {"range_started", "", "across", 0, {}, {}, range},
                            {"range_ended", "", "", 0, {}, {}, range}}));
}

TEST(Nvtx, GuardsEndWhatTheyBegan) {
  const Domain domain("guards");
  Recorder recorder;
  {
    const ScopedRange outer("outer", domain);
    const ScopedRange inner({.message = "inner"}, domain);
  }
  {
    UniqueRange range("first", domain);
    UniqueRange other;
    other = std::move(range);
    range = UniqueRange("second", domain);
    range.end();
    range.end();
  }
  std::vector<std::string> kinds;
  for (const Noticed& noticed : recorder.take()) kinds.push_back(noticed.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"range_pushed", "range_pushed", "range_popped",
                                             "range_popped", "range_started", "range_started",
                                             "range_ended", "range_ended"}));
}

TEST(Nvtx, UniqueRangesEndTheirOwnOnes) {
  Recorder recorder;
  UniqueRange first("first");
  UniqueRange second("second");
  first.end();
  second.end();
  const std::vector<Noticed> seen = recorder.take();
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_NE(seen[0].range, seen[1].range);
  EXPECT_EQ(seen[0].range, seen[2].range);
  EXPECT_EQ(seen[1].range, seen[3].range);
}

TEST(Nvtx, ADomainIsFoundByItsName) {
  EXPECT_EQ(Domain("one"), Domain("one"));
  EXPECT_NE(Domain("one"), Domain("two"));
  EXPECT_NE(Domain("one"), Domain());
  EXPECT_STREQ(Domain("one").name(), "one");
  EXPECT_STREQ(Domain().name(), "");
  EXPECT_THROW(Domain(""), ValueError);
}

TEST(Nvtx, CategoriesAreNumberedPerDomain) {
  const Domain one("categories one");
  const Domain two("categories two");
  EXPECT_EQ(one.category("a"), 1U);
  EXPECT_EQ(one.category("b"), 2U);
  EXPECT_EQ(one.category("a"), 1U);
  EXPECT_EQ(two.category("b"), 1U);
  EXPECT_EQ(category("unnamed"), Domain().category("unnamed"));
  EXPECT_THROW((void)one.category(""), ValueError);
}

TEST(Nvtx, ARegisteredStringIsFoundByItsText) {
  const Domain one("strings one");
  EXPECT_EQ(one.registered("a"), one.registered("a"));
  EXPECT_NE(one.registered("a"), one.registered("b"));
  EXPECT_NE(one.registered("a"), Domain("strings two").registered("a"));
  EXPECT_EQ(registered("a"), Domain().registered("a"));
  EXPECT_NE(registered("a"), RegisteredString());
  EXPECT_STREQ(one.registered("a").text(), "a");
  EXPECT_STREQ(RegisteredString().text(), "");
}

TEST(Nvtx, TheObserverSeesTheTextOfARegisteredString) {
  const Domain domain("strings");
  const RegisteredString step = domain.registered("step");
  Recorder recorder;
  domain.mark(step);
  { const ScopedRange range(step, domain); }
  { const UniqueRange range(step, domain); }
  domain.mark({.message = "not this", .color = 1, .registered = step});
  std::vector<std::string> texts;
  for (const Noticed& noticed : recorder.take())
    texts.push_back(noticed.kind + " " + noticed.message);
  EXPECT_EQ(texts, (std::vector<std::string>{"marked step", "range_pushed step", "range_popped ",
                                             "range_started step", "range_ended ", "marked step"}));
}

TEST(Nvtx, WithoutAToolNothingIsCounted) {
  if (std::getenv("NVTX_INJECTION64_PATH") != nullptr) GTEST_SKIP() << "there is a tool";
  EXPECT_EQ(range_push("nobody looks"), kNoTool);
  EXPECT_EQ(range_pop(), kNoTool);
  EXPECT_EQ(range_start("nobody looks"), 0U);
  range_end(0);
}

// ---- A tool

class NvtxTool : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("NVTX_INJECTION64_PATH");
    if (path == nullptr || !is_compiled_in())
      GTEST_SKIP() << "needs the tool of the tests, and NVTX compiled in";
    mark("so that the tool is loaded");
    void* tool = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(tool, nullptr) << "NVTX has not loaded " << path;
    take_seen_ = reinterpret_cast<test::TakeSeen>(dlsym(tool, test::kTakeSeen));
    ASSERT_NE(take_seen_, nullptr);
    take();
  }
  static std::vector<SeenByTool> take() {
    std::vector<SeenByTool> seen;
    take_seen_(seen);
    return seen;
  }

 private:
  inline static test::TakeSeen take_seen_ = nullptr;
};

TEST_F(NvtxTool, SeesDepths) {
  EXPECT_EQ(range_push("outer"), 0);
  EXPECT_EQ(range_push({.message = "inner"}), 1);
  EXPECT_EQ(Domain("depths").range_push("of its own"), 0);
  EXPECT_EQ(range_pop(), 1);
  EXPECT_EQ(range_pop(), 0);
  EXPECT_LT(range_pop(), 0);
  EXPECT_EQ(Domain("depths").range_pop(), 0);
}

TEST_F(NvtxTool, SeesPayloadsByTheirTypes) {
  // NVTX's numbers: uint64 1, int64 2, double 3, uint32 4, int32 5, float 6.
  const std::pair<Payload, std::pair<int, std::uint64_t>> payloads[] = {
      {{}, {0, 0}},
      {std::uint64_t{1} << 63, {1, std::uint64_t{1} << 63}},
      {std::int64_t{-2}, {2, ~std::uint64_t{1}}},
      {2.5, {3, std::bit_cast<std::uint64_t>(2.5)}},
      {std::uint32_t{4000000000}, {4, 4000000000}},
      {std::int32_t{-1}, {5, 0xffffffff}},
      {0.5F, {6, std::bit_cast<std::uint32_t>(0.5F)}}};
  for (const auto& [payload, expected] : payloads) mark({.message = "payload", .payload = payload});
  const std::vector<SeenByTool> seen = take();
  ASSERT_EQ(seen.size(), std::size(payloads));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].payload_type, payloads[i].second.first) << i;
    EXPECT_EQ(seen[i].payload, payloads[i].second.second) << i;
  }
}

/// What thread number `of` reports as its range number `i`, and what a tool has to see of that.
constexpr int kThreads = 8;
constexpr int kRanges = 1250;  // of each thread
std::string message_of(int of, int i) { return std::to_string(of) + "." + std::to_string(i); }
std::uint32_t color_of(int of, int i) {
  return 0xff000000U | static_cast<std::uint32_t>(of << 16 | i);
}
std::string domain_of(int i) { return i % 3 == 0 ? "" : i % 3 == 1 ? "many.a" : "many.b"; }
std::string category_of(int i) { return i % 2 == 0 ? "even" : "odd"; }

/// A thread's ranges, three at a time inside each other.
void push_ranges(int of, std::uint64_t& thread) {
  thread = static_cast<std::uint64_t>(gettid());
  for (int i = 0; i < kRanges; ++i) {
    const std::string name = domain_of(i / 5 % 3);
    const Domain domain = name.empty() ? Domain() : Domain(name);
    const int depth = i % 5;
    ASSERT_EQ(domain.range_push({.message = message_of(of, i).c_str(),
                                 .category = domain.category(category_of(i)),
                                 .color = color_of(of, i),
                                 .payload = std::int64_t{i}}),
              depth);
    if (depth != 4) continue;
    for (int left = 4; left >= 0; --left) ASSERT_EQ(domain.range_pop(), left);
  }
}

TEST_F(NvtxTool, SeesTenThousandRangesOfEightThreads) {
  std::uint64_t numbers[kThreads] = {};
  std::vector<std::thread> threads;
  for (int of = 0; of < kThreads; ++of)
    threads.emplace_back([&numbers, of] { push_ranges(of, numbers[of]); });
  for (std::thread& thread : threads) thread.join();

  std::size_t seen_in_all = 0;
  const std::vector<SeenByTool> seen = take();
  for (int of = 0; of < kThreads; ++of) {
    int i = 0;
    std::vector<int> open;  // depths of the ranges that have begun
    for (const SeenByTool& one : seen) {
      if (one.thread != numbers[of]) continue;
      ++seen_in_all;
      if (one.kind == SeenByTool::Kind::pop) {
        ASSERT_FALSE(open.empty());
        EXPECT_EQ(one.depth, open.back());
        open.pop_back();
        continue;
      }
      ASSERT_EQ(one.kind, SeenByTool::Kind::push);
      EXPECT_EQ(one.domain, domain_of(i / 5 % 3));
      EXPECT_EQ(one.message, message_of(of, i));
      EXPECT_EQ(one.category, category_of(i));
      EXPECT_TRUE(one.has_color);
      EXPECT_EQ(one.color, color_of(of, i));
      EXPECT_EQ(one.payload_type, 2);
      EXPECT_EQ(one.payload, static_cast<std::uint64_t>(i));
      EXPECT_EQ(one.depth, static_cast<int>(open.size()));
      open.push_back(one.depth);
      ++i;
    }
    EXPECT_EQ(i, kRanges);
    EXPECT_TRUE(open.empty());
  }
  EXPECT_EQ(seen_in_all, std::size_t{2} * kThreads * kRanges);
}

TEST_F(NvtxTool, SeesRangesThatCrossThreads) {
  const Domain domain("crossing");
  std::vector<RangeId> ranges;
  for (int i = 0; i < 100; ++i) ranges.push_back(domain.range_start(std::to_string(i).c_str()));
  ranges.push_back(range_start({.message = "unnamed", .color = 1}));
  std::thread([&] {
    for (int i = 0; i < 100; ++i) domain.range_end(ranges[static_cast<std::size_t>(i)]);
    range_end(ranges.back());
  }).join();
  const std::vector<SeenByTool> seen = take();
  ASSERT_EQ(seen.size(), 202U);
  for (std::size_t i = 0; i < 101; ++i) {
    EXPECT_EQ(seen[i].kind, SeenByTool::Kind::start);
    EXPECT_EQ(seen[i].message, i == 100 ? "unnamed" : std::to_string(i));
    EXPECT_EQ(seen[i].domain, i == 100 ? "" : "crossing");
    EXPECT_EQ(seen[i].range, ranges[i]) << "the number is the tool's own";
    const SeenByTool& end = seen[i + 101];
    EXPECT_EQ(end.kind, SeenByTool::Kind::end);
    EXPECT_EQ(end.range, ranges[i]);
    EXPECT_NE(end.thread, seen[i].thread);
  }
}

TEST_F(NvtxTool, LearnsARegisteredStringOnce) {
  const Domain domain("registered");
  const RegisteredString step = domain.registered("step");
  const RegisteredString unnamed = registered("without a name");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(domain.range_push(step), 0);
    EXPECT_EQ(domain.range_pop(), 0);
  }
  domain.range_end(domain.range_start(step));
  mark(unnamed);
  domain.mark({.category = domain.category("c"), .payload = 3, .registered = step});
  const std::vector<SeenByTool> seen = take();
  ASSERT_EQ(seen.size(), 8U);
  for (const std::size_t i : {0, 2, 4, 7}) {
    EXPECT_TRUE(seen[i].is_registered);
    EXPECT_EQ(seen[i].message, "step");
    EXPECT_EQ(seen[i].domain, "registered");
  }
  EXPECT_TRUE(seen[6].is_registered);
  EXPECT_EQ(seen[6].message, "without a name");
  EXPECT_EQ(seen[7].category, "c");
  EXPECT_EQ(seen[7].payload, 3U);
}

// Its number would mean another string there, or none.
TEST_F(NvtxTool, SeesAnotherDomainsStringAsText) {
  Domain("this one").mark(Domain("another one").registered("elsewhere"));
  const std::vector<SeenByTool> seen = take();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_FALSE(seen[0].is_registered);
  EXPECT_EQ(seen[0].message, "elsewhere");
}

TEST_F(NvtxTool, AndTheObserverSeeTheSameNumbers) {
  Recorder recorder;
  const RangeId range = range_start("both");
  range_end(range);
  EXPECT_EQ(recorder.take().back().range, range);
  EXPECT_EQ(take().back().range, range);
}

}  // namespace
}  // namespace ember::cuda::nvtx
