#include "peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "ember/base/error.h"
#include "ember/base/sanitizer.h"
#include "ember/ipc/process.h"
#include "ember/memory/memory.h"
#include "ember/runtime/event.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/work.h"
#include "stacks.h"
#include "tests/support/gate.h"

extern char** environ;

namespace ember::test {
namespace {

std::vector<std::uint8_t> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::uint8_t> all(bytes);
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (std::uint8_t& byte : all) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return all;
}

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  DIR* listing = opendir(folder);
  if (listing == nullptr) return 0;
  while (const dirent* entry = readdir(listing))
    if (entry->d_name[0] != '.') ++count;
  closedir(listing);
  return count;
}

std::string hex(const std::uint8_t* bytes, std::size_t count) {
  std::string text;
  char two[3];
  for (std::size_t i = 0; i < count; ++i) {
    std::snprintf(two, sizeof two, "%02x", bytes[i]);
    text += two;
  }
  return text;
}

std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace

std::string to_text(const ipc::Handle& handle) { return hex(handle.data(), handle.size()); }

ipc::Handle to_handle(const std::string& text) {
  ipc::Handle handle{};
  EXPECT_EQ(text.size(), 2 * handle.size()) << text;
  for (std::size_t i = 0; i < handle.size() && 2 * i + 1 < text.size(); ++i)
    handle[i] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  return handle;
}

Ref<Storage> make_memory(const Device& device, std::size_t bytes, unsigned seed) {
  Ref<Storage> made =
      device.is_cuda() ? Storage::allocate(device, bytes) : ipc::allocate_shared(bytes);
  write_memory(*made, seed);
  return made;
}

void write_memory(const Storage& storage, unsigned seed) {
  const std::vector<std::uint8_t> bytes = pattern(storage.bytes(), seed);
  storage.require_alive();
  if (!storage.device().is_cuda()) {
    std::memcpy(storage.data(), bytes.data(), bytes.size());
    return;
  }
  cuda::PinnedBuffer pinned = cuda::allocate_pinned(bytes.size());
  std::memcpy(pinned.data(), bytes.data(), bytes.size());
  const cuda::Stream stream = cuda::current_stream(storage.device());
  cuda::copy_async(storage.data(), pinned.data(), bytes.size(), stream);
  (void)cuda::pinned_record_event(pinned.data(), pinned.context(), stream);
}

bool has_bytes(const Storage& storage, unsigned seed) {
  const std::vector<std::uint8_t> expected = pattern(storage.bytes(), seed);
  std::vector<std::uint8_t> found(expected.size());
  storage.require_alive();
  if (storage.device().is_cuda())
    cuda::copy(found.data(), storage.data(), found.size(), cuda::current_stream(storage.device()));
  else
    std::memcpy(found.data(), storage.data(), found.size());
  return found == expected;
}

// ---- Counting

/// Whether a line of maps counts. Of CUDA's, which keeps what it has mapped for a process until
/// that ends (such as the files of its events in /dev/shm), and of the sanitizers', whose heaps map
/// more and more, only those of files and of shared memory do.
bool is_ours(const std::string& line) {
#if !defined(EMBER_SANITIZED_HEAP)
  if (cuda::driver_if_made() != nullptr && cuda::driver_if_made()->simulated()) return true;
#endif
  std::istringstream words(line);
  std::string addresses, permissions, offset, device, inode, name;
  words >> addresses >> permissions >> offset >> device >> inode >> name;
  if (name.empty()) return permissions.back() == 's';
  return name.front() == '/' && name.rfind("/dev/", 0) != 0;
}

/// The page in front of a thread's stack.
bool is_guard_page(const std::string& line) {
  std::size_t begin = 0, end = 0;
  return line.find(" ---p ") != std::string::npos &&
         std::sscanf(line.c_str(), "%zx-%zx", &begin, &end) == 2 &&
         end - begin == static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

Counts Counts::now() {
  // What the allocator keeps is where it happened to be free.
  try {
    if (cuda::driver_if_made() != nullptr) cuda::empty_cache();
  } catch (const Error&) {  // a device in a fault
  }
  Counts counts;
  if (cuda::driver_if_made() != nullptr) counts.allocated = cuda::memory_allocated(0);
  counts.descriptors = entries_of("/proc/self/fd");
  counts.threads = entries_of("/proc/self/task");
  counts.sockets = entries_of((std::string(std::getenv("XDG_RUNTIME_DIR")) + "/ember").c_str());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    // The C library keeps stacks of threads that have ended. Threads are counted below.
    if (is_guard_page(line)) {
      std::getline(maps, line);  // the stack
      continue;
    }
    if (line.find("memfd:") != std::string::npos) ++counts.mappings;
    if (is_ours(line)) {
      ++counts.lines;
      counts.maps.insert(line);
    }
  }
  // CUDA keeps one for the events that a process has shared, and semaphores of other programs' come
  // and go.
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = file.path().filename();
    if (name.rfind("cuda.shm.", 0) != 0 && name.rfind("sem.", 0) != 0) ++counts.shm;
  }
  counts.leases = ipc::leases().size();
  return counts;
}

Counts Counts::warm() {
  cuda::init();
  (void)make_memory(Device("cuda:0"), 100, 0);
  cuda::synchronize(0);
  static std::once_flag shared;
  std::call_once(shared, [] {
    for (const std::string device : {"cpu", "cuda:0"}) {
      Peer peer;
      EXPECT_EQ(peer.ask("make y " + device + " 1000 1"), "ok");
      EXPECT_TRUE(has_bytes(*ipc::receive(to_handle(peer.ask("send y"))), 1));
      const Ref<Storage> mine = make_memory(Device(device), 1000, 2);
      EXPECT_EQ(peer.ask("receive x " + to_text(ipc::send(mine))), "ok");
      EXPECT_EQ(peer.ask("check x 2"), "ok");
      std::thread([] { (void)std::make_unique<std::string>(1000, ' '); }).join();
    }
    Peer peer;
    cuda::Event event(false, false, true);
    (void)event.ipc_handle();
    EXPECT_EQ(peer.ask("event e"), "ok");
    EXPECT_EQ(peer.ask("close e"), "ok");
    while (!ipc::leases().empty()) std::this_thread::yield();
  });
  return now();
}

std::string Counts::text() const {
  std::ostringstream out;
  out << allocated << " bytes allocated, " << descriptors << " descriptors, " << mappings
      << " shared mappings, " << lines << " lines of maps, " << threads << " threads, " << sockets
      << " sockets, " << shm << " files in /dev/shm, " << leases << " leases";
  return out.str();
}

namespace {

// To tell a leak of ours from what others keep.
std::string files_in_shm() {
  std::string text = "/dev/shm:";
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    text += " " + file.path().filename().string();
  return text;
}

}  // namespace

std::string await_counts(const Counts& before) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  ipc::collect();  // for sockets of processes that ended when nobody had to do with them any more
  Counts now;
  for (;;) {
    now = Counts::now();
    if (now.allocated <= before.allocated && now.descriptors <= before.descriptors &&
        now.mappings <= before.mappings && now.lines <= before.lines &&
        now.threads <= before.threads && now.sockets <= before.sockets && now.shm <= before.shm &&
        now.leases <= before.leases)
      return "";
    if (std::chrono::steady_clock::now() > until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::string changed = "\nmapped before, and not now:";
  for (const std::string& line : before.maps)
    if (!now.maps.contains(line)) changed += "\n" + line;
  changed += "\nmapped now, and not before:";
  for (const std::string& line : now.maps)
    if (!before.maps.contains(line)) changed += "\n" + line;
  return "was " + before.text() + "; is " + now.text() + changed + "\n" + files_in_shm();
}

// ---- The test's end

Peer::Peer() {
  int both[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0) std::abort();
  // The other end keeps its number in the new program.
  constexpr int kTheirs = 100;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, both[1], kTheirs);
  std::string number = std::to_string(kTheirs);
  char program[] = "/proc/self/exe";
  char flag[] = "--peer";
  char* arguments[] = {program, flag, number.data(), nullptr};
  EXPECT_EQ(posix_spawn(&process_, program, &actions, nullptr, arguments, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(both[1]);
  socket_ = both[0];
  remember_process(process_);
}

Peer::~Peer() {
  if (process_ >= 0) {
    EXPECT_EQ(ask("end"), "ok");
  }
  await_end();
  close(socket_);
}

void Peer::tell(const std::string& command) {
  const std::string line = command + "\n";
  (void)!::send(socket_, line.data(), line.size(), MSG_NOSIGNAL);
}

std::string Peer::answer() {
  std::string line;
  for (char c = 0; recv(socket_, &c, 1, 0) == 1;) {
    if (c == '\n') return line;
    line += c;
  }
  await_end();
  return "killed";
}

std::string Peer::ask(const std::string& command) {
  tell(command);
  return answer();
}

void Peer::kill_now() {
  if (process_ >= 0) (void)kill(process_, SIGKILL);
  await_end();
}

void Peer::await_end() {
  if (process_ < 0) return;
  int status = 0;
  (void)waitpid(process_, &status, 0);
  forget_process(process_);
  process_ = -1;
}

// ---- The other process

namespace {

struct State {
  std::map<std::string, Ref<Storage>> memory;
  std::map<std::string, cuda::Event> events;
  std::unique_ptr<Gate> gate;
};

std::string run(State& state, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  std::string name;
  words >> verb >> name;
  const auto memory = [&]() -> Storage& { return *state.memory.at(name); };
  if (verb == "make") {
    std::string device;
    std::size_t bytes = 0;
    unsigned seed = 0;
    words >> device >> bytes >> seed;
    state.memory[name] = make_memory(Device(device), bytes, seed);
    return "ok";
  }
  if (verb == "send") {
    int receivers = 1;
    words >> receivers;
    return to_text(ipc::send(state.memory.at(name), receivers));
  }
  if (verb == "receive") {
    std::string handle;
    words >> handle;
    state.memory[name] = ipc::receive(to_handle(handle));
    return "ok";
  }
  if (verb == "write" || verb == "check") {
    unsigned seed = 0;
    words >> seed;
    if (verb == "check") return has_bytes(memory(), seed) ? "ok" : "other bytes";
    write_memory(memory(), seed);
    return "ok";
  }
  if (verb == "same") {
    std::string other;
    words >> other;
    return &memory() == state.memory.at(other).get() ? "ok" : "another storage";
  }
  if (verb == "device") return memory().device().str();
  if (verb == "drop") {
    state.memory.erase(name);
    return "ok";
  }
  if (verb == "hold") {  // the current stream of device 0
    state.gate = std::make_unique<Gate>(cuda::current_stream(0));
    state.gate->await_running();
    return "ok";
  }
  if (verb == "open") {
    state.gate.reset();
    return "ok";
  }
  if (verb == "idle") {  // whether the current stream of the device has nothing to do
    return cuda::current_stream(Device(name)).query() ? "ok" : "busy";
  }
  if (verb == "synchronize") {
    cuda::synchronize(Device(name));
    return "ok";
  }
  if (verb == "reset") {
    cuda::reset_device(Device(name));
    return "ok";
  }
  if (verb == "event") {  // a new one, or another process's
    std::string handle;
    if (!(words >> handle)) {
      state.events.insert_or_assign(name, cuda::Event(false, false, true));
    } else {
      state.events.insert_or_assign(
          name, cuda::Event::from_ipc_handle(Device("cuda:0"), from_hex(handle)));
    }
    return "ok";
  }
  if (verb == "handle") {
    const auto bytes = state.events.at(name).ipc_handle();
    return hex(bytes.data(), bytes.size());
  }
  if (verb == "record" || verb == "wait") {
    cuda::Event& event = state.events.at(name);
    verb == "record" ? event.record() : event.wait();
    return "ok";
  }
  if (verb == "reached") return state.events.at(name).query() ? "ok" : "not yet";
  if (verb == "await") {
    state.events.at(name).synchronize();
    return "ok";
  }
  if (verb == "close") {
    state.events.erase(name);
    return "ok";
  }
  if (verb == "kill_at") {
    ipc::killed_at = std::stoi(name);
    return "ok";
  }
  if (verb == "leases") return std::to_string(ipc::leases().size());
  if (verb == "unreceived") return std::to_string(ipc::unreceived());
  if (verb == "withdraw_all") {
    ipc::withdraw_all();
    return "ok";
  }
  if (verb == "allocated")
    return std::to_string(cuda::driver_if_made() != nullptr ? cuda::memory_allocated(0) : 0);
  if (verb == "few_descriptors") {
    ipc::Watch::refuse_descriptors(true);
    return "ok";
  }
  return "unknown command: " + line;
}

}  // namespace

int run_peer(int socket) {
  State state;
  std::string line;
  for (char c = 0; recv(socket, &c, 1, 0) == 1;) {
    if (c != '\n') {
      line += c;
      continue;
    }
    std::string reply;
    try {
      reply = line == "end" ? "ok" : run(state, line);
    } catch (const std::exception& error) {
      reply = std::string("error: ") + error.what();
      for (char& each : reply)
        if (each == '\n') each = ' ';
    }
    reply += '\n';
    if (::send(socket, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) return 1;
    if (line == "end") return 0;
    line.clear();
  }
  return 0;
}

}  // namespace ember::test
