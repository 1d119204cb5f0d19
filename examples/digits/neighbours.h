// The nearest neighbours of images, on all devices at once: two streams each.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "csv.h"
#include "ember/ember.h"
#include "examples/support/intervals.h"

namespace digits {

/// What happened on one device.
struct DeviceLog {
  std::uint64_t bytes = 0;                      ///< copied to the device, and from it
  std::vector<example::Interval> copies;        ///< of queries to the device, in milliseconds
  std::vector<example::Interval> computations;  ///< distances and the nearest
};

/// Finds the training images nearest to queries. The training images lie on every device; each
/// batch of queries is scattered over the devices, which copy on one stream and compute on another,
/// so that the next batch is copied while the present one is computed:
///
///     host             fill 1 | fill 2 | fill 3    vote 1, fill 4     vote 2, fill 5  ...
///     copy stream               in 1 | in 2 | in 3     out 1 | in 4      out 2 | in 5 ...
///     compute stream                   distances, top k 1 | distances, top k 2 | ...
///
/// Events order the two streams. At most kInFlight batches are under way: one that is voted on and
/// filled again, one that is copied, one that is computed.
class Neighbours {
 public:
  static constexpr std::size_t kInFlight = 3;

  /// Broadcasts `train` (rows x 64, uint8, on the CPU) to devices 0 to `devices` - 1. Then blocks
  /// until a few empty batches are done, so that all memory and code is where it will be needed.
  Neighbours(const ember::Tensor& train, int devices, std::int64_t k, std::int64_t batch_rows);
  /// Waits for what is under way.
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  /// Where the next batch of queries is to be put: `rows` x 64, uint8, in pinned memory. Only while
  /// less than kInFlight batches are under way.
  ember::Tensor next_batch(std::int64_t rows);
  /// Enqueues the batch; blocks on nothing.
  void submit();
  /// The rows of the `k` training images nearest to each query of the oldest batch, nearest first
  /// (int64, on the CPU). Of equal distances the lower row comes first. Blocks until they are
  /// there.
  ember::Tensor collect();
  std::size_t in_flight() const noexcept { return in_flight_; }

  const std::vector<DeviceLog>& logs() const noexcept { return logs_; }

 private:
  void warm_up(std::int64_t batch_rows);

  /// One device's part of a batch.
  struct Part {
    ember::Tensor nearest;
    ember::cuda::Event copy_begin{true}, copied{true}, compute_begin{true}, computed{true};
  };
  struct Batch {
    ember::Tensor staging;  ///< pinned
    ember::Tensor images;   ///< the rows of it that are used
    std::vector<Part> parts;
  };

  ember::Tensor nearest(const ember::Tensor& images, std::size_t device) const;

  const std::int64_t k_;
  std::vector<int> devices_;
  std::vector<ember::cuda::Stream> copy_streams_, compute_streams_;
  std::vector<ember::Tensor> train_;    // of each device: rows x 64, float32
  std::vector<ember::Tensor> squares_;  // |t|^2 of each training image
  std::vector<ember::cuda::Event> start_;
  std::array<Batch, kInFlight> batches_;
  std::size_t oldest_ = 0, in_flight_ = 0;
  std::vector<DeviceLog> logs_;
};

}  // namespace digits
