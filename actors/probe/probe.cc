#include "actors/probe/probe.h"

#include <unistd.h>

#include "actors/errors.h"
#include "base/host.h"
#include "schema/messages/codec.h"

namespace embers {
namespace {

using std::chrono::steady_clock;

int64_t nanoseconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Message<wire::ProbeReply> answer(wire::ProbeRequest::Reader request) {
  if (request.getWanted() > kMostProbed)
    fail(ErrorCode::kInvalid, "an answer of {} bytes was asked for; {} are the most", request.getWanted(),
         kMostProbed);
  return make_message<wire::ProbeReply>([&](wire::ProbeReply::Builder b) {
    b.initPayload(request.getWanted());
    b.setClock(nanoseconds_since_1970());
  });
}

Message<wire::AboutReply> describe(const About& about) {
  return make_message<wire::AboutReply>([&](wire::AboutReply::Builder b) {
    b.setName(about.name);
    b.setHost(host_name());
    b.setPid(static_cast<uint64_t>(::getpid()));
    b.setBootId(boot_id());
    b.setVersion(EMBERS_VERSION);
    write_texts(b.initSettings(about.settings.size()), about.settings);
    write_texts(b.initNumeric(about.numeric.size()), about.numeric);
    const auto owners = about.owners ? about.owners() : std::vector<About::Place>();
    auto list = b.initOwners(owners.size());
    for (unsigned i = 0; i < owners.size(); ++i) {
      list[i].setName(owners[i].name);
      auto owner = list[i].initOwner();
      write_texts(owner.initEndpoints(owners[i].endpoints.size()), owners[i].endpoints);
      owner.setBootId(owners[i].boot_id);
    }
  });
}

Message<wire::CallReply> call_reply(const std::string& error, steady_clock::time_point begin) {
  return make_message<wire::CallReply>([&](wire::CallReply::Builder b) {
    b.setError(error);
    b.setSeconds(std::chrono::duration<double>(steady_clock::now() - begin).count());
  });
}

ProbeActor::behavior_type probe(ProbeActor::pointer self, Transport* transport, About about,
                                HelloInfo hello) {
  return {
      [](const Message<wire::ProbeRequest>& m) {
        return guarded(Kind::kProbeRequest, [&] { return answer(m.get()); });
      },
      [about = std::move(about)](const Message<wire::AboutRequest>&) {
        return guarded(Kind::kAboutRequest, [&] { return describe(about); });
      },
      [=](const Message<wire::CallRequest>& m) -> caf::result<Message<wire::CallReply>> {
        auto promise = self->make_response_promise<Message<wire::CallReply>>();
        guarded(
            Kind::kCallRequest,
            [&] {
              std::vector<Endpoint> endpoints;
              for (const std::string& text : read_texts(m.get().getEndpoints()))
                endpoints.push_back(parse_endpoint(text));
              if (endpoints.empty()) fail(ErrorCode::kInvalid, "no address was given");
              const auto link = Link::open(*transport, endpoints, hello, kCallTimeout);
              const auto begin = steady_clock::now();
              self->request(link->proxy<ProbeInterface>(Destination::kProbe), 2 * kCallTimeout,
                            make_message<wire::ProbeRequest>())
                  .then(
                      [=](const Message<wire::ProbeReply>&) mutable {
                        promise.deliver(call_reply("", begin));
                        link->finish();
                      },
                      [=](caf::error& e) mutable {
                        promise.deliver(call_reply(from_caf(e).what(), begin));
                        link->finish();
                      });
            },
            [&](const Error& e) { promise.deliver(to_caf(e)); });
        return promise;
      },
  };
}

}  // namespace

ProbeActor spawn_probe(Transport& transport, About about, const HelloInfo& hello) {
  return transport.system().spawn(probe, &transport, std::move(about), hello);
}

}  // namespace embers
