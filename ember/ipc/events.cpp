// Events between processes: by the driver's own handles where it has such, else by words that the
// processes share (event_cell.h).
#include <cstring>
#include <string>
#include <utility>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/driver/words.h"
#include "ember/ipc/event_cell.h"
#include "ember/ipc/leasing.h"
#include "ember/ipc/service.h"
#include "ember/runtime/device.h"
#include "ember/runtime/event.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"

namespace ember::inline v0::ipc {
namespace {

using driver::Word;

[[noreturn]] void throw_lost() {
  throw Error(
      "the event will never be reached: the process that recorded it ended, or its device faulted "
      "or was reset, before the work was done");
}

class WordsEvent : public cuda::detail::SharedEvent {
 public:
  WordsEvent(Ref<WordsFile> file, Word* cell) noexcept : file_(std::move(file)), cell_(cell) {}

  void record(const cuda::Stream& stream) override {
    driver::Driver& driver = cuda::active_driver();
    // It stays so: nothing is left to be written, and nobody would wait until that is done.
    if (reached() == driver::kWordLost) return;
    check(file_->open_with(driver));
    const std::uint64_t number = next_record();
    Status status;
    // The record before this one, by whichever process, comes first.
    if (reached() < number - 1)
      status = driver.word_wait(stream.handle(), cell_, number - 1, file_);
    if (status.ok()) status = driver.word_write(stream.handle(), cell_, number);
    if (status.ok()) {
      keep_until_done(stream);
      return check(finish_if_seeded(stream.handle()));
    }
    driver::raise_word(*cell_, driver::kWordLost);  // nobody will do it
    check(status);
  }

  void wait(const cuda::Stream& stream) const override {
    const std::uint64_t number = recorded();
    if (reached() >= number) return refuse_lost();
    driver::Driver& driver = cuda::active_driver();
    check(file_->open_with(driver));
    check(driver.word_wait(stream.handle(), cell_, number, file_));
  }

  bool query() const override {
    refuse_lost();
    const std::uint64_t number = recorded();
    if (reached() >= number) return true;
    if (sim::seeded()) (void)ask_in_order(number, &driver::Driver::stream_query);
    return reached() >= number;
  }

  void synchronize() const override {
    driver::Driver& driver = cuda::active_driver();
    if (!driver.may_wait())
      check(Status(Code::not_permitted,
                   "synchronizing an event of several processes, called from a host function or a "
                   "kernel"));
    const std::uint64_t number = recorded();
    if (reached() < number && sim::seeded())
      check(ask_in_order(number, &driver::Driver::stream_synchronize));
    for (std::uint64_t seen = reached(); seen < number; seen = reached()) {
      driver::await_change(*cell_, seen);
      if (interrupted())
        check(Status(Code::interrupted, "a wait for an event of several processes"));
    }
    refuse_lost();
  }

 protected:
  std::uint64_t recorded() const noexcept {
    return cell_[kRecordedWord].load(std::memory_order_acquire);
  }

  /// What has to stay until the work is done that the stream holds.
  virtual void keep_until_done(const cuda::Stream&) {}

  const Ref<WordsFile> file_;
  Word* const cell_;

 private:
  std::uint64_t reached() const noexcept { return cell_->load(std::memory_order_acquire); }
  void refuse_lost() const {
    if (reached() == driver::kWordLost) throw_lost();
  }

  /// Asks, or waits, by a stream of its own. Where a seed decides, work is done only while the host
  /// is in the driver: who looked at the word alone would never see it change.
  Status ask_in_order(std::uint64_t number,
                      Status (driver::Driver::*ask)(driver::StreamHandle) noexcept) const {
    driver::Driver& driver = cuda::active_driver();
    EMBER_TRY(file_->open_with(driver));
    driver::StreamHandle side;
    EMBER_TRY(driver.stream_create(cuda::current_device(), 0, side));
    Status status = driver.word_wait(side, cell_, number, file_);
    if (status.ok()) status = (driver.*ask)(side);
    const Status destroyed = driver.stream_destroy(side);
    return status.ok() ? destroyed : status;
  }

  /// Asks for the next record, in this process's name: there is no moment at which it is asked for
  /// and nobody can tell by whom.
  std::uint64_t next_record() noexcept {
    const Process& self = Service::get().self();
    const std::uint64_t me = static_cast<std::uint32_t>(self.id) | (self.start << 32);
    std::uint64_t before = recorded();
    Word* name = nullptr;
    do {
      name = &cell_[kFirstRecorder + (before + 1) % kRecorders];
      name->store(me);
    } while (!cell_[kRecordedWord].compare_exchange_weak(before, before + 1));
    name->store(me);  // another process that came too late may have put its own
    return before + 1;
  }
};

/// This process's event.
class OwnEvent final : public WordsEvent {
 public:
  OwnEvent(Ref<WordsFile> file, const WordPool::Cell& cell, std::uint64_t generation) noexcept
      : WordsEvent(std::move(file), cell.word), place_(cell), generation_(generation) {}
  ~OwnEvent() override {
    Service* service = Service::of_generation(generation_);
    if (service == nullptr) return;
    WordPool::Files retired;  // go after the lock
    const MutexLock lock(service->mutex);
    if (slot_ != 0)
      service->exports.end_event(slot_);
    else
      service->words.give_back_at(place_, recorded());
    service->wake();
    retired = service->retired_words();
  }

  std::array<std::uint8_t, 64> handle() override {
    Service& service = Service::get();
    const MutexLock lock(service.mutex);
    service.start(true);
    if (slot_ == 0) {
      Source source;
      source.record.kind = Kind::event;
      source.record.machine = this_machine();
      source.record.owner = service.self().id;
      source.record.start = service.self().start;
      record_ = service.exports.share_event(slot_, place_, source);
    }
    return event_bytes(record_);
  }

 private:
  const WordPool::Cell place_;
  const std::uint64_t generation_;
  std::uint64_t slot_ = 0;  // among the exports, once there is a handle
  Record record_;
};

/// A lease of an event: of another process's, or this one's by its handle.
class EventLease {
 public:
  EventLease(const Process& owner, std::uint64_t lease, Ref<WordsFile> file, Word* cell)
      : generation_(Service::generation()) {
    import_ = {owner, lease, std::move(file), cell};
    Service& service = Service::get();
    if (is_own(service)) return;
    const MutexLock lock(service.mutex);
    service.imports.events.insert(&import_);
    // If the owner has ended already, the thread has looked when this was not there yet.
    service.imports.find_owner(import_.owner)->ended = false;
    service.wake();
  }
  ~EventLease() {
    Service* service = Service::of_generation(generation_);
    if (service == nullptr) return;
    Exports::Gone none;
    const MutexLock lock(service->mutex);
    if (is_own(*service)) {
      (void)service->exports.give_back(import_.owner, import_.lease, none);
    } else {
      service->imports.events.erase(&import_);
      service->words.retire(service->imports.leave(import_.owner));
      service->give_back(import_.owner, import_.lease);
    }
    service->words.retire(std::move(import_.file));
    service->wake();
  }
  EventLease(const EventLease&) = delete;
  EventLease& operator=(const EventLease&) = delete;

 private:
  bool is_own(const Service& service) const noexcept { return import_.owner == service.self(); }
  const std::uint64_t generation_;
  ImportedEvent import_;
};

class LeasedEvent final : public WordsEvent {
 public:
  LeasedEvent(const Record& record, std::uint64_t lease, const Ref<WordsFile>& file, Word* cell)
      : WordsEvent(file, cell),
        record_(record),
        lease_(std::make_shared<EventLease>(record.process(), lease, file, cell)) {}

  /// As good in a third process as the owner's.
  std::array<std::uint8_t, 64> handle() override { return event_bytes(record_); }

 private:
  /// The lease outlives the event as long as a record of this process is not done: only who has one
  /// is watched.
  void keep_until_done(const cuda::Stream& stream) override {
    auto* kept = new std::shared_ptr<EventLease>(lease_);
    const auto nothing = [](void*) {};
    const auto let_go = [](void* lease) {
      delete static_cast<std::shared_ptr<EventLease>*>(lease);
    };
    // If that fails, the device is in a fault, and what it drops may still look at the word: the
    // lease stays for good.
    (void)cuda::active_driver().host_function(stream.handle(), nothing, let_go, kept);
  }

  const Record record_;
  const std::shared_ptr<EventLease> lease_;
};

std::unique_ptr<cuda::detail::SharedEvent> open_own(Service& service, const Record& record) {
  const std::uint64_t lease = Service::new_lease();
  Exports::Granted granted;
  Ref<WordsFile> file;
  {
    Exports::Gone none;
    const MutexLock lock(service.mutex);
    granted = service.exports.lease(record, service.self(), lease, none);
    file = service.words.file();
  }
  if (granted.answer != Answer::granted)
    throw Error("cannot open the event: this process has none by the handle any more");
  return std::make_unique<LeasedEvent>(record, lease, file, granted.ready.cell.word);
}

std::unique_ptr<cuda::detail::SharedEvent> open_shared(const Record& record) {
  if (record.machine != this_machine())
    throw Error(
        "cannot receive: the event's handle is of another machine, or of processes that "
        "this one cannot see");
  Service& service = Service::get();
  const Process owner = record.process();
  if (owner == service.self()) return open_own(service, record);
  {
    const MutexLock lock(service.mutex);
    service.start(false);
  }
  User user(service, owner);
  NewLease lease(service, owner);
  Request request;
  request.start = service.self().start;
  request.lease = lease.number();
  request.record = record;
  request.words = known_words(service, owner);
  std::vector<File> files;
  const Reply reply = service.ask(owner, request, files);
  lease.granted();
  Ref<WordsFile> file =
      words_of(service, owner, reply, files.empty() ? File() : std::move(files[0]));
  Word* const cell = file->cell(reply.word);
  if (cell == nullptr)
    throw Error("cannot receive: the event's owner named a word that it does not have");
  auto event = std::make_unique<LeasedEvent>(record, lease.number(), file, cell);
  lease.keep();
  user.keep();
  return event;
}

}  // namespace
}  // namespace ember::inline v0::ipc

namespace ember::inline v0::cuda {

std::unique_ptr<detail::SharedEvent> detail::make_shared_event() {
  ipc::Service& service = ipc::Service::get();
  ipc::WordPool::Cell cell;
  Ref<ipc::WordsFile> file;
  const MutexLock lock(service.mutex);
  check(service.words.take(cell));
  file = service.words.file();
  // As far as the cell's last use had come: to whoever may still look there, that is done.
  cell.word[ipc::kRecordedWord].store(cell.word->load());
  for (std::size_t i = 0; i < ipc::kRecorders; ++i) cell.word[ipc::kFirstRecorder + i].store(0);
  return std::make_unique<ipc::OwnEvent>(std::move(file), cell, ipc::Service::generation());
}

std::array<std::uint8_t, 64> Event::ipc_handle() {
  if (!options_.interprocess)
    throw AcceleratorError(
        Status(Code::invalid_handle, "ipc_handle: the event was not made with interprocess=True"));
  if (!created_) create(current_device());
  if (shared_) return shared_->handle();
  driver::IpcHandle native;
  if (opened_by_)
    native = *opened_by_;
  else
    check(active_driver().ipc_export_event(handle_, native));
  std::array<std::uint8_t, 64> bytes;
  std::memcpy(bytes.data(), native.bytes, bytes.size());
  return bytes;
}

Event Event::from_ipc_handle(Device device, std::span<const std::uint8_t> handle) {
  if (handle.size() != 64)
    throw Error("cudaIpcEventHandle_t expects byte-like object of size 64, but got " +
                std::to_string(handle.size()));
  if (!device.is_cuda())
    throw Error("from_ipc_handle: expected a CUDA device, got " + device.str());
  const int index = DeviceArg(device).existing();
  driver::Driver& driver = active_driver();
  Event event(false, false, true);
  driver::IpcHandle native;
  std::memcpy(native.bytes, handle.data(), handle.size());
  Status status = driver.ipc_open_event(index, native, event.handle_);
  if (status.code() == Code::not_supported) {
    ipc::Record record;
    ipc::require(ipc::parse_event(handle, record));
    event.shared_ = ipc::open_shared(record);
    status = driver.event_create(index, event.options_, event.handle_);
  }
  check(status);
  if (!event.shared_) event.opened_by_ = std::make_unique<driver::IpcHandle>(native);
  event.created_ = event.recorded_ = true;
  return event;
}

}  // namespace ember::inline v0::cuda
