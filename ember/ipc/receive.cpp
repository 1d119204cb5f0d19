// Memory of other processes, by its handle.
#include <cstring>
#include <utility>

#include "ember/base/error.h"
#include "ember/ipc/devices.h"
#include "ember/ipc/ipc.h"
#include "ember/ipc/leasing.h"
#include "ember/ipc/service.h"
#include "ember/ipc/steps.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::ipc {
namespace {

constexpr std::size_t kHandlesKept = 64;

/// While it lives, other threads that receive the same wait for it.
class Receiving {
 public:
  Receiving(Service& service, const Imports::Key& key) : service_(service), key_(key) {
    const MutexLock lock(service_.mutex);
    service_.start(false);
    while (!service_.imports.begin(key_)) service_.receiving_ended.wait(service_.mutex);
  }
  ~Receiving() {
    const MutexLock lock(service_.mutex);
    service_.imports.end(key_);
    service_.receiving_ended.notify_all();
    service_.wake();
  }
  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;

 private:
  Service& service_;
  const Imports::Key key_;
};

/// Work of the device's current stream waits for the word.
void wait_for(const Ref<WordsFile>& file, driver::Word* word, std::uint64_t value, Device device) {
  driver::Driver& driver = cuda::active_driver();
  check(file->open_with(driver));
  check(driver.word_wait(cuda::current_stream(device).handle(), word, value, file));
}

/// What a handle of this process's own stands for.
Ref<Storage> receive_own(Service& service, const Record& record) {
  Exports::Gone gone;  // goes after the lock
  Exports::Resolved resolved;
  Ref<WordsFile> file;
  {
    const MutexLock lock(service.mutex);
    resolved = service.exports.resolve(record, gone);
    file = service.words.file();
  }
  if (!resolved.storage)
    throw Error(resolved.answer == Answer::received
                    ? "cannot receive: the handle was received as often as it was meant to be, or "
                      "withdrawn"
                : resolved.answer == Answer::reset
                    ? "cannot receive: the device was reset after the memory was sent"
                    : "cannot receive: this process knows no memory by the handle");
  if (resolved.ready.value != 0 && resolved.storage->device().is_cuda() && file)
    wait_for(file, resolved.ready.cell.word, resolved.ready.value, resolved.storage->device());
  return resolved.storage;
}

bool was_received_by(Import& import, const Record& record) {
  const MutexLock lock(import.mutex);
  for (const Record& known : import.handles)
    if (known == record) return true;
  return false;
}

void note_handle(Import& import, const Record& record) {
  const MutexLock lock(import.mutex);
  if (import.handles.size() == kHandlesKept) import.handles.pop_front();
  import.handles.push_back(record);
}

/// Being one of the users of an owner's file of CPU memory, if it is mapped already.
class FileUser {
 public:
  FileUser(Service& service, const Record& record) : service_(service), record_(record) {
    if (record.kind != Kind::host) return;
    const MutexLock lock(service_.mutex);
    auto& files = service_.imports.find_owner(record_.process())->files;
    const auto found = files.find(record_.file);
    if (found == files.end()) return;
    ++found->second.users;
    held_ = true;
  }
  ~FileUser() {
    if (!held_) return;
    Mapping mapping;  // goes after the lock
    const MutexLock lock(service_.mutex);
    auto& files = service_.imports.find_owner(record_.process())->files;
    const auto found = files.find(record_.file);
    if (--found->second.users > 0) return;
    mapping = std::move(found->second.mapping);
    files.erase(found);
  }
  FileUser(const FileUser&) = delete;
  FileUser& operator=(const FileUser&) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  Service& service_;
  const Record record_;
  bool held_ = false;
};

/// Where the file's memory begins in this process.
void* map_host(Service& service, const Record& record, const File& file) {
  const MutexLock lock(service.mutex);
  auto& files = service.imports.find_owner(record.process())->files;
  const auto [found, is_new] = files.try_emplace(record.file);
  Mapping& mapping = found->second.mapping;
  const std::uint64_t end = record.offset + record.bytes;
  Status status;
  if (is_new) status = mapping.map(file, end, true);
  if (status.ok() && end > mapping.bytes())
    status = Status(Code::invalid_value, "the handle reaches beyond its file");
  if (!status.ok()) {
    if (found->second.users == 0) files.erase(found);
    require(status);
  }
  ++found->second.users;
  return mapping.data() + record.offset;
}

void* open_on_device(const Record& record, Device device, const File& file,
                     const MemoryInPieces& pieces) {
  void* data = nullptr;
  if (record.kind == Kind::pieces) {
    if (pieces.pieces.empty())
      throw Error("cannot receive: the memory's owner sent no pieces of it");
    check(cuda::active_driver().ipc_open_pieces(device.index(), pieces.pieces, pieces.before,
                                                record.bytes, data));
    return data;
  }
  driver::IpcHandle native;
  std::memcpy(native.bytes, record.native.data(), sizeof native.bytes);
  check(cuda::active_driver().ipc_open_memory(device.index(), native, file.get(), record.offset,
                                              record.bytes, data));
  return data;
}

Reply ask_for_lease(Service& service, const Record& record, NewLease& lease, bool wants_memory,
                    std::vector<File>& files, MemoryInPieces* pieces = nullptr) {
  Request request;
  request.start = service.self().start;
  request.lease = lease.number();
  request.record = record;
  if (wants_memory) request.wants |= kMemoryFile;
  if (record.kind != Kind::host) request.words = known_words(service, record.process());
  Reply reply = service.ask(record.process(), request, files, pieces);
  lease.granted();
  return reply;
}

/// What the reply says has to be waited for. Later work of the current stream does.
void order_behind_owner(Service& service, Import& import, const Reply& reply, const File& words) {
  if (reply.value == 0 || !import.device.is_cuda()) return;
  const Ref<WordsFile> file = words_of(service, import.owner, reply, words);
  driver::Word* word = file->cell(reply.word);
  if (word == nullptr || reply.value >= driver::kWordLost)
    throw Error("cannot receive: the memory's owner named a word that it does not have");
  {
    const MutexLock lock(service.mutex);
    const MutexLock own(import.mutex);
    for (Import::Awaited& each : import.awaited)
      if (each.word->load(std::memory_order_acquire) >= each.value)
        service.words.retire(std::move(each.file));
    std::erase_if(import.awaited, [](const Import::Awaited& each) { return !each.file; });
    import.awaited.push_back({file, word, reply.value});
    // If the owner has ended already, the thread has looked when this was not there yet.
    service.imports.find_owner(import.owner)->ended = false;
    service.wake();
  }
  wait_for(file, word, reply.value, import.device);
}

}  // namespace

Ref<Storage> receive(std::span<const std::uint8_t> handle) {
  Record record;
  require(parse_record(handle, record));
  if (record.kind == Kind::event) throw Error("cannot receive: the handle is an event's");
  if (record.machine != this_machine())
    throw Error(
        "cannot receive: the handle is of another machine, or of processes that this one "
        "cannot see");
  Service& service = Service::get();
  const Process owner = record.process();
  if (owner == service.self()) return receive_own(service, record);
  const Device device = record.kind == Kind::host ? Device("cpu") : device_of(record);
  const Imports::Key key{owner, record.slot};
  const Receiving receiving(service, key);
  User user(service, owner);
  Ref<Storage> storage;
  {
    const MutexLock lock(service.mutex);
    storage = service.imports.find(key);
  }
  std::vector<File> files;
  NewLease lease(service, owner);
  if (storage) {
    // There already, but the handle may have something to wait for, and is used up by this.
    auto& import = *dynamic_cast<ImportedMemory&>(*storage->foreign()).import();
    if (was_received_by(import, record)) return storage;
    const Reply reply = ask_for_lease(service, record, lease, false, files);
    order_behind_owner(service, import, reply, files.empty() ? File() : std::move(files[0]));
    note_handle(import, record);
    return storage;
  }
  const FileUser file_user(service, record);
  const bool wants_memory = record.kind == Kind::file || record.kind == Kind::pieces ||
                            (record.kind == Kind::host && !file_user);
  MemoryInPieces pieces;
  const Reply reply = ask_for_lease(service, record, lease, wants_memory, files, &pieces);
  File memory;
  File words;
  std::size_t next = 0;
  if ((reply.files & kMemoryFile) != 0) memory = std::move(files[next++]);
  if ((reply.files & kWordsFile) != 0) words = std::move(files[next]);

  auto import = std::make_shared<Import>();
  import->owner = owner;
  import->record = record;
  import->lease = lease.number();
  import->device = device;
  import->data = record.kind == Kind::host ? map_host(service, record, memory)
                                           : open_on_device(record, device, memory, pieces);
  note_handle(*import, record);
  {
    const MutexLock lock(service.mutex);
    service.imports.held.insert(import);
  }
  lease.keep();
  user.keep();
  at(Step::mapped);
  // From here on everything goes back with the storage.
  storage = Storage::adopt_foreign(device, import->data, record.bytes,
                                   std::make_unique<ImportedMemory>(import, Service::generation()));
  if (device.is_cuda()) storage->foreign()->record_stream(cuda::current_stream(device));
  order_behind_owner(service, *import, reply, words);
  {
    const MutexLock lock(service.mutex);
    service.imports.add(key, storage.get(), import);
  }
  at(Step::received);
  return storage;
}

}  // namespace ember::inline v0::ipc
