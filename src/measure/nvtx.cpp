#include "measure/nvtx.hpp"

#include <nvtx3/nvToolsExt.h>

namespace shardstream::measure {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("shardstream");
  return handle;
}

}  // namespace

void push_range(const char* name) noexcept {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

void pop_range() noexcept {
  nvtxDomainRangePop(domain());
}

}  // namespace shardstream::measure
