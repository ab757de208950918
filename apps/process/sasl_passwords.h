#pragma once

#include <string>

#include "storage/external/key_value_server.h"

namespace embers {

// Writes the files that a memcached with SASL reads (`memcached -S` with SASL_CONF_PATH=folder): its
// configuration, and a database with this one user. kInvalid if the SASL library cannot do it.
void write_sasl_passwords(const std::string& folder, const storage::ServerLogin& login);

}  // namespace embers
