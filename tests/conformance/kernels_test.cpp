// What a launch takes along: the kernel's name, its arguments of any size, and its context.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "ember/runtime/work.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

using driver::KernelArguments;
using driver::KernelNeeds;
using test::Gate;

/// A kernel whose implementations do the same on either kind of machine, while they are called:
/// `look(params, context or null)` on the host.
template <auto look>
Kernel host_work(Name name) {
  return {name,
          [](const Params& params, const HostLaunch& on) { return look(params, on); },
          [](const Params& params, const CudaLaunch& on) { return look(params, on); },
          {}};
}

// ---- Names

TEST(KernelName, OutlivesTheTextThatItWasMadeOf) {
  auto text = std::make_unique<std::string>("compiled_kernel_17");
  const Kernel kernel{Name::intern(*text)};
  text->assign(text->size(), '?');
  text.reset();
  EXPECT_STREQ(kernel.name.c_str(), "compiled_kernel_17");
  EXPECT_ERROR(launch(Stream(), kernel, Params()), AcceleratorError, "'compiled_kernel_17'");
}

TEST(KernelName, IsInternedOnce) {
  const char* const first = Name::intern("interned once").c_str();
  EXPECT_EQ(Name::intern(std::string("interned once")).c_str(), first);
  EXPECT_NE(Name::intern("interned twice").c_str(), first);
  EXPECT_STREQ(Name::intern(std::string_view("cut\0off", 7)).c_str(), "cut");
  EXPECT_FALSE(Name::intern(""));
  EXPECT_FALSE(Name());
  EXPECT_TRUE(Name("a"));
}

TEST(KernelName, OfManyThreadsIsTheSame) {
  constexpr int kThreads = 8;
  constexpr int kNames = 3000;
  std::vector<std::vector<const char*>> found(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : found)
    threads.emplace_back([&mine] {
      for (int i = 0; i < kNames; ++i)
        mine.push_back(Name::intern("name " + std::to_string(i)).c_str());
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kNames; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(found[0][at], "name " + std::to_string(i));
    for (const auto& other : found) EXPECT_EQ(other[at], found[0][at]);
  }
}

// What may dangle is no name; the rest of this is in tests/driver/names_refused.cpp.
static_assert(!std::is_constructible_v<Name, const char*>);
static_assert(!std::is_constructible_v<Name, char*>);
static_assert(!std::is_constructible_v<Name, std::string>);
static_assert(!std::is_constructible_v<Name, std::string_view>);

// ---- Arguments

template <std::size_t kSize>
struct Bytes {
  unsigned char byte[kSize];
};
struct alignas(64) Overaligned {
  int value;
};
static_assert(KernelArguments<Bytes<1>> && KernelArguments<Bytes<Params::kCapacity>>);
static_assert(!KernelArguments<Bytes<Params::kCapacity + 1>>);
static_assert(!KernelArguments<std::string> && !KernelArguments<Overaligned>);
static_assert(std::is_constructible_v<Params, const Bytes<Params::kCapacity>&>);
static_assert(!std::is_constructible_v<Params, const Bytes<Params::kCapacity + 1>&>);
template <class Args>
concept CanLaunch = requires(const Stream& stream, const Kernel& kernel, const Args& args) {
  launch(stream, kernel, args);
};
static_assert(CanLaunch<Bytes<4096>> && !CanLaunch<Bytes<4097>> && !CanLaunch<std::string>);

/// What the last kernel saw of its arguments.
std::vector<unsigned char> seen_bytes;
bool seen_aligned = false;

const auto note_arguments = [](const Params& params, const auto&) {
  const auto* bytes = static_cast<const unsigned char*>(params.data());
  seen_bytes.assign(bytes, bytes + params.size());
  seen_aligned = reinterpret_cast<std::uintptr_t>(bytes) % alignof(std::max_align_t) == 0;
  return Status();
};

TEST(KernelArguments, OfEverySizeArriveAsTheyWereAtTheLaunch) {
  const Kernel kernel = host_work<note_arguments>("note_arguments");
  const Stream stream;
  for (const std::size_t size : {0, 1, 15, 16, 17, 255, 256, 257, 1000, 4095, 4096}) {
    alignas(std::max_align_t) unsigned char bytes[Params::kCapacity];
    std::vector<unsigned char> expected;
    for (std::size_t i = 0; i < size; ++i)
      expected.push_back(bytes[i] = static_cast<unsigned char>(i * 7 + size));
    {
      Gate gate(stream);
      launch(stream, kernel, Params(bytes, size));
      std::memset(bytes, 0xEE, sizeof bytes);
    }
    stream.synchronize();
    EXPECT_EQ(seen_bytes, expected) << size;
    EXPECT_TRUE(size == 0 || seen_aligned) << size;
  }
}

TEST(KernelArguments, OfStructsAndLambdasMayHave4KiB) {
  Bytes<Params::kCapacity> args;
  std::memset(&args, 3, sizeof args);
  const Stream stream;
  launch(stream, host_work<note_arguments>("note_arguments"), args);
  stream.synchronize();
  EXPECT_EQ(seen_bytes, std::vector<unsigned char>(Params::kCapacity, 3));
  Bytes<4000> captured;
  std::memset(&captured, 5, sizeof captured);
  static std::atomic<int> sum{0};
  sum = 0;
  const auto add = [captured](const auto&) {
    for (const unsigned char byte : captured.byte) sum += byte;
  };
  launch(
      stream, "lambda", [add](const HostLaunch& on) { add(on); },
      [add](const CudaLaunch& on) { add(on); });
  stream.synchronize();
  EXPECT_EQ(sum, 5 * 4000);
}

TEST(KernelArguments, OfMoreThan4KiBAreRefused) {
  const Stream stream;
  const Bytes<Params::kCapacity + 1> args{};
  const Kernel kernel = host_work<note_arguments>("note_arguments");
  const Status status = test::machine().launch(stream.handle(), kernel, Params(&args, sizeof args));
  EXPECT_EQ(status.code(), Code::invalid_value);
  EXPECT_EQ(status.detail(), "the arguments have 4097 bytes, expected at most 4096");
  stream.synchronize();
}

/// The numbers of the launches, in the order in which they were done.
std::vector<std::uint32_t> order;
const auto note_number = [](const Params& params, const auto&) {
  const auto* bytes = static_cast<const unsigned char*>(params.data());
  std::uint32_t number = 0;
  std::memcpy(&number, bytes, sizeof number);
  for (std::size_t i = sizeof number; i < params.size(); ++i)
    if (bytes[i] != static_cast<unsigned char>(number + i)) return Status(Code::launch_failure);
  order.push_back(number);
  return Status();
};

TEST(KernelArguments, OfMixedSizesKeepTheirOrder) {
  constexpr std::uint32_t kLaunches = 5000;
  const Kernel kernel = host_work<note_number>("note_number");
  const Stream stream;
  order.clear();
  alignas(std::max_align_t) unsigned char bytes[Params::kCapacity];
  for (std::uint32_t number = 0; number < kLaunches; ++number) {
    const std::size_t size = number % 5 == 0 ? 4096 - number % 3 : 4 + number * 37 % 600;
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(number + i);
    std::memcpy(bytes, &number, sizeof number);
    launch(stream, kernel, Params(bytes, size));
  }
  stream.synchronize();
  ASSERT_EQ(order.size(), kLaunches);
  for (std::uint32_t number = 0; number < kLaunches; ++number) ASSERT_EQ(order[number], number);
}

// ---- Contexts

std::atomic<int> contexts{0};  ///< that live

struct Counted final : Context {
  explicit Counted(int number) : value(number) { ++contexts; }
  ~Counted() override { --contexts; }
  const int value;
};

std::atomic<int> found_value{0};
const auto note_context = [](const Params& params, const auto& on) {
  found_value = on.template context<Counted>().value + params.as<int>();
  return Status();
};

Kernel with_context(int value) {
  Kernel kernel = host_work<note_context>("note_context");
  kernel.context = make_ref<Counted>(value);
  return kernel;
}

TEST(KernelContext, IsWhatTheImplementationFinds) {
  const Stream stream;
  const Kernel kernel = with_context(40);
  launch(stream, kernel, 2);
  stream.synchronize();
  EXPECT_EQ(found_value, 42);
  launch(stream, kernel, 3);
  stream.synchronize();
  EXPECT_EQ(found_value, 43);
  EXPECT_EQ(contexts, 1) << "the kernel still owns it";
}

TEST(KernelContext, LivesUntilItsImplementationHasRun) {
  const Stream stream;
  {
    Gate gate(stream);
    for (int i = 1; i <= 100; ++i) launch(stream, with_context(i), 0);
    // A real device has called the implementations. A simulated one is held by the gate.
    EXPECT_EQ(contexts, is_simulated() ? 100 : 0);
  }
  stream.synchronize();
  EXPECT_EQ(found_value, 100);
  EXPECT_EQ(contexts, 0) << "whoever has waited finds them gone";
}

TEST(KernelContext, IsNotKeptByARefusedLaunch) {
  const Stream stream;
  Kernel nowhere{"nowhere"};
  nowhere.context = make_ref<Counted>(1);
  EXPECT_ERROR(launch(stream, nowhere, Params()), AcceleratorError, "'nowhere'");
  EXPECT_ERROR(launch(stream, nowhere, Params(&nowhere, 5000)), AcceleratorError, "5000 bytes");
  nowhere = {};
  EXPECT_EQ(contexts, 0);
}

TEST(KernelContext, GoesWithWorkThatAFaultDrops) {
  IN_CHILD({
    const Stream stream;
    {
      Gate gate(stream);
      launch(stream, test::bad_access_kernel, test::BadAccessArgs{nullptr});
      // Few enough that a real device's fault, which names the last operations, names the first.
      for (int i = 0; i < 10; ++i) launch(stream, with_context(i), 0);
    }
    EXPECT_ERROR(stream.synchronize(), AcceleratorError, "bad_access");
    EXPECT_EQ(contexts, 0);
  });
}

TEST(KernelContext, GoesWithWorkThatAResetDrops) {
  if (!is_simulated()) GTEST_SKIP() << "a real device has called the implementation at once";
  IN_CHILD({
    const Stream stream;
    auto gate = std::make_unique<Gate>(stream);
    gate->await_running();
    for (int i = 0; i < 50; ++i) launch(stream, with_context(i), 0);
    std::thread reset([] { reset_device(); });
    // The reset waits for the kernel that runs.
    gate.reset();
    reset.join();
    launch(Stream(), test::nop_kernel, test::NopArgs{});
    synchronize();
    // What was dropped may still be on its way through the queue of a stream of the past.
    while (contexts != 0) std::this_thread::yield();
  });
}

TEST(KernelContext, OfWorkThatNeverRunsStaysWhenTheProcessEnds) {
  if (!is_simulated()) GTEST_SKIP() << "a real device has called the implementation at once";
  IN_CHILD({
    static const Stream* stream = new Stream;  // never destroyed, on purpose
    static Gate* gate = new Gate(*stream);
    gate->await_running();
    launch(*stream, with_context(1), 0);
    EXPECT_EQ(contexts, 1);
  });
}

// ---- Needs

const auto half_of_it = [](const Params& params, KernelNeeds& out) {
  if (params.as<int>() < 0) return Status(Code::invalid_value, "less than nothing");
  out.scratch = static_cast<std::size_t>(params.as<int>()) / 2;
  return Status();
};

TEST(KernelNeeds, AreThoseOfTheImplementationThatWouldRun) {
  Kernel kernel = host_work<note_number>("needs");
  KernelNeeds needs;
  check(test::machine().launch_needs(kernel, Params(8), needs));
  EXPECT_EQ(needs.scratch, 0U) << "nothing is asked for";
  kernel.host.needs = half_of_it;
  kernel.cuda.needs = [](const Params& params, KernelNeeds& out) {
    EMBER_TRY(half_of_it(params, out));
    out.scratch += 1000;
    return Status();
  };
  check(test::machine().launch_needs(kernel, Params(8), needs));
  EXPECT_EQ(needs.scratch, is_simulated() ? 4U : 1004U);
  EXPECT_EQ(test::machine().launch_needs(kernel, Params(-1), needs).detail(), "less than nothing");
}

std::atomic<int> calls{0};

TEST(KernelArguments, AnImplementationForOneKindOfDeviceIsEnough) {
  const Stream stream;
  const auto host = [](const HostLaunch&) { ++calls; };
  const auto cuda = [](const CudaLaunch&) { ++calls; };
  const auto both = [&](const auto& launch_host, const auto& launch_cuda) {
    calls = 0;
    if (is_simulated()) {
      EXPECT_ERROR(launch_cuda(), AcceleratorError, "kernel 'real' has no host implementation");
      launch_host();
    } else {
      EXPECT_ERROR(launch_host(), AcceleratorError,
                   "kernel 'simulated' has no CUDA implementation");
      launch_cuda();
    }
    stream.synchronize();
    EXPECT_EQ(calls, 1);
  };
  both([&] { launch(stream, "simulated", host); }, [&] { launch(stream, "real", nullptr, cuda); });
  both([&] { launch(stream, "simulated", {}, host); },
       [&] { launch(stream, "real", {}, nullptr, cuda); });
}

}  // namespace
}  // namespace ember::cuda
