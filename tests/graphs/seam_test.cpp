// What driver.h promises of captures and graphs, of every driver.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "ember/runtime/event.h"
#include "tests/support/devices.h"

namespace ember::driver {
namespace {

using test::LogArgs;
using test::machine;

class SeamGraphs : public testing::Test {
 protected:
  ~SeamGraphs() override { check(machine().device_synchronize(0)); }

  void log(const cuda::Stream& stream, std::uint32_t tag) const {
    check(machine().launch(stream.handle(), test::log_kernel, Params(LogArgs{log_.get(), tag})));
  }
  static CaptureStatus status(const cuda::Stream& stream) {
    CaptureStatus answer{};
    std::uint64_t id = 0;
    check(machine().capture_status(stream.handle(), answer, id));
    EXPECT_EQ(answer == CaptureStatus::active, id != 0);
    return answer;
  }
  static void begin(const cuda::Stream& stream, CaptureMode mode = CaptureMode::global) {
    check(machine().capture_begin(stream.handle(), mode));
  }
  static Code end(const cuda::Stream& stream) {
    GraphHandle graph;
    const Status ended = machine().capture_end(stream.handle(), graph);
    if (ended.ok()) check(machine().graph_destroy(graph));
    return ended.code();
  }

  const test::Words<std::uint32_t> log_{64};
  const cuda::Stream stream_{0}, side_{0};
};

TEST_F(SeamGraphs, CapturedWorkIsDoneByReplays) {
  EXPECT_EQ(status(stream_), CaptureStatus::none);
  begin(stream_);
  EXPECT_EQ(status(stream_), CaptureStatus::active);
  EXPECT_EQ(status(side_), CaptureStatus::none);
  log(stream_, 5);
  log(stream_, 6);
  GraphHandle graph;
  check(machine().capture_end(stream_.handle(), graph));
  EXPECT_EQ(status(stream_), CaptureStatus::none);
  EXPECT_EQ(log_.read()[0], 0U) << "a capture does nothing";
  std::size_t nodes = 0;
  check(machine().graph_node_count(graph, nodes));
  EXPECT_EQ(nodes, 2U);

  GraphExecHandle exec;
  check(machine().graph_instantiate(graph, exec));
  check(machine().graph_destroy(graph));
  check(machine().graph_launch(exec, side_.handle()));
  check(machine().graph_launch(exec, cuda::default_stream(0).handle()));
  const auto entries = log_.read();
  EXPECT_EQ(entries[0], 4U);
  for (int i : {1, 3}) {
    EXPECT_EQ(entries[i], 5U) << "replays of one graph do not overlap";
    EXPECT_EQ(entries[i + 1], 6U);
  }
  check(machine().graph_exec_destroy(exec));
}

TEST_F(SeamGraphs, DestroyingDoesNotEndAReplay) {
  test::Gate gate(side_);
  begin(stream_);
  log(stream_, 7);
  GraphHandle graph;
  check(machine().capture_end(stream_.handle(), graph));
  GraphExecHandle exec;
  check(machine().graph_instantiate(graph, exec));
  check(machine().graph_launch(exec, side_.handle()));
  check(machine().graph_exec_destroy(exec));
  check(machine().graph_destroy(graph));
  gate.open();
  EXPECT_EQ(log_.read()[1], 7U);
}

TEST_F(SeamGraphs, BeginsOnAStreamOfItsOwnOnly) {
  EXPECT_EQ(machine().capture_begin({nullptr, 0}, CaptureMode::global).code(),
            Code::stream_capture_unsupported);
  EXPECT_EQ(end(stream_), Code::illegal_state) << "without a capture";
  EXPECT_EQ(machine().capture_begin({nullptr, 1000}, CaptureMode::global).code(),
            Code::invalid_device);
}

TEST_F(SeamGraphs, AnEventFromOutsideIsRefused) {
  cuda::Event before;
  before.record(side_);
  begin(stream_);
  EXPECT_EQ(machine().event_wait(stream_.handle(), before.handle()).code(),
            Code::stream_capture_isolation);
  EXPECT_EQ(status(stream_), CaptureStatus::invalidated);
  EXPECT_EQ(
      machine().launch(stream_.handle(), test::log_kernel, Params(LogArgs{log_.get(), 1})).code(),
      Code::stream_capture_invalidated);
  EXPECT_EQ(end(stream_), Code::stream_capture_invalidated);
  log(stream_, 9);
  EXPECT_EQ(log_.read()[1], 9U) << "the stream is an ordinary one again";
}

TEST_F(SeamGraphs, EventsOfGraphsNeedACapture) {
  EventHandle event;
  check(machine().event_create(0, {}, event));
  const auto external = EventScope::external;
  EXPECT_EQ(machine().event_record(event, stream_.handle(), external).code(), Code::illegal_state);
  EXPECT_EQ(machine().event_wait(stream_.handle(), event, external).code(), Code::illegal_state);
  begin(stream_);
  check(machine().event_record(event, stream_.handle(), external));
  check(machine().event_wait(stream_.handle(), event, external));
  EXPECT_EQ(end(stream_), Code::ok);
  check(machine().event_destroy(event));
}

TEST_F(SeamGraphs, ABranchHasToBeJoined) {
  cuda::Event fork, join;
  begin(stream_);
  fork.record(stream_);
  fork.wait(side_);
  EXPECT_EQ(status(side_), CaptureStatus::active);
  log(side_, 1);
  EXPECT_EQ(end(stream_), Code::stream_capture_unjoined);
  EXPECT_EQ(status(side_), CaptureStatus::none);

  begin(stream_);
  fork.record(stream_);
  fork.wait(side_);
  log(side_, 1);
  join.record(side_);
  join.wait(stream_);
  EXPECT_EQ(end(stream_), Code::ok);
}

TEST_F(SeamGraphs, LooksAndWaitsInvalidate) {
  cuda::Event event;
  const auto refuses = [&](const auto& call, Code code) {
    begin(stream_);
    event.record(stream_);
    EXPECT_EQ(call().code(), code);
    EXPECT_EQ(end(stream_), Code::stream_capture_invalidated);
  };
  refuses([&] { return machine().stream_query(stream_.handle()); },
          Code::stream_capture_unsupported);
  refuses([&] { return machine().stream_synchronize(stream_.handle()); },
          Code::stream_capture_unsupported);
  refuses([&] { return machine().device_synchronize(0); }, Code::stream_capture_unsupported);
  refuses([&] { return machine().event_query(event.handle()); }, Code::captured_event);
  refuses([&] { return machine().event_synchronize(event.handle()); }, Code::captured_event);
}

TEST_F(SeamGraphs, OrdinaryMemoryIsNotCopied) {
  std::uint32_t here = 1;
  begin(stream_);
  EXPECT_EQ(machine().copy(stream_.handle(), log_.get(), &here, 4).code(),
            Code::stream_capture_unsupported);
  EXPECT_EQ(end(stream_), Code::stream_capture_invalidated);
}

TEST_F(SeamGraphs, OtherThreadsLookAsTheirModeSays) {
  cuda::Event done;
  done.record(side_);
  check(machine().event_synchronize(done.handle()));
  const auto look = [&](CaptureMode mode) {
    Code code{};
    std::thread([&] {
      check(machine().capture_mode_exchange(mode));
      code = machine().event_query(done.handle()).code();
    }).join();
    return code;
  };
  begin(stream_);
  EXPECT_NE(look(CaptureMode::relaxed), Code::stream_capture_unsupported);
  EXPECT_NE(look(CaptureMode::thread_local_), Code::stream_capture_unsupported);
  EXPECT_EQ(end(stream_), Code::ok);

  begin(stream_);
  EXPECT_EQ(look(CaptureMode::global), Code::stream_capture_unsupported);
  EXPECT_EQ(end(stream_), Code::stream_capture_invalidated);

  begin(stream_, CaptureMode::thread_local_);
  EXPECT_NE(look(CaptureMode::global), Code::stream_capture_unsupported);
  EXPECT_EQ(end(stream_), Code::ok);
}

TEST_F(SeamGraphs, MakingThingsDisturbsNothing) {
  begin(stream_);
  void* memory = nullptr;
  check(machine().malloc(0, 4096, memory));
  EventHandle event;
  check(machine().event_create(0, {}, event));
  check(machine().event_destroy(event));
  check(machine().free(0, memory));
  void* pinned = nullptr;
  check(machine().pinned_malloc(4096, pinned));
  EXPECT_EQ(end(stream_), Code::ok);
  check(machine().pinned_free(pinned));
}

TEST_F(SeamGraphs, EndsOnItsThreadUnlessRelaxed) {
  begin(stream_);
  Code code{};
  std::thread([&] { code = end(stream_); }).join();
  EXPECT_EQ(code, Code::stream_capture_wrong_thread);
  EXPECT_EQ(status(stream_), CaptureStatus::none);
  EXPECT_EQ(end(stream_), Code::illegal_state) << "it has ended";
  begin(stream_, CaptureMode::relaxed);
  std::thread([&] { code = end(stream_); }).join();
  EXPECT_EQ(code, Code::ok);
}

TEST_F(SeamGraphs, IsWrittenAsTextForGraphviz) {
  begin(stream_);
  log(stream_, 1);
  check(machine().fill(stream_.handle(), log_.get(), 0, 4, 16));
  GraphHandle graph;
  check(machine().capture_end(stream_.handle(), graph));
  const std::string path = testing::TempDir() + "ember_graph." + std::to_string(getpid()) + ".dot";
  check(machine().graph_describe(graph, path));
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  (void)std::remove(path.c_str());
  EXPECT_NE(text.find("digraph"), std::string::npos);
  EXPECT_NE(text.find("->"), std::string::npos) << "one waits for the other";
  EXPECT_FALSE(machine().graph_describe(graph, "/no such folder/graph.dot").ok());
  check(machine().graph_destroy(graph));
}

TEST_F(SeamGraphs, AResetEndsCapturesAndGraphs) {
  if (!machine().simulated()) GTEST_SKIP() << "the pools of other tests live on the device";
  NEEDS_DEVICES(4);
  const cuda::Stream stream(3);
  begin(stream);
  GraphHandle graph;
  check(machine().capture_end(stream.handle(), graph));
  GraphExecHandle exec;
  check(machine().graph_instantiate(graph, exec));
  begin(stream);
  check(machine().device_reset(3));
  EXPECT_EQ(machine().capture_end(stream.handle(), graph).code(), Code::context_is_destroyed);
  EXPECT_EQ(machine().graph_launch(exec, cuda::default_stream(3).handle()).code(),
            Code::context_is_destroyed);
  check(machine().graph_exec_destroy(exec));
  check(machine().graph_destroy(graph));
}

}  // namespace
}  // namespace ember::driver
