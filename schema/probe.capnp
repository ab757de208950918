@0xee6d51b0c7a9ee84;
# What a process of a job is asked about itself and the network, by `embers doctor`.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("embers::wire");
using M = import "/schema/messages.capnp";
using Control = import "/schema/control.capnp";

struct ProbeRequest $M.kind(90) $M.reply("ProbeReply") $M.servedBy(probe) $M.sentBy([admin, master, owner]) {
  # Say something. How long the answer takes, and how large both are, shows what the network does.
  payload @0 :Data;                  # is not looked at
  wanted @1 :UInt32;                 # bytes of the answer's payload, at most 8 MiB
}

struct ProbeReply $M.kind(91) {
  payload @0 :Data;                  # zeros
  clock @1 :Int64;                   # nanoseconds since 1970, when the answer was made
}

struct AboutRequest $M.kind(92) $M.reply("AboutReply") $M.servedBy(probe) $M.sentBy([admin]) {
  # Who are you?
}

struct AboutReply $M.kind(93) {
  name @0 :Text;                     # "the master", "shard 1"
  host @1 :Text;
  pid @2 :UInt64;
  bootId @3 :Text;                   # tells whether two processes share a host
  version @4 :Text;                  # of embers
  settings @5 :List(Text);           # master: as in JoinRequest
  numeric @6 :List(Text);            # master: numeric settings of its own host, as in JoinRequest
  owners @7 :List(Place);            # master: that have joined
  struct Place {
    name @0 :Text;
    owner @1 :Control.JoinReply.Owner;
  }
}

struct CallRequest $M.kind(94) $M.reply("CallReply") $M.servedBy(probe) $M.sentBy([admin]) {
  # Connect to me, shake hands, and send a ProbeRequest.
  endpoints @0 :List(Text);          # where the sender listens
}

struct CallReply $M.kind(95) {
  error @0 :Text;                    # why that did not work; "": it did
  seconds @1 :Float64;               # that it took
}
