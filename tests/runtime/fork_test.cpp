// Forks: before the first use, after it, and beside it.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <future>
#include <latch>
#include <optional>
#include <thread>

#include "ember/base/sanitizer.h"
#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "tests/runtime/held_object.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

using test::Gate;

constexpr const char* kRefusal =
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must "
    "use the 'spawn' start method";
constexpr const char* kFine = "ended with 0";

/// A process that hangs is ended by its alarm, which needs no thread and no lock; it is not
/// inherited by a fork. Each kind of process has longer than those that it waits for.
constexpr unsigned kChildSeconds = 30;
constexpr unsigned kParentSeconds = 60;
constexpr unsigned kTestSeconds = 200;

/// Runs `run` in a forked child, which it must end itself; says how it ended.
template <class Run>
std::string outcome_of_fork(unsigned seconds, const Run& run) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    run();
  }
  int status = -1;
  waitpid(child, &status, 0);
  std::string outcome;
  if (WIFEXITED(status))
    outcome = "ended with " + std::to_string(WEXITSTATUS(status));
  else if (WTERMSIG(status) == SIGALRM)
    outcome = "hung, and was ended after " + std::to_string(seconds) + " s";
  else
    outcome = "ended by signal " + std::to_string(WTERMSIG(status));
  // Of what is said within IN_CHILD, only this is shown.
  if (outcome != kFine) std::fprintf(stderr, "a forked child %s\n", outcome.c_str());
  return outcome;
}

/// Runs `body` in a child that ends as a program does.
template <class Body>
std::string forked(const Body& body) {
  return outcome_of_fork(kChildSeconds, [&] {
    body();
    std::fflush(stdout);
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  });
}

/// Runs `body` in a child of a process with threads at work; what it returns is the exit status.
/// Such a child expects nothing by GoogleTest, which locks, and leaves without exit handlers: the
/// leak sanitizer's takes a lock that a thread may have held that did not come along.
template <class Body>
std::string forked_beside_threads(const Body& body, unsigned seconds = kChildSeconds) {
  return outcome_of_fork(seconds, [&] { std::_Exit(body()); });
}

/// Whether `init` is refused as it is in the child of a process that used devices.
bool init_is_refused() {
  try {
    init();
    return false;
  } catch (const Error& error) {
    return std::strcmp(error.what(), kRefusal) == 0;
  }
}

TEST(Fork, AfterFirstUseIsRefusedInTheChild) {
  IN_CHILD({
    const Stream stream;
    set_stream(stream);
    Event event;
    event.record(stream);
    const int devices = device_count();
    const std::string result = forked([&] {
      EXPECT_FALSE(is_initialized());
      EXPECT_TRUE(is_in_bad_fork());
      EXPECT_EQ(device_count(), devices);
      EXPECT_TRUE(is_available());
      EXPECT_FALSE(has_primary_context(0));
      EXPECT_ERROR(init(), Error, kRefusal);
      EXPECT_ERROR(current_device(), Error, kRefusal);
      EXPECT_ERROR(Stream{}, Error, kRefusal);
      EXPECT_ERROR(stream.synchronize(), Error, kRefusal);
      EXPECT_ERROR(simulate(2), Error, kRefusal);
      { const Stream copy = stream; }
      event = Event();
    });
    EXPECT_EQ(result, kFine);
    stream.synchronize();
    EXPECT_TRUE(is_initialized()) << "the parent is not disturbed";
  });
}

TEST(Fork, InsideGuardsLeavesThemQuietly) {
  IN_CHILD({
    const Stream stream;
    bool in_child = false;
    pid_t child = -1;
    {
      const StreamGuard on_stream(stream);
      const DeviceGuard on_device(0);
      const MultiStreamGuard on_many({&stream, 1});
      std::fflush(stdout);
      child = fork();
      in_child = child == 0;
    }
    if (in_child) std::_Exit(0);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(current_stream(), default_stream());
  });
}

TEST(Fork, WithWorkInFlightDoesNotHang) {
  IN_CHILD({
    const Stream stream;
    Gate gate(stream);
    gate.await_running();
    EXPECT_EQ(forked([] {}), kFine);
    gate.open();
    stream.synchronize();
  });
}

TEST(Fork, BeforeFirstUseIsFine) {
  IN_CHILD({
    EXPECT_GE(device_count(), 1);
    const std::string result = forked([] {
      EXPECT_FALSE(is_in_bad_fork());
      EXPECT_FALSE(has_primary_context(0)) << "asked for without a driver, which it does not make";
      EXPECT_FALSE(is_initialized());
      const Stream stream;
      stream.synchronize();
      EXPECT_TRUE(is_initialized());
    });
    EXPECT_EQ(result, kFine);
    Stream().synchronize();
  });
}

/// Sets a variable for processes that are started meanwhile.
class Variable {
 public:
  /// Null: unset.
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    if (value != nullptr)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  ~Variable() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// The address sanitizers of GCC before version 14 and of Clang before 18 do not take their own
// locks before a fork: a child that is forked while another thread allocates may find them taken
// for ever.
#if defined(__clang__)
#define EMBER_OLD_COMPILER (__clang_major__ < 18)
#else
#define EMBER_OLD_COMPILER (__GNUC__ < 14)
#endif
#if defined(EMBER_SANITIZED_HEAP) && !defined(EMBER_SANITIZED_THREADS) && EMBER_OLD_COMPILER
#define NEEDS_FORKS_BESIDE_ALLOCATIONS() \
  GTEST_SKIP() << "this compiler's address sanitizer does not survive forks beside allocations"
#else
#define NEEDS_FORKS_BESIDE_ALLOCATIONS() static_cast<void>(0)
#endif

// As many threads as on large machines; each test forks while most of them are inside the call.
constexpr int kThreads = 32;

/// Forks while all threads keep counting, each of which has done so once. Says how the first child
/// that went wrong ended.
template <class Body>
std::string fork_beside_counting(const Body& body) {
  alarm(kTestSeconds);
  std::atomic<bool> stop{false};
  std::latch counting(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      (void)device_count();
      counting.count_down();
      while (!stop) (void)device_count();
    });
  counting.wait();
  std::string outcome = kFine;
  for (int i = 0; i < 20 && outcome == kFine; ++i) outcome = forked_beside_threads(body);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

TEST(Fork, BesideThreadsThatCountDoesNotHang) {
  NEEDS_FORKS_BESIDE_ALLOCATIONS();
  IN_CHILD({
    const std::string outcome = fork_beside_counting([] {
      // A child forked while NVML is being asked counts none, as the last tests here show.
      return is_available() || init_is_refused() ? 0 : 2;
    });
    EXPECT_EQ(outcome, kFine);
  });
}

TEST(Fork, BesideThreadsThatCountSimulatedDevicesCountsThemToo) {
  NEEDS_FORKS_BESIDE_ALLOCATIONS();
  const Variable devices("EMBER_DEVICES", "sim:3");
  const Variable visible("CUDA_VISIBLE_DEVICES", nullptr);
  IN_CHILD({
    const std::string outcome = fork_beside_counting([] {
      if (device_count() != 3) return 2;
      init();
      return is_initialized() ? 0 : 3;
    });
    EXPECT_EQ(outcome, kFine);
  });
}

TEST(Fork, BesideThreadsThatFindNoCudaObjectMaySimulate) {
  NEEDS_FORKS_BESIDE_ALLOCATIONS();
  const Variable devices("EMBER_DEVICES", "cuda");
  const Variable visible("CUDA_VISIBLE_DEVICES", nullptr);
  const Variable object("EMBER_CUDA_OBJECT", "/nowhere/libember_cuda.so");
  IN_CHILD({
    const std::string outcome = fork_beside_counting([] {
      if (is_available()) return 2;
      simulate(2);
      return device_count() == 2 ? 0 : 3;
    });
    EXPECT_EQ(outcome, kFine);
  });
}

/// In the child of a process that is at its first use: 0 when it either has devices or is refused.
int use_or_be_refused() {
  const int count = device_count();
  // As many as the parent had found by then, or none.
  if (init_is_refused())
    return device_count() == count && is_available() == (count > 0) && !is_initialized() ? 0 : 2;
  return is_initialized() && count > 0 && device_count() == count ? 0 : 3;
}

/// In a process that nothing was used in: forks while all threads come to their first use.
int fork_beside_first_use(int round) {
  std::latch start(kThreads + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      start.arrive_and_wait();
      (void)device_count();
      init();
    });
  start.arrive_and_wait();
  // Each round forks a little later.
  for (int i = 0; i < round * 20; ++i) std::this_thread::yield();
  const std::string outcome = forked_beside_threads(&use_or_be_refused);
  for (std::thread& thread : threads) thread.join();
  return outcome == kFine ? 0 : 1;
}

TEST(Fork, BesideAnInitialisationDoesNotHang) {
  NEEDS_FORKS_BESIDE_ALLOCATIONS();
  IN_CHILD({
    alarm(kTestSeconds);
    std::string outcome = kFine;
    for (int round = 0; round < 20 && outcome == kFine; ++round)
      outcome = forked_beside_threads([&] { return fork_beside_first_use(round); }, kParentSeconds);
    EXPECT_EQ(outcome, kFine);
  });
}

/// Where the held object stops a thread, once: see ember_test_visit below.
struct Hold {
  const char* where = "";
  std::promise<void> arrived;
  std::promise<void> leave;
};
std::atomic<Hold*> hold{nullptr};

/// Forks while another thread is inside the CUDA object at `where`, which is where that thread
/// stays until the child has ended.
void fork_while_held(const char* where) {
  alarm(kTestSeconds);
  static Hold here;  // a thread may be inside it when a failed test ends
  here.where = where;
  hold = &here;
  std::thread counting([] { (void)device_count(); });
  here.arrived.get_future().wait();
  EXPECT_EQ(forked_beside_threads([] {
              if (device_count() != 0) return 2;
              if (is_available()) return 3;
              if (!get_arch_list().empty()) return 4;
              return init_is_refused() ? 0 : 5;
            }),
            kFine);
  here.leave.set_value();
  counting.join();
  hold = nullptr;
  EXPECT_EQ(device_count(), 3) << "the parent is not disturbed";
  EXPECT_EQ(get_arch_list(), std::vector<std::string>{"sm_90"});
  EXPECT_EQ(forked_beside_threads([] { return device_count() == 3 ? 0 : 2; }), kFine)
      << "when the count is over, the process may fork again";
}

TEST(Fork, WhileTheCudaObjectIsLoadedIsRefusedInTheChild) {
  const Variable devices("EMBER_DEVICES", "cuda");
  const Variable object("EMBER_CUDA_OBJECT", EMBER_TEST_HELD_OBJECT);
  ASSERT_EQ(access(EMBER_TEST_HELD_OBJECT, R_OK), 0)
      << EMBER_TEST_HELD_OBJECT;  // else nobody comes
  IN_CHILD({ fork_while_held("load"); });
}

TEST(Fork, WhileNvmlIsAskedIsRefusedInTheChild) {
  const Variable devices("EMBER_DEVICES", "cuda");
  const Variable object("EMBER_CUDA_OBJECT", EMBER_TEST_HELD_OBJECT);
  ASSERT_EQ(access(EMBER_TEST_HELD_OBJECT, R_OK), 0)
      << EMBER_TEST_HELD_OBJECT;  // else nobody comes
  IN_CHILD({ fork_while_held("count"); });
}

}  // namespace
}  // namespace ember::cuda

void ember_test_visit(const char* where) {
  ember::cuda::Hold* held = ember::cuda::hold;
  if (held == nullptr || std::strcmp(held->where, where) != 0) return;
  held->arrived.set_value();
  held->leave.get_future().wait();
}
