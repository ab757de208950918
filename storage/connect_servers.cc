#include "schema/errors.h"
#include "storage/key_value_server.h"

namespace embers::storage {

KeyValueServers connect_servers(const std::string& backend, const std::vector<std::string>& addresses,
                                const ServerTimeouts& timeouts) {
  if (backend == "memcached") return connect_memcached(addresses, timeouts);
  if (backend == "redis") return connect_redis(addresses, timeouts);
  fail(ErrorCode::kInvalid, "storage.backend '{}' is not known; known: memory, memcached, redis", backend);
}

}  // namespace embers::storage
