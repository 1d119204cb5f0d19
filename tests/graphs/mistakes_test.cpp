// Every mistake is named, and its corrected twin is called clean: in every order, too.
#include "tests/graphs/mistakes.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/base/sanitizer.h"

namespace ember::test {

float first_of(const Tensor& tensor) {
  return tensor.cpu().flatten().select(0, 0).item().to<float>();
}

namespace {

using cuda::CUDAGraph;
using cuda::GraphCheck;

std::vector<Mistake> all_mistakes() {
  std::vector<Mistake> all;
  for (const std::span<const Mistake> some : {memory_mistakes(), order_mistakes()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

std::string test_name(const testing::TestParamInfo<Mistake>& info) {
  std::string name = std::to_string(info.index);
  for (const char c : std::string(info.param.name))
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  return name;
}

/// What is warned of while it lives.
class Warnings {
 public:
  Warnings() {
    static const Embedding hook{.warn = [](Warning, const char* text) noexcept {
      const std::lock_guard lock(mutex());
      seen().emplace_back(text);
    }};
    seen().clear();
    embed(hook);
  }
  ~Warnings() {
    static const Embedding none{};
    embed(none);
  }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  static std::string take() {
    const std::lock_guard lock(mutex());
    std::string all;
    for (const std::string& text : std::exchange(seen(), {})) all += text + "\n";
    return all;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex made;
    return made;
  }
  static std::vector<std::string>& seen() {
    static std::vector<std::string> made;
    return made;
  }
};

/// Runs the program with its mistake, and returns the error's text; empty without one.
std::string error_of(const Mistake& mistake, const std::optional<GraphCheck>& level) {
  std::string text;
  try {
    mistake.run(false, level);
  } catch (const cuda::GraphCheckError& error) {
    EXPECT_FALSE(mistake.accelerator_error) << error.what();
    EXPECT_EQ(std::string(error.mistake()), mistake.name) << error.what();
    text = error.what();
  } catch (const AcceleratorError& error) {
    EXPECT_TRUE(mistake.accelerator_error) << error.what();
    text = error.what();
  }
  cuda::synchronize();
  return text;
}

void expect_named(const Mistake& mistake) {
  const std::string text = error_of(mistake, GraphCheck::error);
  EXPECT_NE(text.find(mistake.name), std::string::npos) << text;
  EXPECT_NE(text.find("stack trace:\n"), std::string::npos) << text;
}

void expect_clean(const Mistake& mistake) {
  const Warnings warnings;
  EXPECT_NO_THROW(mistake.run(true, GraphCheck::error));
  EXPECT_NO_THROW(mistake.run(true, GraphCheck::warn));
  cuda::synchronize();
  EXPECT_EQ(Warnings::take(), "");
}

class GraphMistakes : public testing::TestWithParam<Mistake> {
 protected:
  void SetUp() override {
    NEEDS_CACHING();
    // Where replays overlap their work does, and is a race for it.
    if (kThreadSanitizer && !correct_)
      GTEST_SKIP() << "what is wrong is so for the thread sanitizer";
    (void)machine();  // before which nobody knows whether a seed decides
  }
  bool correct_ = false;
};
class GraphTwins : public GraphMistakes {
 protected:
  GraphTwins() { correct_ = true; }
};

TEST_P(GraphMistakes, IsAnError) { expect_named(GetParam()); }

TEST_P(GraphMistakes, IsAWarning) {
  if (GetParam().accelerator_error) GTEST_SKIP() << "it is an error at every level";
  if (GetParam().may_fault && !machine().simulated()) GTEST_SKIP() << "the device may fault";
  const Warnings warnings;
  EXPECT_EQ(error_of(GetParam(), GraphCheck::warn), "");
  const std::string text = Warnings::take();
  EXPECT_NE(text.find(std::string("graph check: ") + GetParam().name), std::string::npos) << text;
}

TEST_P(GraphMistakes, IsNothingIfOff) {
  if (GetParam().accelerator_error) GTEST_SKIP() << "it is an error at every level";
  if (GetParam().may_fault && !machine().simulated()) GTEST_SKIP() << "the device may fault";
  const Warnings warnings;
  EXPECT_EQ(error_of(GetParam(), GraphCheck::off), "");
  EXPECT_EQ(Warnings::take(), "");
}

TEST_P(GraphMistakes, IsNamedInEveryOrder) {
  if (!sim::seeded()) GTEST_SKIP() << "needs a seed that decides (EMBER_SIM_SCHEDULE)";
  for (int seed = 0; seed < 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE("random:" + std::to_string(seed));
    sim::begin_run("random:" + std::to_string(seed));
    expect_named(GetParam());
  }
}

TEST_P(GraphTwins, IsClean) { expect_clean(GetParam()); }

TEST_P(GraphTwins, IsCleanForTheSanitizer) {
  cuda::Sanitizer sanitizer({.print = false});
  expect_clean(GetParam());
  std::string text = sanitizer.summary().str() + "\n";
  for (const std::string& report : sanitizer.reports()) text += report;
  EXPECT_TRUE(sanitizer.summary().clean()) << text;
}

// EMBER_TEST_GRAPH_SEEDS: how many instead of 200.
TEST_P(GraphTwins, IsCleanInEveryOrder) {
  if (!sim::seeded()) GTEST_SKIP() << "needs a seed that decides (EMBER_SIM_SCHEDULE)";
  const char* const asked = std::getenv("EMBER_TEST_GRAPH_SEEDS");
  const int seeds = asked != nullptr ? std::atoi(asked) : 200;
  for (int seed = 0; seed < seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("random:" + std::to_string(seed));
    sim::begin_run("random:" + std::to_string(seed));
    expect_clean(GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, GraphMistakes, testing::ValuesIn(all_mistakes()), test_name);
INSTANTIATE_TEST_SUITE_P(Of, GraphTwins, testing::ValuesIn(all_mistakes()), test_name);

// ---- Settings

TEST(GraphChecks, TheEnvironmentDecides) {
  NEEDS_CACHING();
  const Mistake& mistake = memory_mistakes()[0];
  const Warnings warnings;
  ASSERT_EQ(setenv("EMBER_GRAPH_CHECK", "error", 1), 0);
  EXPECT_NE(error_of(mistake, {}), "");
  ASSERT_EQ(setenv("EMBER_GRAPH_CHECK", "off", 1), 0);
  EXPECT_EQ(error_of(mistake, {}), "");
  EXPECT_EQ(Warnings::take(), "");
  EXPECT_NE(error_of(mistake, GraphCheck::error), "") << "what the graph was told counts";
  ASSERT_EQ(setenv("EMBER_GRAPH_CHECK", "some", 1), 0);
  {
    CUDAGraph graph;
    const cuda::Stream stream(0);
    const cuda::StreamGuard on(stream);
    EXPECT_ERROR(graph.capture_begin(), ValueError,
                 "EMBER_GRAPH_CHECK is 'some', expected off, warn or error");
    EXPECT_FALSE(stream.is_capturing());
  }
  ASSERT_EQ(unsetenv("EMBER_GRAPH_CHECK"), 0);
  EXPECT_EQ(error_of(mistake, {}), "");
  EXPECT_NE(Warnings::take().find("stale-memory"), std::string::npos) << "the default warns";
  EXPECT_ERROR(cuda::graph_check("maybe"), ValueError,
               "validate is 'maybe', expected off, warn or error");
}

TEST(GraphChecks, WarnsOnceAndFailsAlways) {
  NEEDS_CACHING();
  const Warnings warnings;
  for (const GraphCheck level : {GraphCheck::warn, GraphCheck::error}) {
    Tensor x = ones({1000}, kFloats), y;
    CUDAGraph step(false, level);
    {
      auto scope = cuda::graph(step);
      y = x + 1;
      scope.end();
    }
    x = Tensor();
    if (level == GraphCheck::warn) {
      step.replay();
      EXPECT_NE(Warnings::take(), "");
      step.replay();
      EXPECT_EQ(Warnings::take(), "");
    } else {
      EXPECT_THROW(step.replay(), cuda::GraphCheckError);
      EXPECT_THROW(step.replay(), cuda::GraphCheckError);
    }
    cuda::synchronize();
  }
}

TEST(GraphChecks, AnotherThreadMayFreeIt) {
  NEEDS_CACHING();
  Tensor x = ones({1000}, kFloats), y;
  CUDAGraph step(false, GraphCheck::error);
  {
    auto scope = cuda::graph(step);
    y = x + 1;
    scope.end();
  }
  step.replay();
  cuda::synchronize();
  // Some compete for the allocator's lock, so that it keeps free blocks apart.
  std::vector<std::thread> others;
  others.reserve(4);
  for (int i = 0; i < 4; ++i)
    others.emplace_back([] {
      for (int k = 0; k < 2000; ++k) (void)cuda::allocate(4096, cuda::default_stream(0));
    });
  std::thread([&] { x = Tensor(); }).join();
  for (std::thread& other : others) other.join();
  EXPECT_ERROR(step.replay(), cuda::GraphCheckError, "stale-memory");
}

TEST(GraphChecks, MemoryOfTheGraphMayBeFreed) {
  NEEDS_CACHING();
  const Warnings warnings;
  const Tensor x = ones({1000}, kFloats), out = zeros({1000}, kFloats);
  CUDAGraph step(false, GraphCheck::error);
  {
    auto scope = cuda::graph(step);
    out.copy_((x + 1) * 2);
    Tensor kept = out * 3;
    scope.end();
  }
  step.replay();
  step.replay();
  EXPECT_EQ(first_of(out), 4);
  EXPECT_EQ(Warnings::take(), "");
}

}  // namespace
}  // namespace ember::test
