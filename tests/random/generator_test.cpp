// Generators: their state, seeding, sharing and threads. Properties R5 to R9.
#include "ember/random/generator.h"

#include <mutex>
#include <set>
#include <thread>

#include "ember/random/seed.h"
#include "tests/ops/support.h"

namespace ember::test {
namespace {

const Device kCpu(Device::Type::cpu);

TEST(Generator, StartsAtTheDocumentedSeed) {
  const Generator made;
  EXPECT_EQ(made.device(), kCpu);
  EXPECT_EQ(made.initial_seed(), 67280421310721U);
  EXPECT_EQ(made.get_offset(), 0U);
}

TEST(Generator, R5IsForItsDevice) {
  NEEDS_DEVICES(1);
  EXPECT_EQ(Generator("cuda:0").device(), Device("cuda:0"));
  EXPECT_EQ(Generator("cuda").device(), Device("cuda:0"));
  EXPECT_EQ(default_generator("cuda:0"), default_generator("cuda"));
  EXPECT_EQ(default_generator(), default_generator());
  EXPECT_FALSE(default_generator("cuda:0") == default_generator());
  EXPECT_EQ(default_generator("cuda:0").device(), Device("cuda:0"));
  EXPECT_FALSE(Generator("cuda:0") == Generator("cuda:0"));
  EXPECT_ERROR(Generator("cuda:99"), AcceleratorError, "invalid device ordinal");
  EXPECT_ERROR(default_generator("cuda:99"), AcceleratorError, "invalid device ordinal");
}

TEST(Generator, R5DefaultsDifferPerDevice) {
  NEEDS_DEVICES(2);
  EXPECT_FALSE(default_generator("cuda:0") == default_generator("cuda:1"));
}

TEST(Generator, R6ClonesAreIndependent) {
  Generator first;
  first.manual_seed(7);
  (void)rand({10}, {}, first);
  Generator second = first.clone();
  EXPECT_EQ(second.initial_seed(), 7U);
  EXPECT_EQ(second.get_offset(), first.get_offset());
  EXPECT_FALSE(first == second);
  second.manual_seed(8);
  EXPECT_EQ(first.initial_seed(), 7U);
}

TEST(Generator, CopiesAreTheSameGenerator) {
  Generator first;
  Generator second = first;
  second.manual_seed(5);
  EXPECT_EQ(first.initial_seed(), 5U);
  EXPECT_EQ(first, second);
}

TEST(Generator, R7SeedsThatThreadsCountUpAddUp) {
  Generator shared;
  shared.manual_seed(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([shared]() mutable {
      for (int k = 0; k < 1000; ++k) {
        const std::lock_guard lock(shared.mutex());
        shared.manual_seed(shared.initial_seed() + 1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared.initial_seed(), 8000U);
}

class OnEachDevice : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Device(GetParam()).is_cuda()) NEEDS_DEVICES(1);
  }
};
INSTANTIATE_TEST_SUITE_P(Places, OnEachDevice, ::testing::Values("cpu", "cuda:0"),
                         [](const auto& of) { return std::string(of.param).substr(0, 3); });

TEST_P(OnEachDevice, R8ACloneReproducesTheFollowingNormalNumbers) {
  Generator generator{Device(GetParam())};
  generator.manual_seed(42);
  (void)randn({100}, GetParam(), generator);
  Generator fork = generator.clone();
  const auto expected = values<float>(randn({1000}, GetParam(), generator));
  EXPECT_EQ(values<float>(randn({1000}, GetParam(), fork)), expected);
}

// Every member from many threads at once: nothing is torn or lost.
TEST_P(OnEachDevice, R9AThousandThreads) {
  const Generator shared{Device(GetParam())};
  std::vector<std::thread> threads;
  for (int i = 0; i < 1000; ++i)
    threads.emplace_back([&shared, i] {
      Generator own = i % 2 == 0 ? shared : default_generator(Device(GetParam()));
      own.draw(4);
      own.get_offset();
      (void)own.get_state();
      if (i % 50 == 0) (void)rand({100}, GetParam(), own);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared.get_offset(), 4U * (500 + 20));
}

TEST_P(OnEachDevice, StatesGoBackAndForth) {
  Generator generator{Device(GetParam())};
  generator.manual_seed(0x0123456789abcdefULL);
  (void)rand({5}, GetParam(), generator);
  const Tensor state = generator.get_state();
  EXPECT_EQ(state.device(), kCpu);
  EXPECT_EQ(state.dtype(), uint8);
  const std::vector<std::uint8_t> bytes = values<std::uint8_t>(state);
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 4, 0,
                                              0, 0, 0, 0, 0, 0}));
  const auto next = values<float>(rand({7}, GetParam(), generator));
  generator.set_state(state);
  EXPECT_EQ(values<float>(rand({7}, GetParam(), generator)), next);
  // The seed alone: from the start.
  generator.set_state(state.slice(0, 0, 8));
  EXPECT_EQ(generator.initial_seed(), 0x0123456789abcdefULL);
  EXPECT_EQ(generator.get_offset(), 0U);
}

TEST(Generator, RefusesWhatIsNoState) {
  Generator generator;
  generator.manual_seed(3).set_offset(8);
  EXPECT_ERROR(generator.set_state(zeros({15}, uint8)), Error, "RNG state is wrong size");
  EXPECT_ERROR(generator.set_state(zeros({0}, uint8)), Error, "RNG state is wrong size");
  EXPECT_ERROR(generator.set_state(zeros({16}, float32)), TypeError,
               "RNG state must be a torch.ByteTensor");
  EXPECT_ERROR(generator.set_state(Tensor()), TypeError, "RNG state must be a torch.ByteTensor");
  EXPECT_ERROR(generator.set_state(zeros({32}, uint8).slice(0, 0, 32, 2)), Error,
               "RNG state must be contiguous");
  Tensor odd = zeros({16}, uint8);
  odd.select(0, 8).fill_(3);
  EXPECT_ERROR(generator.set_state(odd), Error, "offset must be a multiple of 4");
  EXPECT_ERROR(generator.set_offset(2), Error, "offset must be a multiple of 4");
  EXPECT_ERROR(generator.set_offset(static_cast<std::uint64_t>(-4)), Error,
               "offset must not be negative, got -4");
  Tensor negative = generator.get_state();
  std::memset(static_cast<char*>(negative.data_ptr()) + 8, 0xff, 8);
  EXPECT_ERROR(generator.set_state(negative), Error, "offset must not be negative, got -1");
  EXPECT_EQ(generator.initial_seed(), 3U);
  EXPECT_EQ(generator.get_offset(), 8U);
  if (cuda::device_count() > 0)
    EXPECT_ERROR(generator.set_state(zeros({16}, {uint8, "cuda:0"})), TypeError,
                 "RNG state must be a torch.ByteTensor");
}

TEST(Generator, DrawsRoundUpToFours) {
  Generator generator;
  EXPECT_EQ(generator.draw(1).own.offset, 0U);
  EXPECT_EQ(generator.draw(4).own.offset, 4U);
  EXPECT_EQ(generator.draw(5).own.offset, 8U);
  EXPECT_EQ(generator.draw(0).own.offset, 16U);
  EXPECT_EQ(generator.get_offset(), 16U);
}

TEST(Generator, SharedStatesAdvanceTogether) {
  Generator first;
  Generator second = first.graphsafe_get_state();
  EXPECT_FALSE(first == second);
  first.draw(4);
  EXPECT_EQ(second.get_offset(), 4U);
  Generator third;
  third.manual_seed(9);
  third.graphsafe_set_state(first);
  third.draw(4);
  EXPECT_EQ(first.get_offset(), 8U);
  EXPECT_EQ(third.initial_seed(), first.initial_seed());
  first.graphsafe_set_state(first.clone_state());
  first.draw(4);
  EXPECT_EQ(second.get_offset(), 8U);
  if (cuda::device_count() > 0)
    EXPECT_ERROR(first.graphsafe_set_state(Generator("cuda:0")), Error, "graphsafe_set_state");
}

TEST(Generator, RandomSeedsAre53BitsAndDiffer) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t seed = Generator().seed();
    EXPECT_LT(seed, std::uint64_t{1} << 53);
    seen.insert(seed);
  }
  EXPECT_EQ(seen.size(), 100U);
}

TEST(Generator, MustBeForTheTensorsDevice) {
  NEEDS_DEVICES(2);
  EXPECT_ERROR(rand({2}, "cuda:0", Generator()), Error,
               "Expected a 'cuda' device type for generator but found 'cpu'");
  EXPECT_ERROR(rand({2}, {}, Generator("cuda:0")), Error,
               "Expected a 'cpu' device type for generator but found 'cuda'");
  EXPECT_ERROR(rand({2}, "cuda:0", Generator("cuda:1")), Error,
               "Expected a 'cuda:0' generator device but found 'cuda:1'");
  EXPECT_ERROR(rand({0}, {}, Generator("cuda:0")), Error, "generator");
}

TEST(Seeding, ReachesTheDefaults) {
  NEEDS_DEVICES(2);
  EXPECT_EQ(manual_seed(11), default_generator());
  EXPECT_EQ(initial_seed(), 11U);
  EXPECT_EQ(cuda::initial_seed(), 11U);
  EXPECT_EQ(default_generator("cuda:1").initial_seed(), 11U);
  cuda::manual_seed(12);
  EXPECT_EQ(default_generator("cuda:0").initial_seed(), 12U);
  EXPECT_EQ(default_generator("cuda:1").initial_seed(), 11U);
  {
    const cuda::DeviceGuard guard(1);
    cuda::manual_seed(13);
    EXPECT_EQ(cuda::initial_seed(), 13U);
  }
  EXPECT_EQ(cuda::initial_seed(), 12U);
  EXPECT_EQ(initial_seed(), 11U);
  cuda::manual_seed_all(14);
  EXPECT_EQ(default_generator("cuda:0").initial_seed(), 14U);
  EXPECT_EQ(default_generator("cuda:1").initial_seed(), 14U);
  cuda::seed();
  EXPECT_NE(cuda::initial_seed(), 14U);
  EXPECT_EQ(default_generator("cuda:1").initial_seed(), 14U);
  cuda::seed_all();
  EXPECT_EQ(cuda::initial_seed(), default_generator("cuda:1").initial_seed());
  EXPECT_NE(cuda::initial_seed(), 14U);
  const std::uint64_t chosen = seed();
  EXPECT_LT(chosen, std::uint64_t{1} << 53);
  EXPECT_EQ(initial_seed(), chosen);
  EXPECT_EQ(cuda::initial_seed(), chosen);
  manual_seed(static_cast<std::uint64_t>(-1));
  EXPECT_EQ(initial_seed(), ~std::uint64_t{0});
}

TEST(Seeding, StatesOfAllDevices) {
  NEEDS_DEVICES(2);
  cuda::manual_seed_all(21);
  (void)rand({4}, "cuda:1");
  const std::vector<Tensor> states = cuda::get_rng_state_all();
  ASSERT_EQ(states.size(), static_cast<std::size_t>(cuda::device_count()));
  const auto first = values<float>(rand({4}, "cuda:0"));
  const auto second = values<float>(rand({4}, "cuda:1"));
  EXPECT_NE(first, second);
  cuda::set_rng_state_all(states);
  EXPECT_EQ(values<float>(rand({4}, "cuda:0")), first);
  EXPECT_EQ(values<float>(rand({4}, "cuda:1")), second);
  cuda::set_rng_state(states[1], "cuda:0");
  EXPECT_EQ(values<float>(rand({4}, "cuda:0")), second);
  EXPECT_EQ(cuda::get_rng_state_offset(0), 8U);
  cuda::set_rng_state_offset(4, "cuda:0");
  EXPECT_EQ(values<float>(rand({4}, "cuda:0")), second);
  EXPECT_ERROR(cuda::set_rng_state_offset(3), Error, "offset must be a multiple of 4");
  EXPECT_ERROR(cuda::get_rng_state("cpu"), ValueError, "Expected a cuda device, but got: cpu");
  EXPECT_ERROR(cuda::get_rng_state(99), AcceleratorError, "invalid device ordinal");
}

TEST(Seeding, ForkedStatesComeBack) {
  NEEDS_DEVICES(2);
  manual_seed(5);
  const auto here = values<float>(rand({4}));
  const auto there = values<float>(rand({4}, "cuda:1"));
  manual_seed(5);
  {
    const random::ForkRng forked;
    (void)rand({400});
    cuda::manual_seed_all(6);
    (void)rand({4}, "cuda:1");
  }
  EXPECT_EQ(values<float>(rand({4})), here);
  EXPECT_EQ(values<float>(rand({4}, "cuda:1")), there);
  manual_seed(5);
  {
    const auto forked = random::fork_rng(std::vector<cuda::DeviceArg>{0});
    (void)rand({4}, "cuda:1");
    manual_seed(6);
  }
  EXPECT_EQ(initial_seed(), 5U);
  EXPECT_EQ(default_generator("cuda:0").initial_seed(), 5U);
  EXPECT_EQ(default_generator("cuda:1").initial_seed(), 6U);
  {
    const random::ForkRng off({}, false);
    manual_seed(8);
  }
  EXPECT_EQ(initial_seed(), 8U);
}

// ---- What happens before CUDA is initialised: each in a process of its own.

class BeforeInitialisation : public ::testing::Test {
 protected:
  void SetUp() override {
    NEEDS_DEVICES(2);
    testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
  /// Ends the process: 0 if everything held.
  [[noreturn]] static void end(bool good) { std::_Exit(good ? 0 : 1); }
};

// Seeds for CUDA do not initialise it, and hold as soon as it is.
TEST_F(BeforeInitialisation, SeedsWait) {
  EXPECT_EXIT(
      {
        manual_seed(1);
        cuda::manual_seed(2);
        cuda::manual_seed(3);
        const bool lazy = !cuda::is_initialized();
        end(lazy && initial_seed() == 1 && !cuda::is_initialized() && cuda::initial_seed() == 3 &&
            default_generator("cuda:1").initial_seed() == 1 && cuda::is_initialized());
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(BeforeInitialisation, TheLatestOfEachInTheOrderOfTheCalls) {
  EXPECT_EXIT(
      {
        cuda::manual_seed(2);
        cuda::manual_seed_all(4);
        end(cuda::initial_seed() == 4 && default_generator("cuda:1").initial_seed() == 4);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        cuda::manual_seed_all(4);
        cuda::manual_seed(2);
        cuda::manual_seed_all(5);
        cuda::manual_seed(6);
        cuda::init();
        end(cuda::initial_seed() == 6 && default_generator("cuda:1").initial_seed() == 5);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(BeforeInitialisation, StatesAreCopiedAndWait) {
  EXPECT_EXIT(
      {
        Generator other;
        other.manual_seed(77).set_offset(12);
        Tensor state = other.get_state();
        cuda::set_rng_state(state, "cuda:1");
        state.zero_();
        cuda::seed_all();
        cuda::set_rng_state(other.get_state(), 0);
        bool good = !cuda::is_initialized();
        good &= default_generator("cuda:0").initial_seed() == 77;
        good &= cuda::get_rng_state_offset(0) == 12;
        good &= default_generator("cuda:1").initial_seed() != 77;
        end(good);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        Generator other;
        other.manual_seed(77).set_offset(12);
        Tensor state = other.get_state();
        cuda::set_rng_state(state, "cuda:1");
        state.zero_();
        end(default_generator("cuda:1").initial_seed() == 77);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(BeforeInitialisation, WhatThenFailsIsReportedAsLongAsItFails) {
  EXPECT_EXIT(
      {
        cuda::set_rng_state(Generator().get_state(), "cuda:99");
        cuda::manual_seed_all(5);
        std::string text;
        std::string again;
        for (std::string* said : {&text, &again}) {
          try {
            cuda::init();
          } catch (const DeferredCudaCallError& error) {
            *said = error.what();
          }
        }
        bool good = text == again;
        good &= text.find("CUDA call failed lazily at initialization with error: ") == 0;
        good &= text.find("invalid device ordinal") != std::string::npos;
        good &= text.find("\n\nCUDA call was originally invoked at:") != std::string::npos;
        good &= text.find("set_rng_state") != std::string::npos;
        cuda::manual_seed_all(6);  // waits behind it
        try {
          (void)cuda::initial_seed();
          good = false;
        } catch (const DeferredCudaCallError&) {
        }
        end(good);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ember::test
