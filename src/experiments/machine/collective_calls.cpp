#include "experiments/machine/collective_calls.hpp"

namespace shardstream::experiments::machine {

void CommunicatorCalls::enqueue(device::Stream& stream, const Message& message,
                                const Buffers& buffers, unsigned calls) {
  constexpr auto type = comm::SumType::f32;
  const auto [send, receive] = buffers;
  for (unsigned i = 0; i < calls; ++i) {
    switch (message.collective) {
      case Collective::all_reduce:
        communicator_.all_reduce(stream, send, receive, message.count, type);
        break;
      case Collective::reduce_scatter:
        communicator_.reduce_scatter(stream, send, receive, message.part(), type);
        break;
      case Collective::all_gather:
        communicator_.all_gather(stream, send, receive, message.part() * sizeof(float));
        break;
      case Collective::broadcast:
        communicator_.broadcast(stream, buffers.of_broadcast(communicator_.rank()), message.bytes(),
                                0);
        break;
    }
  }
}

}  // namespace shardstream::experiments::machine
