// The thread of the service: it answers other processes, gives leases back, and notices who ended.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include "ember/driver/words.h"
#include "ember/ipc/event_cell.h"
#include "ember/ipc/service.h"
#include "ember/ipc/steps.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::ipc {
namespace {

constexpr std::int64_t kLinger = 100;  // milliseconds that an idle thread stays
constexpr std::int64_t kMostForRequest = 2000;
constexpr std::size_t kMostConnections = 64;  // that have not yet said what they want

/// What is called behind the work of the streams that an import is kept for.
struct Countdown {
  std::shared_ptr<Import> import;
  std::uint64_t generation;
  std::atomic<int> left;

  static void count(void* self) {
    auto* counted = static_cast<Countdown*>(self);
    if (counted->left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (Service* service = Service::of_generation(counted->generation))
      service->finish(counted->import);
    delete counted;
  }
};

/// A descriptor of one's own for what somebody else may close meanwhile.
bool copy_descriptor(int of, std::vector<int>& out) {
  const int made = fcntl(of, F_DUPFD_CLOEXEC, 0);
  if (made < 0) return false;
  out.push_back(made);
  return true;
}

}  // namespace

void Service::work() {
  std::int64_t idle_since = now();
  // Once it has ended, another thread may have begun.
  while (turn(idle_since)) {
    const MutexLock lock(mutex);
    ++turns_;
    if (std::exchange(came_back_, false)) ++returned_;
    turned_.notify_all();
  }
}

bool Service::turn(std::int64_t& idle_since) {
  std::vector<pollfd> looks;
  std::deque<std::shared_ptr<Import>> released;
  std::deque<std::shared_ptr<Import>> finished;
  WordPool::Files retired;  // go after the lock
  int wait = 0;
  {
    File wake;
    File listener;
    const MutexLock lock(mutex);
    retired = words.take_retired();
    if (!idle() || !connections_.empty()) idle_since = now();
    if (now() - idle_since >= kLinger) {
      if (listener_) remove_socket(self_);
      sweep_sockets();  // of those whose end nobody was there to see
      std::swap(wake, wake_);
      std::swap(listener, listener_);
      running_ = false;
      turned_.notify_all();
      return false;
    }
    released.swap(released_);
    finished.swap(finished_);
    in_work_ += static_cast<int>(released.size());
    wait = released.empty() && finished.empty() && turns_ >= hurried_ ? patience() : 0;
    looks.push_back({wake_.get(), POLLIN, 0});
    if (listener_ && connections_.size() < kMostConnections)
      looks.push_back({listener_.get(), POLLIN, 0});
    for (const auto& [process, owner] : imports.owners())
      if (!owner.ended && owner.watch.descriptor() >= 0)
        looks.push_back({owner.watch.descriptor(), POLLIN, 0});
    for (const auto& [process, watch] : holders_)
      if (watch.descriptor() >= 0) looks.push_back({watch.descriptor(), POLLIN, 0});
  }
  retired.clear();
  for (const Connection& connection : connections_)
    looks.push_back({connection.socket.get(), POLLIN, 0});
  for (const auto& import : released) release_now(import);
  for (const auto& import : finished) close_now(import);
  released.clear();
  finished.clear();
  (void)poll(looks.data(), looks.size(), wait);
  std::uint64_t calls = 0;
  if ((looks[0].revents & POLLIN) != 0) (void)!read(looks[0].fd, &calls, sizeof calls);
  accept_all();
  for (Connection& connection : connections_) serve(connection);
  std::erase_if(connections_, [](const Connection& each) { return !each.socket; });
  return_leases();
  Exports::Gone gone;  // goes after the lock
  const MutexLock lock(mutex);
  look_after_owners();
  look_after_holders(gone);
  (void)words.settle();
  return true;
}

int Service::patience() {
  // First, since it may leave nothing to do.
  const bool some_words_are_owed = words.settle();
  int shortest = idle() ? static_cast<int>(kLinger) : -1;
  const auto at_most = [&](int milliseconds) {
    if (shortest < 0 || milliseconds < shortest) shortest = milliseconds;
  };
  for (const auto& [process, owner] : imports.owners())
    if (!owner.ended && owner.watch.descriptor() < 0) at_most(100);
  for (const auto& [process, watch] : holders_)
    if (watch.descriptor() < 0) at_most(100);
  if (!to_return_.empty()) at_most(10);
  if (some_words_are_owed) at_most(20);
  if (words.any_retired()) at_most(0);
  if (!connections_.empty()) at_most(100);
  return shortest;
}

void Service::accept_all() {
  int listener = -1;
  {
    const MutexLock lock(mutex);
    listener = listener_.get();  // closed by this thread only
  }
  while (listener >= 0 && connections_.size() < kMostConnections) {
    File made(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!made) return;
    connections_.push_back({std::move(made), now() + kMostForRequest});
  }
}

void Service::serve(Connection& connection) {
  std::vector<std::uint8_t> bytes;
  std::vector<File> unwanted;
  if (!await_message(connection.socket, 0)) {
    if (now() >= connection.until) connection.socket = File();
    return;
  }
  // One request, or nothing that makes sense: in both cases this is the end of the connection.
  const File socket = std::move(connection.socket);
  connection.socket = File();
  Request request;
  std::int32_t id = 0;
  std::uint32_t user = 0;
  if (!receive_message(socket, bytes, sizeof(Request), unwanted) || !peer_of(socket, id, user) ||
      !same_user(user))
    return;
  at(Step::request_came);
  Reply reply;
  std::vector<int> descriptors;
  Exports::Gone gone;
  Ref<Storage> in_pieces;
  MemoryInPieces memory;
  const bool sensible = parse_request(bytes, request);
  const Process peer{id, request.start};
  if (sensible) {
    const MutexLock lock(mutex);
    reply = answer(request, peer, descriptors, in_pieces, gone);
    replying_ = reply.answer == Answer::granted;
  }
  if (in_pieces) {
    const Status status = find_pieces(*in_pieces, memory);
    reply.before = memory.before;
    reply.pieces = static_cast<std::uint32_t>(memory.pieces.size());
    if (!status.ok()) {
      reply = Reply();
      reply.answer =
          status.code() == Code::context_is_destroyed ? Answer::reset : Answer::exhausted;
      const MutexLock lock(mutex);
      (void)exports.give_back(peer, request.lease, gone);
    }
  }
  std::vector<File> copies;
  copies.reserve(descriptors.size());
  for (const int descriptor : descriptors) copies.emplace_back(descriptor);
  // Whoever hears the reply may ask at once who uses the memory: not this thread any more.
  in_pieces = {};
  gone.clear();
  if (sensible && request.verb == Verb::give_back) return;
  if (reply.answer == Answer::granted && request.verb == Verb::lease) at(Step::lease_noted);
  if (reply.answer != Answer::granted) descriptors.clear();
  const bool heard = send_message(socket, bytes_of(reply), descriptors) &&
                     (reply.pieces == 0 || send_pieces(socket, memory));
  const bool lost = !heard && reply.answer == Answer::granted && request.verb == Verb::lease;
  at(Step::reply_sent);
  const MutexLock lock(mutex);
  replying_ = false;
  if (!lost) return;
  (void)exports.give_back(peer, request.lease, gone);
}

Reply Service::answer(const Request& request, const Process& peer, std::vector<int>& descriptors,
                      Ref<Storage>& in_pieces, Exports::Gone& gone) {
  Reply reply;
  if (request.verb == Verb::give_back) {
    at(Step::give_back_came);
    came_back_ = true;
    (void)exports.give_back(peer, request.lease, gone);
    at(Step::give_back_done);
    return reply;
  }
  const auto [watch, is_new] = holders_.try_emplace(peer);
  if (is_new) watch->second = Watch(peer);
  if (watch->second.has_ended()) return reply;  // the next turn forgets it
  if (request.verb == Verb::forward) {
    reply.answer = exports.forward(peer, request.lease, reply.record);
    if (reply.answer == Answer::granted) reply.lease = request.lease;
    return reply;
  }
  const Record& record = request.record;
  Exports::Granted granted = exports.lease(record, peer, request.lease, gone);
  reply.answer = granted.answer;
  if (granted.answer != Answer::granted) return reply;
  const int memory = record.kind == Kind::host ? host.descriptor(record.file) : granted.memory;
  bool copied = true;
  if ((request.wants & kMemoryFile) != 0 && memory >= 0) {
    reply.files |= kMemoryFile;
    copied = copy_descriptor(memory, descriptors);
  }
  if (granted.ready.value != 0) {
    reply.word = granted.ready.cell.index;
    reply.value = granted.ready.value;
    reply.words = words.number();
    if (request.words != reply.words) {
      reply.files |= kWordsFile;
      copied = copied && copy_descriptor(words.file()->descriptor(), descriptors);
    }
  }
  reply.lease = request.lease;
  if ((request.wants & kMemoryFile) != 0) in_pieces = granted.in_pieces;
  if (granted.in_pieces) gone.push_back(std::move(granted.in_pieces));  // not under the lock
  if (copied) return reply;
  in_pieces = {};
  (void)exports.give_back(peer, request.lease, gone);
  reply = Reply();
  reply.answer = Answer::exhausted;
  return reply;
}

void Service::release_now(const std::shared_ptr<Import>& import) {
  std::vector<cuda::Stream> streams;
  {
    const MutexLock lock(import->mutex);
    streams.swap(import->streams);
  }
  auto* counted = new Countdown{import, generation(), {static_cast<int>(streams.size()) + 1}};
  driver::Driver* driver = cuda::driver_if_made();
  for (const cuda::Stream& stream : streams) {
    // Where nothing can be enqueued, nothing is done any more.
    const auto nothing = [](void*) {};
    if (driver == nullptr ||
        !driver->host_function(stream.handle(), nothing, &Countdown::count, counted).ok())
      Countdown::count(counted);
  }
  Countdown::count(counted);
}

void Service::close_now(const std::shared_ptr<Import>& import) {
  at(Step::work_done);
  if (import->device.is_cuda())
    if (driver::Driver* driver = cuda::driver_if_made())
      (void)driver->ipc_close_memory(import->device.index(), import->data);
  Mapping mapping;  // may go after the lock
  const MutexLock lock(mutex);
  --in_work_;
  if (Imports::Owner* owner = imports.find_owner(import->owner)) {
    if (const auto file = owner->files.find(import->record.file);
        import->record.kind == Kind::host && file != owner->files.end() &&
        --file->second.users == 0) {
      mapping = std::move(file->second.mapping);
      owner->files.erase(file);
    }
  }
  imports.held.erase(import);
  words.retire(imports.leave(import->owner));
  at(Step::before_give_back);
  to_return_.push_back({import->owner, import->lease});
}

void Service::return_leases() {
  std::deque<Return> returns;
  {
    const MutexLock lock(mutex);
    returns.swap(to_return_);
  }
  std::deque<Return> left;
  for (const Return& lease : returns) {
    File socket;
    const Met met = connect_to(lease.owner, 0, socket);
    if (met == Met::busy || met == Met::none) {
      left.push_back(lease);
      continue;
    }
    if (met != Met::yes) continue;  // whoever has ended wants nothing back
    Request request;
    request.verb = Verb::give_back;
    request.start = self_.start;
    request.lease = lease.lease;
    if (!send_message(socket, bytes_of(request))) left.push_back(lease);
    at(Step::gave_back);
  }
  if (left.empty()) return;
  const MutexLock lock(mutex);
  to_return_.insert(to_return_.end(), left.begin(), left.end());
}

void Service::look_after_owners() {
  for (auto& [process, owner] : imports.owners()) {
    if (owner.ended || !owner.watch.has_ended()) continue;
    owner.ended = true;
    remove_socket(process);
    for (const auto& import : imports.held) {
      if (!(import->owner == process)) continue;
      const MutexLock own(import->mutex);
      for (const Import::Awaited& each : import->awaited) {
        if (each.word->load(std::memory_order_acquire) >= each.value) continue;
        import->failed.store(true, std::memory_order_release);
        driver::raise_word(*each.word, driver::kWordLost);
      }
    }
    for (const ImportedEvent* event : imports.events)
      if (event->owner == process) end_lost_record(event->word);
  }
}

void Service::look_after_holders(Exports::Gone& gone) {
  bool any_ended = false;
  for (auto each = holders_.begin(); each != holders_.end();) {
    const auto here = each++;
    const bool ended = here->second.has_ended();
    if (ended) {
      any_ended = true;
      came_back_ = true;
      exports.drop_holder(here->first, gone);
      remove_socket(here->first);
    }
    if (ended || !exports.has_holder(here->first)) holders_.erase(here);
  }
  if (any_ended)
    for (const WordPool::Cell& cell : exports.event_cells()) end_lost_record(cell.word);
}

}  // namespace ember::inline v0::ipc
