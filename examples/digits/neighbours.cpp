#include "neighbours.h"

namespace digits {

namespace cuda = ember::cuda;
namespace comm = ember::cuda::comm;
using ember::Tensor;

namespace {

/// The squared length of each row.
Tensor squared_lengths(const Tensor& rows, bool keepdim) { return (rows * rows).sum(1, keepdim); }

/// `rows` in as many parts as there are devices, as equal as can be.
std::vector<std::int64_t> shares(std::int64_t rows, std::int64_t devices) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < devices; ++i)
    sizes.push_back(rows * (i + 1) / devices - rows * i / devices);
  return sizes;
}

}  // namespace

Neighbours::Neighbours(const Tensor& train, int devices, std::int64_t k, std::int64_t batch_rows)
    : k_(k), logs_(static_cast<std::size_t>(devices)) {
  for (int device = 0; device < devices; ++device) {
    devices_.push_back(device);
    copy_streams_.emplace_back(device);
    compute_streams_.emplace_back(device);
    start_.emplace_back(/*enable_timing=*/true);
  }
  for (Batch& batch : batches_) {
    batch.staging = ember::empty({batch_rows, train.size(1)}, {ember::uint8, "cpu", true});
    batch.parts.resize(devices_.size());
  }
  const cuda::MultiStreamGuard on(compute_streams_);
  for (const Tensor& copy : comm::broadcast(train.pin_memory(), devices_)) {
    const std::size_t d = train_.size();
    train_.push_back(copy.to(ember::float32));
    squares_.push_back(squared_lengths(train_[d], /*keepdim=*/false));
    start_[d].record(compute_streams_[d]);
  }
  warm_up(batch_rows);
  for (DeviceLog& log : logs_) log = {.bytes = train.nbytes(), .copies = {}, .computations = {}};
}

void Neighbours::warm_up(std::int64_t batch_rows) {
  while (in_flight_ < kInFlight) {
    next_batch(batch_rows).zero_();
    submit();
  }
  while (in_flight_ > 0) (void)collect();
}

Neighbours::~Neighbours() {
  try {
    for (const cuda::Stream& stream : copy_streams_) stream.synchronize();
    for (const cuda::Stream& stream : compute_streams_) stream.synchronize();
  } catch (const ember::Error&) {
    // The device has failed, and collect() has said so.
  }
}

Tensor Neighbours::next_batch(std::int64_t rows) {
  Batch& batch = batches_[(oldest_ + in_flight_) % kInFlight];
  batch.images = batch.staging.narrow(0, 0, rows);
  return batch.images;
}

void Neighbours::submit() {
  Batch& batch = batches_[(oldest_ + in_flight_++) % kInFlight];
  for (std::size_t d = 0; d < devices_.size(); ++d)
    batch.parts[d].copy_begin.record(copy_streams_[d]);
  const auto sizes = shares(batch.images.size(0), static_cast<std::int64_t>(devices_.size()));
  const std::vector<Tensor> images =
      comm::scatter(batch.images, devices_, sizes, /*dim=*/0,
                    comm::Streams(copy_streams_.begin(), copy_streams_.end()));
  for (std::size_t d = 0; d < devices_.size(); ++d) batch.parts[d].copied.record(copy_streams_[d]);

  for (std::size_t d = 0; d < devices_.size(); ++d) {
    Part& part = batch.parts[d];
    const cuda::StreamGuard on(compute_streams_[d]);
    part.copied.wait();
    // Made on the one stream, used on the other: not to be used again before both are done.
    images[d].record_stream(compute_streams_[d]);
    part.compute_begin.record();
    part.nearest = nearest(images[d], d);
    part.computed.record();
    logs_[d].bytes += images[d].nbytes();
  }
}

/// |q - t|^2 = |q|^2 - 2 q.t + |t|^2, for all pairs in one product of matrices. All of it are
/// whole numbers that float32 holds exactly, and topk takes the lower of two equal ones first.
Tensor Neighbours::nearest(const Tensor& images, std::size_t device) const {
  const Tensor queries = images.to(ember::float32);
  Tensor distances = ember::matmul(queries, train_[device].t());
  distances.mul_(-2).add_(squared_lengths(queries, /*keepdim=*/true)).add_(squares_[device]);
  return distances.topk(k_, /*dim=*/1, /*largest=*/false).indices;
}

Tensor Neighbours::collect() {
  Batch& batch = batches_[oldest_];
  std::vector<Tensor> parts;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    batch.parts[d].computed.wait(copy_streams_[d]);
    parts.push_back(batch.parts[d].nearest);
    logs_[d].bytes += parts[d].nbytes();
  }
  // On the copy streams, where no later batch is in the way.
  const cuda::MultiStreamGuard on(copy_streams_);
  Tensor found = comm::gather(parts, /*dim=*/0, "cpu");

  for (std::size_t d = 0; d < devices_.size(); ++d) {
    Part& part = batch.parts[d];
    part.computed.synchronize();  // gather did not wait for it if the part is empty
    const auto between = [&](const cuda::Event& begin, const cuda::Event& end) {
      return example::Interval{start_[d].elapsed_time(begin), start_[d].elapsed_time(end)};
    };
    logs_[d].copies.push_back(between(part.copy_begin, part.copied));
    logs_[d].computations.push_back(between(part.compute_begin, part.computed));
    part.nearest = Tensor();
  }
  oldest_ = (oldest_ + 1) % kInFlight;
  --in_flight_;
  return found;
}

}  // namespace digits
