#include "pipeline.h"

#include <algorithm>
#include <array>
#include <span>
#include <thread>

#include "crc32.h"

namespace overlap {

namespace cuda = ember::cuda;

std::optional<Work::Chunk> Work::take() {
  const std::uint64_t total = input_.total_bytes();
  const std::uint64_t offset = cancelled_ ? total : next_.fetch_add(chunk_bytes_);
  if (offset >= total) return std::nullopt;
  const std::uint64_t bytes = std::min<std::uint64_t>(chunk_bytes_, total - offset);
  return Chunk{offset, static_cast<std::uint32_t>(bytes)};
}

Pipeline::Slot::Slot(std::uint32_t chunk_bytes, const cuda::Stream& copy_stream,
                     const cuda::Stream& compute_stream)
    : staging(cuda::allocate_pinned(chunk_bytes)),
      returned(cuda::allocate_pinned(sizeof(ChunkResult))),
      data(cuda::allocate(chunk_bytes, copy_stream)),
      result(cuda::allocate(sizeof(ChunkResult), compute_stream)) {
  // Allocated on one stream and used on another: once freed, it must not be used again before the
  // work of both is done.
  cuda::record_stream(data, compute_stream);
}

Pipeline::Pipeline(int device, int readers, Work& work)
    : device_(device), work_(work), copy_stream_(device), compute_stream_(device) {
  slots_.reserve(static_cast<std::size_t>(readers * kSlotsPerReader));
  for (int i = 0; i < readers * kSlotsPerReader; ++i)
    slots_.emplace_back(work.chunk_bytes(), copy_stream_, compute_stream_);
  start_.record(copy_stream_);
}

Pipeline::~Pipeline() {
  try {
    copy_stream_.synchronize();
    compute_stream_.synchronize();
  } catch (const ember::Error&) {
    // The device has failed, and run() has said so.
  }
}

void Pipeline::run(int reader) {
  const auto first = static_cast<std::size_t>(reader * kSlotsPerReader);
  const auto mine = std::span(slots_).subspan(first, kSlotsPerReader);
  std::size_t turn = 0;
  while (const auto chunk = work_.take()) {
    Slot& slot = mine[turn++ % mine.size()];
    collect(slot);
    cuda::host_writes(slot.staging.data(), chunk->bytes);
    work_.input().read(chunk->offset, chunk->bytes, slot.staging.as<std::uint8_t>());
    slot.chunk = chunk;
    submit(slot);
  }
  for (std::size_t i = 0; i < mine.size(); ++i) collect(mine[turn++ % mine.size()]);
}

/// Enqueues a chunk's way through the device, and does not wait for any of it.
void Pipeline::submit(Slot& slot) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t bytes = slot.chunk->bytes;

  slot.copy_begin.record(copy_stream_);
  cuda::copy_async(slot.data.data(), slot.staging.data(), bytes, copy_stream_);
  slot.copied.record(copy_stream_);

  slot.copied.wait(compute_stream_);
  slot.compute_begin.record(compute_stream_);
  const ChunkArgs args{slot.data.as<std::uint8_t>(), bytes, slot.result.as<ChunkResult>()};
  cuda::fill_async(slot.result.data(), 0, sizeof(ChunkResult), compute_stream_);
  // What both touch, for the sanitizer (docs/sanitizer.md).
  const std::array touched{cuda::reads(args.data, bytes), cuda::writes(args.result, 1)};
  cuda::launch(compute_stream_, histogram_kernel, cuda::Params(args), touched);
  cuda::launch(compute_stream_, crc_kernel, cuda::Params(args), touched);
  slot.computed.record(compute_stream_);

  cuda::copy_async(slot.returned.data(), slot.result.data(), sizeof(ChunkResult), compute_stream_);
  slot.done.record(compute_stream_);
}

/// Waits for the chunk that is under way in a slot, if any, and merges its result.
void Pipeline::collect(Slot& slot) {
  if (!slot.chunk) return;
  slot.done.synchronize();
  // Where devices are simulated, their next work needs this processor more than the next read does.
  std::this_thread::yield();
  const auto& result = *slot.returned.as<const ChunkResult>();
  cuda::host_reads(&result, sizeof result);
  const std::uint64_t end = slot.chunk->offset + slot.chunk->bytes;
  const std::uint32_t crc = crc_shift(result.crc, work_.input().total_bytes() - end);
  const Interval copy{start_.elapsed_time(slot.copy_begin), start_.elapsed_time(slot.copied)};
  const Interval computation{start_.elapsed_time(slot.compute_begin),
                             start_.elapsed_time(slot.computed)};

  const std::lock_guard lock(mutex_);
  for (std::size_t value = 0; value < 256; ++value)
    digest_.histogram[value] += result.histogram[value];
  digest_.crc ^= crc;
  bytes_ += slot.chunk->bytes;
  copies_.push_back(copy);
  computations_.push_back(computation);
  work_.finish(*slot.chunk);
  slot.chunk.reset();
}

}  // namespace overlap
