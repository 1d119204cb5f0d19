// The usual executor: a thread for each stream, so that streams are as concurrent as they can be.
#pragma once

#include "ember/driver/sim/executor.h"
#include "ember/driver/sim/machine.h"
#include "ember/driver/sim/scheduler.h"

namespace ember::inline v0::driver::sim {

class ThreadedExecutor final : public Executor {
 public:
  ThreadedExecutor(Machine& machine, int devices) : machine_(machine), scheduler_(devices) {}

  std::unique_ptr<Runner> attach(Stream& stream) override;
  Timeline::Waited wait(const Point& point) override { return point.timeline->wait(point.value); }
  Timeline::Waited wait_interruptibly(const Point& point) override {
    return point.timeline->wait_interruptibly(point.value);
  }
  void epoch_began(Stream& stream) override;
  bool concurrent() const noexcept override { return true; }
  Clock::time_point now() override { return Clock::now(); }

 private:
  class Worker;

  Machine& machine_;
  PriorityScheduler scheduler_;
};

}  // namespace ember::inline v0::driver::sim
