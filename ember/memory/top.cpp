#include "ember/memory/top.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>  // NOLINT: pthread_sigmask
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "ember/base/embedding.h"
#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/driver/driver.h"
#include "ember/memory/allocators.h"
#include "ember/memory/top_socket.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda::top {
namespace {

constinit Mutex starting;
/// The socket; -1 while nobody is allowed to ask.
constinit std::atomic<int> listening{-1};
constinit std::atomic<pid_t> owner{0};

std::string& socket_path() {
  static NoDestructor<std::string> path;
  return *path;
}

/// The socket is the parent's, and so is the thread.
void after_fork_in_child() {
  renew_in_child(starting);
  const int inherited = listening.exchange(-1);
  if (inherited >= 0) close(inherited);
}

[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, &after_fork_in_child);

void remove_socket() {
  if (owner == getpid()) unlink(socket_path().c_str());
}

/// The command line of this process, with spaces.
std::string own_command() {
  std::string text;
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char part[256];
  const ssize_t got = read(file, part, sizeof part);
  close(file);
  if (got > 0) text.assign(part, static_cast<std::size_t>(got));
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return text;
}

DeviceUse use_of(driver::Driver& from, int device) {
  DeviceUse use;
  use.device = device;
  driver::DeviceProperties properties;
  if (from.device_properties(device, properties).ok()) {
    use.simulated = properties.simulated;
    use.total = properties.total_memory;
    use.uuid = "GPU-" + properties.uuid_text();
    use.name = properties.name;
  }
  if (memory::DeviceAllocator* allocator = memory::allocator_if_made(device)) {
    use.allocated = static_cast<std::uint64_t>(allocator->allocated());
    use.reserved = std::max(use.allocated, static_cast<std::uint64_t>(allocator->reserved()));
  }
  return use;
}

/// Reads the devices' sensors, anew once a second has passed. Where many programs use the driver
/// that takes longer than anybody waits for an answer: whoever asks again gets these. They are
/// the answering thread's own: that of a forked child begins anew.
void add_sensors(driver::Driver& from, std::vector<DeviceUse>& devices) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kFresh{1};
  thread_local std::vector<DeviceUse> last;
  thread_local Clock::time_point until{};
  if (last.size() != devices.size() || Clock::now() >= until) {
    last.assign(devices.size(), {});
    for (DeviceUse& read : last) read_sensors(from, static_cast<int>(&read - last.data()), read);
    until = Clock::now() + kFresh;
  }
  for (std::size_t i = 0; i < devices.size(); ++i) copy_sensors(last[i], devices[i]);
}

std::string answer() {
  ProcessUse self;
  self.pid = static_cast<std::uint32_t>(getpid());
  self.command = own_command();
  if (driver::Driver* made = driver_if_made()) {
    for (int device = 0; device < made->device_count(); ++device)
      self.devices.push_back(use_of(*made, device));
    add_sensors(*made, self.devices);
  }
  return to_text(self);
}

void serve(int listener) {
  while (answer_one(listener, &answer)) {
  }
}

}  // namespace

void allow() {
  const MutexLock lock(starting);
  if (listening >= 0) return;
  const int listener = listen_for_questions(socket_path());
  // Signals are the program's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(&serve, listener).detach();
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    close(listener);
    unlink(socket_path().c_str());
    throw Error(std::string("top: no thread to answer: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (owner.exchange(getpid()) == 0) std::atexit(&remove_socket);
  listening = listener;
}

void start_if_asked() noexcept {
  static constinit std::atomic<bool> done{false};
  if (done.exchange(true) || !env::flag("EMBER_TOP")) return;
  try {
    allow();
  } catch (const std::exception& error) {
    warn(Warning::user, error.what());
  }
}

std::vector<ProcessUse> processes() {
  std::vector<ProcessUse> found;
  for (const std::string& path : sockets())
    if (const auto text = ask(path))
      if (auto process = parse(*text)) found.push_back(std::move(*process));
  std::sort(found.begin(), found.end(),
            [](const ProcessUse& a, const ProcessUse& b) { return a.pid < b.pid; });
  return found;
}

}  // namespace ember::inline v0::cuda::top
