#include "ember/driver/sim/record_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "ember/base/bytes.h"

namespace ember::inline v0::driver::sim {
namespace {

// What the bytes mean on which there are locks.
constexpr off_t kFileLock = 0;
constexpr off_t kFirstSlot = 1;

std::atomic<std::int64_t> lock_patience{10'000};  // milliseconds

struct flock lock_of(off_t first, off_t count, int type) noexcept {
  struct flock lock {};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = count;
  return lock;
}

/// Whether another process holds a lock there, and which.
bool held_by_other(int file, off_t first, off_t count, pid_t* who = nullptr) noexcept {
  struct flock lock = lock_of(first, count, F_WRLCK);
  if (fcntl(file, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return false;
  if (who != nullptr) *who = lock.l_pid;
  return true;
}

std::string text_of(const SimulatedSpec& spec) {
  return std::to_string(spec.count) + (spec.count == 1 ? " device of " : " devices of ") +
         format_bytes(spec.memory_bytes) + " (" + std::to_string(spec.memory_bytes) + " bytes)";
}

}  // namespace

void RecordFile::swap(RecordFile& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(header_, other.header_);
  std::swap(view_, other.view_);
  std::swap(data_, other.data_);
  std::swap(own_, other.own_);
}

RecordFile::~RecordFile() {
  if (data_ != nullptr) (void)munmap(data_, header_.size);
}

Status RecordFile::failed(const char* call) const {
  return Status(Code::not_permitted, "the record of a simulated machine " + path_ + ": " + call +
                                         " failed: " + std::strerror(errno));
}

Status RecordFile::refused(const std::string& why) const {
  return Status(Code::not_permitted, path_ + " is no record of a simulated machine: " + why);
}

SimulatedSpec RecordFile::spec() const noexcept {
  SimulatedSpec spec;
  spec.count = static_cast<int>(header_.devices);
  spec.memory_bytes = header_.bytes;
  return spec;
}

Status RecordFile::open(int flags) noexcept {
  // Whatever lies there: not to be followed, and not to be waited for.
  file_ = File(::open(path_.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!file_) {
    if (errno == ENOENT) return Code::not_ready;
    return failed("open");
  }
  struct stat about {};
  if (fstat(file_.get(), &about) != 0) return failed("fstat");
  if (!S_ISREG(about.st_mode)) return refused("it is no ordinary file");
  if (about.st_uid == geteuid() && (about.st_mode & 077) == 0 && about.st_nlink <= 1) return {};
  char text[128];
  std::snprintf(text, sizeof text,
                "it belongs to user %u with mode %04o and has %u names, expected user %u's own, "
                "closed to others (0600), with one",
                static_cast<unsigned>(about.st_uid), static_cast<unsigned>(about.st_mode) & 07777U,
                static_cast<unsigned>(about.st_nlink), static_cast<unsigned>(geteuid()));
  return refused(text);
}

bool RecordFile::try_lock(std::int64_t byte) noexcept {
  struct flock lock = lock_of(byte, 1, F_WRLCK);
  while (fcntl(file_.get(), F_SETLK, &lock) != 0)
    if (errno != EINTR) return false;
  return true;
}

// Never by F_SETLKW: a process that holds the lock may have been stopped.
Status RecordFile::lock() noexcept {
  using Clock = std::chrono::steady_clock;
  const std::int64_t most = lock_patience.load(std::memory_order_relaxed);
  const auto until = Clock::now() + std::chrono::milliseconds(most);
  auto pause = std::chrono::microseconds(10);
  while (!try_lock(kFileLock)) {
    if (errno != EAGAIN && errno != EACCES) return failed("a lock");
    if (Clock::now() > until) {
      pid_t who = 0;
      (void)held_by_other(file_.get(), kFileLock, 1, &who);
      return Status(Code::not_permitted, "the record of a simulated machine " + path_ +
                                             ": process " + std::to_string(who) +
                                             " has held its lock for " + std::to_string(most) +
                                             " ms");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(500));
  }
  return {};
}

void RecordFile::set_patience(std::chrono::milliseconds most) noexcept {
  lock_patience = most.count();
}

void RecordFile::unlock() noexcept {
  struct flock lock = lock_of(kFileLock, 1, F_UNLCK);
  (void)fcntl(file_.get(), F_SETLK, &lock);
}

bool RecordFile::lives(std::uint32_t slot) const noexcept {
  return slot == own_ || held_by_other(file_.get(), kFirstSlot + slot, 1);
}

bool RecordFile::anybody_lives() const noexcept {
  return held_by_other(file_.get(), kFirstSlot, RecordShape::kSlots);
}

bool RecordFile::still_there() const noexcept {
  struct stat opened {};
  struct stat named {};
  return fstat(file_.get(), &opened) == 0 && lstat(path_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

Status RecordFile::read_header(RecordHeader& out, std::uint64_t& size) const {
  struct stat about {};
  if (fstat(file_.get(), &about) != 0) return failed("fstat");
  size = static_cast<std::uint64_t>(about.st_size);
  std::array<std::byte, sizeof(RecordHeader)> beginning{};
  const ssize_t count = pread(file_.get(), beginning.data(), beginning.size(), 0);
  if (count < 0) return failed("read");
  Status status =
      check_record(std::span(beginning).first(static_cast<std::size_t>(count)), size, out);
  if (!status.ok()) return refused(status.detail() + "; remove it if nothing uses it");
  return {};
}

Status RecordFile::make(const SimulatedSpec& spec) {
  const RecordHeader header = make_header(spec);
  const RecordShape shape{.devices = header.devices};
  if (ftruncate(file_.get(), static_cast<off_t>(header.size)) != 0) return failed("ftruncate");
  // An access to what has no memory would end the process where there is no more.
  if (fallocate(file_.get(), 0, 0, static_cast<off_t>(shape.fixed_size())) != 0)
    return failed("fallocate");
  // Last: until then it is a file that begins with zeros, which the next one makes anew.
  if (pwrite(file_.get(), &header, sizeof header, 0) != sizeof header) return failed("write");
  header_ = header;
  return {};
}

Status RecordFile::map(int protection) {
  void* place = mmap(nullptr, header_.size, protection, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
  if (place == MAP_FAILED) return failed("mmap");
  data_ = place;
  view_ = RecordView(static_cast<std::byte*>(place), header_.devices);
  return {};
}

Status RecordFile::open_locked(const std::string& path, const SimulatedSpec& spec,
                               RecordFile& out) {
  // Each round but the last one finds a file that somebody has taken away meanwhile.
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    RecordFile made;
    made.path_ = path;
    EMBER_TRY(made.open(O_RDWR | O_CREAT));
    EMBER_TRY(made.lock());
    if (!made.still_there()) continue;
    const bool inhabited = made.anybody_lives();
    RecordHeader header{};
    std::uint64_t size = 0;
    std::uint64_t magic = 0;
    if (Status status = made.read_header(header, size); status.ok()) {
      magic = header.magic;
    } else if (inhabited || (pread(made.file_.get(), &magic, sizeof magic, 0) > 0 && magic != 0)) {
      return status;
    }
    if (!inhabited) {
      if (size != 0) {  // also what a process was killed in the middle of making
        (void)unlink(path.c_str());
        continue;
      }
      EMBER_TRY(made.make(spec));
    } else {
      made.header_ = header;
      if (header.devices != static_cast<unsigned>(spec.count) || header.bytes != spec.memory_bytes)
        return Status(Code::invalid_value, "it has " + text_of(made.spec()) +
                                               ", but this process asks for " + text_of(spec) +
                                               "; EMBER_DEVICES has to be the same for all "
                                               "processes of a machine");
    }
    EMBER_TRY(made.map(PROT_READ | PROT_WRITE));
    out = std::move(made);
    return {};
  }
  return Status(Code::not_permitted, path + " is taken away again and again");
}

Status RecordFile::open_to_look(const std::string& path, RecordFile& out) {
  RecordFile made;
  made.path_ = path;
  EMBER_TRY(made.open(O_RDONLY));
  if (!made.anybody_lives()) return Code::not_ready;
  std::uint64_t size = 0;
  EMBER_TRY(made.read_header(made.header_, size));
  EMBER_TRY(made.map(PROT_READ));
  out = std::move(made);
  return {};
}

void RecordFile::remove_if_empty(const std::string& path) noexcept {
  RecordFile found;
  found.path_ = path;
  if (!found.open(O_RDWR).ok() || !found.try_lock(kFileLock)) return;
  if (found.still_there() && !found.anybody_lives()) (void)unlink(path.c_str());
}

Status RecordFile::attach() noexcept {
  const RecordShape& shape = view_.shape();
  for (std::uint32_t slot = 0; slot < RecordShape::kSlots; ++slot) {
    if (!try_lock(kFirstSlot + slot)) continue;
    if (fallocate(file_.get(), 0, static_cast<off_t>(shape.meters_at(slot)),
                  static_cast<off_t>(shape.meters_size())) != 0)
      return failed("fallocate");
    for (int device = 0; device < static_cast<int>(shape.devices); ++device) {
      view_.bytes(device, slot) = 0;
      std::memset(static_cast<void*>(&view_.meters(device, slot)), 0, sizeof(RecordMeters));
    }
    view_.slot(slot).leaving = 0;
    view_.slot(slot).process = static_cast<std::uint32_t>(getpid());
    own_ = slot;
    return {};
  }
  return Status(Code::not_permitted,
                "it is full: " + std::to_string(RecordShape::kSlots) + " processes live on it");
}

void RecordFile::remove_unless_needed() noexcept {
  if (own_ != kNoSlot) view_.slot(own_).leaving = 1;
  for (std::uint32_t slot = 0; slot < RecordShape::kSlots; ++slot)
    if (slot != own_ && view_.slot(slot).process != 0 && view_.slot(slot).leaving == 0 &&
        lives(slot))
      return;
  if (still_there()) (void)unlink(path_.c_str());
}

void RecordFile::abandon() noexcept {
  file_ = File();
  own_ = kNoSlot;
}

std::uint64_t RecordFile::used(int device, bool of_living) const noexcept {
  constexpr std::uint64_t kMostOfProcess = std::uint64_t{1}
                                           << 50;  // of a process; sums do not wrap
  std::uint64_t sum = 0;
  for (std::uint32_t slot = 0; slot < RecordShape::kSlots; ++slot) {
    const std::uint64_t bytes = view_.bytes(device, slot).load(std::memory_order_relaxed);
    if (bytes != 0 && (!of_living || lives(slot))) sum += std::min(bytes, kMostOfProcess);
  }
  return sum;
}

std::vector<GpuProcess> RecordFile::processes(int device) const {
  std::vector<GpuProcess> found;
  for (std::uint32_t slot = 0; slot < RecordShape::kSlots; ++slot) {
    const std::uint64_t bytes = view_.bytes(device, slot).load(std::memory_order_relaxed);
    if (bytes != 0 && lives(slot)) found.push_back({view_.slot(slot).process.load(), bytes});
  }
  std::sort(found.begin(), found.end(),
            [](const GpuProcess& a, const GpuProcess& b) { return a.pid < b.pid; });
  return found;
}

double RecordFile::share(int device, MeterRecord RecordMeters::*meter) const noexcept {
  std::array<const MeterRecord*, RecordShape::kSlots> records{};
  std::size_t count = 0;
  for (std::uint32_t slot = 0; slot < RecordShape::kSlots; ++slot)
    // The meters of a slot that was never used have no memory.
    if (view_.slot(slot).process != 0 && lives(slot))
      records[count++] = &(view_.meters(device, slot).*meter);
  return share_of({records.data(), count}, std::chrono::steady_clock::now());
}

}  // namespace ember::inline v0::driver::sim
