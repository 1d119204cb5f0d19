// The tables and what they are asked; the thread is in service_thread.cpp.
#include "ember/ipc/service.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "ember/base/error.h"
#include "ember/ipc/steps.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::ipc {

constinit std::atomic<int> killed_at{0};
constinit std::atomic<int> held_at{0};

void kill_here() noexcept {
  (void)kill(getpid(), SIGKILL);
  for (;;) (void)pause();
}

namespace {

constexpr int kPatience = 2000;  // milliseconds

constinit std::atomic<Service*> current{nullptr};
/// How often the process was forked before it came to be.
constinit std::atomic<std::uint64_t> generation_now{1};

/// When the library is loaded: beside a fork would be too late.
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, &Service::forget_in_child);

std::string name_of(const Process& process) { return "process " + std::to_string(process.id); }

[[noreturn]] void throw_met(const Process& owner, Met met) {
  if (!exists(owner)) {
    remove_socket(owner);
    throw Error("cannot receive: " + name_of(owner) + ", which owned the memory, has ended");
  }
  if (met == Met::none)
    throw Error("cannot receive: this process has no descriptors left for a socket");
  if (met == Met::busy)
    throw Error("cannot receive: " + name_of(owner) + ", which owns the memory, does not answer");
  throw Error("cannot receive: " + name_of(owner) + " shares nothing" +
              (met == Met::other ? ", and another process answers for it" : " any more"));
}

[[noreturn]] void throw_refusal(const Process& owner, Answer answer) {
  const std::string who = name_of(owner);
  switch (answer) {
    case Answer::received:
      throw Error("cannot receive: the handle of " + who +
                  " was received as often as it was meant to be, or withdrawn");
    case Answer::reset:
      throw Error("cannot receive: the device of " + who +
                  " was reset, or faulted, after the memory was sent");
    case Answer::exhausted:
      throw Error("cannot receive: " + who + " has no memory or descriptors left to share");
    case Answer::not_yours: throw Error(who + " does not know of this lease");
    default: throw Error("cannot receive: " + who + " knows no memory by this handle");
  }
}

}  // namespace

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Service& Service::get() {
  Service* known = current.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  // No lock: a child that was forked while another thread held one would wait for ever. Never
  // destroyed: tensors with longer lives may still be let go.
  std::unique_ptr<Service> made(new Service);
  if (!current.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return *known;
  return *made.release();
}

std::uint64_t Service::generation() noexcept {
  return generation_now.load(std::memory_order_relaxed);
}

Service* Service::of_generation(std::uint64_t asked) noexcept {
  return asked == generation() ? current.load(std::memory_order_acquire) : nullptr;
}

Service::Service() : self_(this_process()) {
  if (self_.start == 0)
    throw Error(std::string("sharing needs /proc/self/stat, which cannot be read: ") +
                std::strerror(errno));
  memory::set_leases(&leased_blocks, &await_leases);
}

// For who runs out of memory, or moves it.
std::vector<memory::LeasedBlock> Service::leased_blocks(int device) {
  std::vector<memory::LeasedBlock> blocks;
  Service& service = get();
  const MutexLock lock(service.mutex);
  for (const Exports::Lent& lent : service.exports.lent())
    if (lent.storage->device() == Device(Device::Type::cuda, device))
      blocks.push_back({reinterpret_cast<std::uintptr_t>(lent.storage->data()),
                        lent.holder ? lent.holder->id : 0, lent.only});
  return blocks;
}

bool Service::await_leases(std::uint64_t& seen, int milliseconds) {
  Service& service = get();
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  const MutexLock lock(service.mutex);
  if (!service.running_) return false;
  const bool first = seen == 0;
  // A turn that has begun may have looked already.
  const std::uint64_t whole = service.turns_ + 2;
  if (first) {
    service.hurried_ = whole;
    service.wake();
  }
  while (service.running_ && (first ? service.turns_ < whole : service.returned_ == seen))
    if (!service.turned_.wait_until(service.mutex, until)) break;
  const bool is_new = service.returned_ != seen;
  seen = service.returned_;
  return is_new;
}

void Service::forget_in_child() noexcept EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  generation_now.fetch_add(1, std::memory_order_relaxed);
  const Service* parents = current.exchange(nullptr);
  if (parents == nullptr) return;
  // Whoever connects to the parent must not be kept waiting by a child that never answers.
  for (const File* file : {&parents->wake_, &parents->listener_})
    if (*file) (void)close(file->get());
}

void Service::end() noexcept {
  const MutexLock lock(mutex);
  if (listener_) remove_socket(self_);
}

void Service::start(bool listening) {
  if (listening && !listener_) {
    static const int exit_handler = std::atexit([] {
      if (Service* service = current.load(std::memory_order_acquire)) service->end();
    });
    (void)exit_handler;
    sweep_sockets();
    if (Status status = listen_here(self_, listener_); !status.ok()) throw Error(status.detail());
    if (running_) wake();
  }
  if (running_) return;
  wake_ = File(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) throw Error(std::string("sharing needs an eventfd: ") + std::strerror(errno));
  try {
    std::thread([this] { work(); }).detach();
  } catch (const std::system_error& error) {
    wake_ = File();
    throw Error(std::string("sharing needs a thread: ") + error.what());
  }
  running_ = true;
}

void Service::wake() noexcept {
  const std::uint64_t one = 1;
  if (wake_) (void)!write(wake_.get(), &one, sizeof one);
}

std::uint64_t Service::new_lease() {
  std::uint64_t number = 0;
  while (number == 0) {
    const auto bits = random_secret();
    std::memcpy(&number, bits.data(), sizeof number);
  }
  return number;
}

Reply Service::ask(const Process& owner, const Request& request, std::vector<File>& files,
                   MemoryInPieces* pieces) {
  at(Step::before_connect);
  const std::int64_t until = now() + kPatience;
  File socket;
  if (const Met met = connect_to(owner, kPatience, socket); met != Met::yes) throw_met(owner, met);
  at(Step::connected);
  if (!send_message(socket, bytes_of(request))) throw_met(owner, Met::busy);
  at(Step::request_sent);
  while (!await_message(socket, 50)) {
    const bool there = exists(owner);
    if (there && now() < until) continue;
    if (!there && await_message(socket, 0)) break;  // it answered before it ended
    const MutexLock lock(mutex);
    give_back(owner, request.lease);  // it may have been granted all the same
    throw_met(owner, Met::busy);
  }
  std::vector<std::uint8_t> bytes;
  Reply reply;
  if (!receive_message(socket, bytes, sizeof(Reply), files)) throw_met(owner, Met::gone);
  at(Step::reply_came);
  if (!parse_reply(bytes, reply))
    throw Error("cannot receive: " + name_of(owner) + " answered something else than an answer");
  if (reply.answer != Answer::granted) throw_refusal(owner, reply.answer);
  const std::size_t expected =
      ((reply.files & kMemoryFile) != 0 ? 1U : 0U) + ((reply.files & kWordsFile) != 0 ? 1U : 0U);
  if (reply.lease != request.lease || files.size() != expected ||
      (reply.pieces != 0 && pieces == nullptr))
    throw Error("cannot receive: " + name_of(owner) + " answered another question");
  if (reply.pieces == 0) return reply;
  pieces->before = reply.before;
  if (!receive_pieces(socket, reply.pieces,
                      static_cast<int>(std::max<std::int64_t>(until - now(), 1)), *pieces)) {
    const MutexLock lock(mutex);
    give_back(owner, request.lease);
    throw Error("cannot receive: of the memory of " + name_of(owner) +
                " not all pieces came, or this process has no descriptors left for them");
  }
  return reply;
}

void Service::give_back(const Process& owner, std::uint64_t lease) {
  to_return_.push_back({owner, lease});
  wake();
}

void Service::release(const std::shared_ptr<Import>& import) noexcept {
  at(Step::released);
  const MutexLock lock(mutex);
  imports.remove({import->owner, import->record.slot}, import.get());
  released_.push_back(import);
  wake();
}

void Service::finish(const std::shared_ptr<Import>& import) noexcept {
  const MutexLock lock(mutex);
  finished_.push_back(import);
  wake();
}

void Service::collect() {
  sweep_sockets();
  const MutexLock lock(mutex);
  if (running_) wake();
}

bool Service::idle() const {
  return exports.empty() && imports.empty() && released_.empty() && finished_.empty() &&
         to_return_.empty() && holders_.empty() && words.empty() && in_work_ == 0;
}

}  // namespace ember::inline v0::ipc
