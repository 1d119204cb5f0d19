// Chapter 16: waits of the host are shown or refused; and budgets, which count every wait.
#include "ember/runtime/sync_debug.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/ember.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

constexpr const char* kText = "called a synchronizing CUDA operation";

std::vector<std::string>& warnings() {
  static std::vector<std::string> said;
  return said;
}

/// Warnings go to a list while it lives.
class Listening {
 public:
  Listening() {
    warnings().clear();
    embed(kListens);
  }
  ~Listening() { embed(kSilent); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  static constexpr Embedding kListens{
      .warn = [](Warning, const char* text) noexcept { warnings().emplace_back(text); }};
  static constexpr Embedding kSilent{};
};

class SyncDebug : public testing::Test {
 protected:
  ~SyncDebug() override { set_sync_debug_mode(0); }
  const Listening listening_;
};

Options on_device() { return {Dtype::float32, Device("cuda")}; }

struct Case {
  const char* name;
  std::function<void()> call;
};

/// Chapter 16's list of what must trip, as far as there is such an operation, and what else is a
/// copy that blocks or a wait for a stream.
std::vector<Case> that_wait() {
  const Tensor x = arange(6, on_device()).reshape({2, 3});
  const Tensor one = ones({1}, on_device());
  const Tensor host = ones({2, 3});
  const Tensor mask = x > 2.0;

  const Tensor index = tensor<std::int64_t>({0, 1});
  return {
      {"item", [=] { (void)one.item(); }},
      {"to the host", [=] { (void)x.cpu(); }},
      {"to the host, transposed", [=] { (void)host.clone().copy_(x.t().contiguous().t()); }},
      {"to the device", [=] { (void)host.cuda(); }},
      {"into the device's", [=] { x.clone().copy_(host); }},
      {"nonzero", [=] { (void)nonzero(x); }},
      {"masked_select", [=] { (void)masked_select(x, mask); }},
      {"indexing with a tensor of the host", [=] { (void)x.index({index}); }},
      {"Stream::synchronize", [] { current_stream().synchronize(); }},
      {"copy",
       [=] {
         float value = 0;
         copy(&value, x.data_ptr(), sizeof value);
       }},
  };
}

/// Chapter 16's list of what must not, and what never waits.
std::vector<Case> that_do_not() {
  const Tensor x = arange(6, on_device()).reshape({2, 3});
  const Tensor mask = x > 2.0;
  const Tensor index = tensor<std::int64_t>({0, 1}).cuda();
  return {
      {"masked_fill with a number", [=] { (void)x.clone().masked_fill_(mask, 3.0); }},
      {"index on the device", [=] { (void)x.index({index}); }},
      {"index_put on the device", [=] { x.clone().index_put_({index}, ones({3}, on_device())); }},
      {"any", [=] { (void)any(x); }},
      {"all", [=] { (void)all(x); }},
      {"randperm",
       [] {
         (void)randperm(20000, {Dtype::int64, Device("cuda")});
       }},
      {"a device's wait", [] { synchronize(); }},
      {"an event's wait",
       [] {
         Event event;
         event.record(current_stream());
         event.synchronize();
       }},
      {"a wait of the allocator", [] { empty_cache(); }},
      {"a copy that does not block",
       [=] {
         const Tensor pinned = ones({2, 3}).pin_memory();
         x.clone().copy_(pinned, /*non_blocking=*/true);
         current_stream().query();
       }},
      {"a launch", [=] { x.clone().add_(1.0); }},
  };
}

TEST_F(SyncDebug, ModesByNumberAndName) {
  EXPECT_EQ(get_sync_debug_mode(), 0);
  for (const auto& [name, mode] :
       {std::pair{"warn", 1}, std::pair{"error", 2}, std::pair{"default", 0}}) {
    set_sync_debug_mode(name);
    EXPECT_EQ(get_sync_debug_mode(), mode);
    set_sync_debug_mode(2 - mode);
    EXPECT_EQ(get_sync_debug_mode(), 2 - mode);
  }
  set_sync_debug_mode(0);
  EXPECT_EQ(warnings().size(), 7u);  // each says that it is a prototype
  EXPECT_NE(warnings()[0].find("prototype"), std::string::npos);
}

TEST_F(SyncDebug, BadModesChangeNothing) {
  set_sync_debug_mode(1);
  EXPECT_ERROR(set_sync_debug_mode("on"), Error,
               "invalid value of debug_mode, expected one of `default`, `warn`, `error`");
  EXPECT_ERROR(set_sync_debug_mode(3), Error, "invalid value of debug_mode, expected one of 0,1,2");
  EXPECT_ERROR(set_sync_debug_mode(-1), Error,
               "invalid value of debug_mode, expected one of 0,1,2");
  EXPECT_EQ(get_sync_debug_mode(), 1);
}

TEST_F(SyncDebug, WarnsOfWaitsOnceEach) {
  const std::vector<Case> cases = that_wait();
  set_sync_debug_mode("warn");
  for (const Case& each : cases) {
    warnings().clear();
    each.call();
    EXPECT_EQ(warnings(), std::vector<std::string>{kText}) << each.name;
  }
}

TEST_F(SyncDebug, RefusesWaits) {
  const std::vector<Case> cases = that_wait();
  set_sync_debug_mode("error");
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    EXPECT_ERROR(each.call(), Error, kText);
  }
}

TEST_F(SyncDebug, LetsTheOthersPass) {
  const std::vector<Case> cases = that_do_not();
  set_sync_debug_mode("error");
  for (const Case& each : cases) EXPECT_NO_THROW(each.call()) << each.name;
}

TEST_F(SyncDebug, RefusesBeforeTheWait) {
  const Stream stream;
  test::Gate gate(stream);
  set_sync_debug_mode("error");
  EXPECT_ERROR(stream.synchronize(), Error, kText);  // it would wait for ever
  set_sync_debug_mode("default");
  gate.open();
  stream.synchronize();
}

TEST_F(SyncDebug, IsOfTheWholeProcess) {
  set_sync_debug_mode("error");
  bool refused = false;
  std::thread([&] {
    try {
      default_stream().synchronize();
    } catch (const Error& error) {
      refused = std::string(error.what()) == kText;
    }
  }).join();
  EXPECT_TRUE(refused);
}

TEST_F(SyncDebug, WaitsInHostFunctionsAreRefusedFirst) {
  set_sync_debug_mode("warn");
  warnings().clear();
  const Stream stream;
  Code code = Code::ok;
  host_function(
      [&] {
        try {
          stream.synchronize();
        } catch (const AcceleratorError& error) {
          code = error.code();
        }
      },
      stream, no_accesses());
  synchronize();
  EXPECT_EQ(code, Code::not_permitted);
  EXPECT_TRUE(warnings().empty());
}

// ---- Budgets

TEST(WaitBudgets, CountEveryKind) {
  const Tensor x = ones({4}, on_device());
  Event event;
  event.record(current_stream());
  const WaitBudget budget(1000);
  const auto before = host_waits();
  (void)x.cpu();
  EXPECT_EQ(budget.used(WaitKind::copy), 1u);
  current_stream().synchronize();
  EXPECT_EQ(budget.used(WaitKind::stream), 1u);
  event.synchronize();
  EXPECT_EQ(budget.used(WaitKind::event), 1u);
  synchronize();
  EXPECT_EQ(budget.used(WaitKind::device), 1u);
  float value = 0;
  copy_async(&value, x.data_ptr(), sizeof value);
  EXPECT_EQ(budget.used(WaitKind::pageable), 1u);
  (void)ones({2}).to(on_device(), /*non_blocking=*/true);
  EXPECT_EQ(budget.used(WaitKind::pageable), 2u);
  { const DeviceBuffer large = allocate(std::size_t{30} << 20); }
  empty_cache();
  EXPECT_GE(budget.used(WaitKind::memory), 1u);  // a segment went back
  EXPECT_EQ(budget.used(), 6 + budget.used(WaitKind::memory) + budget.used(WaitKind::launch));
  const auto after = host_waits();
  for (std::size_t i = 0; i < kWaitKinds; ++i)
    EXPECT_EQ(after[i] - before[i], budget.used(static_cast<WaitKind>(i)));
}

TEST(WaitBudgets, RefuseOneWaitTooMany) {
  const Tensor x = ones({4}, on_device());
  const WaitBudget budget(1, {WaitKind::copy});
  current_stream().synchronize();  // is of another kind
  (void)x.cpu();
  budget.check();
  EXPECT_ERROR(x.cpu(), Error,
               "a copy to the host: 2 waits of the host in a scope whose budget is 1: 2 of kind "
               "copy");
  EXPECT_ERROR(budget.check(), Error, "2 waits of the host in a scope whose budget is 1");
}

TEST(WaitBudgets, RefuseBeforeTheWait) {
  const Stream stream;
  test::Gate gate(stream);
  {
    const WaitBudget none(0);
    EXPECT_ERROR(stream.synchronize(), Error, "Stream.synchronize: 1 waits of the host");
  }
  gate.open();
  stream.synchronize();
}

TEST(WaitBudgets, LieWithinEachOther) {
  const WaitBudget outer(2);
  current_stream().synchronize();
  {
    const WaitBudget inner(1);
    current_stream().synchronize();
    EXPECT_EQ(inner.used(), 1u);
  }
  EXPECT_EQ(outer.used(), 2u);
  EXPECT_ERROR(current_stream().synchronize(), Error, "whose budget is 2");
}

TEST(WaitBudgets, AreTheThreads) {
  const WaitBudget none(0);
  std::thread([] { default_stream().synchronize(); }).join();
  EXPECT_EQ(none.used(), 0u);
}

TEST(WaitBudgets, EndOnAnotherThreadToo) {
  auto none = std::make_unique<WaitBudget>(0);
  std::thread([&] { none.reset(); }).join();
  current_stream().synchronize();
}

TEST(WaitBudgets, SayAtTheirEndWhatCouldNotBeRefused) {
  const Listening listening;
  { const DeviceBuffer kept = allocate(std::size_t{30} << 20); }
  {
    const WaitBudget none(0, {WaitKind::memory});
    { const DeviceBuffer large = allocate(std::size_t{64} << 20); }
    empty_cache();
    EXPECT_TRUE(warnings().empty());
  }
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_NE(warnings()[0].find("of kind memory"), std::string::npos) << warnings()[0];
}

TEST(WaitBudgets, CopiesOfPinnedMemoryAreNone) {
  const Tensor x = ones({4}, on_device());
  const Tensor pinned = zeros({4}).pin_memory();
  const WaitBudget none(0, {WaitKind::pageable, WaitKind::copy});
  pinned.copy_(x, /*non_blocking=*/true);
  copy_async(pinned.data_ptr(), x.data_ptr(), 16);
  EXPECT_EQ(none.used(), 0u);
}

TEST(WaitBudgets, KindsHaveNames) {
  for (std::size_t i = 0; i < kWaitKinds; ++i) {
    const auto kind = static_cast<WaitKind>(i);
    EXPECT_EQ(wait_kind(wait_kind_name(kind)), kind);
  }
  EXPECT_ERROR(wait_kind("streams"), ValueError, "got 'streams', expected some of copy, stream");
}

}  // namespace
}  // namespace ember::cuda
