// The one file that knows libsasl2. (libmemcached, which logs in by it, brings it along.)
#include "apps/process/sasl_passwords.h"

#include <sasl/sasl.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "base/errors.h"
#include "base/mutex.h"

namespace embers {
namespace {

// Proves the password without sending it.
constexpr char kMechanism[] = "SCRAM-SHA-256";
constexpr char kPlugin[] = "sasldb";

// An option of the library, as it asks for it. `context` is the path of the database.
int option(void* context, const char*, const char* name, const char** value, unsigned* size) {
  const std::string_view asked = name;
  if (asked == "sasldb_path")
    *value = static_cast<const char*>(context);
  else if (asked == "auxprop_plugin")
    *value = kPlugin;
  else
    return SASL_FAIL;
  if (size != nullptr) *size = static_cast<unsigned>(std::strlen(*value));
  return SASL_OK;
}

// The library's state is the process's.
int write_database(std::string path, const storage::ServerLogin& login) {
  static Mutex one_at_a_time;
  const MutexLock lock(one_at_a_time);
  const sasl_callback_t callbacks[] = {
      {SASL_CB_GETOPT, reinterpret_cast<int (*)()>(reinterpret_cast<void*>(&option)), path.data()},
      {SASL_CB_LIST_END, nullptr, nullptr},
  };
  int result = sasl_server_init(callbacks, "embers");
  if (result != SASL_OK) return result;
  sasl_conn_t* connection = nullptr;
  result = sasl_server_new("embers", "localhost", nullptr, nullptr, nullptr, nullptr, 0, &connection);
  if (result == SASL_OK)
    result = sasl_setpass(connection, login.user.c_str(), login.password.c_str(),
                          static_cast<unsigned>(login.password.size()), nullptr, 0, SASL_SET_CREATE);
  sasl_dispose(&connection);
  sasl_server_done();
  return result;
}

}  // namespace

void write_sasl_passwords(const std::string& folder, const storage::ServerLogin& login) {
  const std::string database = folder + "/passwords";
  if (const int result = write_database(database, login); result != SASL_OK)
    fail(ErrorCode::kInvalid,
         "cannot write '{}', the password of the job's own memcached servers: {}; install the packages "
         "libsasl2-modules and libsasl2-modules-db, or give storage.servers",
         database, sasl_errstring(result, nullptr, nullptr));
  const std::string config_file = folder + "/memcached.conf";
  std::ofstream config(config_file);
  config << "mech_list: " << kMechanism << "\npwcheck_method: auxprop\nauxprop_plugin: " << kPlugin
         << "\nsasldb_path: " << database << "\n";
  if (!config.flush()) fail(ErrorCode::kInvalid, "cannot write '{}'", config_file);
  // By itself, the library lets the group read its database.
  for (const std::string& file : {database, config_file}) ::chmod(file.c_str(), S_IRUSR | S_IWUSR);
}

}  // namespace embers
