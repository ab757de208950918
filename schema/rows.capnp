@0xc86b232f64ff0c17;
# The data path: worker to owner.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("embers::wire");
using M = import "/schema/messages.capnp";
using Common = import "/schema/common.capnp";

enum ReadMode {
  latest @0;   # whatever the owner has now
  exact @1;    # exactly origin.version: an error if the owner is past it; the pull waits if the owner has not reached it
}

struct PullRequest $M.kind(16) $M.reply("PullReply") $M.servedBy(shard) $M.sentBy([worker, reader]) {
  origin @0 :Common.Origin;
  mode @1 :ReadMode;
  create @2 :Bool;                        # whether unknown keys get rows (training), or only their initial values are read
  tables @3 :List(Common.TableKeys);      # keys that this owner holds, at most one entry per table, without values
  numberType @4 :UInt8;                   # base/floats/numbers.h: what rows of embedding tables are to be sent as
}

struct PullReply $M.kind(17) {
  version @0 :UInt64;                     # version that was read
  tables @1 :List(Rows);                  # one for each table of the request, in its order
  ownStep @2 :UInt64;                     # the last step (Origin) of the sender's pushes that this version has; 0 for none, 2^64 - 1
                                          # if the owner does not know, since its last process has died
  struct Rows {
    table @0 :UInt32;
    dim @1 :UInt32;
    rows @2 :Data;                        # keys x dim numbers, in the order of the request's keys
    numberType @3 :UInt8;                 # the type of the numbers
  }
}

struct PushRequest $M.kind(18) $M.reply("PushReply") $M.servedBy(optimizer) $M.sentBy([worker]) {
  # Gradients of one minibatch that belong to this owner; `tables` is empty when there are none: the owner must still count
  # the minibatch.
  origin @0 :Common.Origin;
  tables @1 :List(Common.TableKeys);      # indexed slices: keys unique in a table, width = dim
}

struct PushReply $M.kind(19) {
  outcome @0 :Outcome;
  version @1 :UInt64;                     # the owner's after this push
  examples @2 :UInt64;                    # records this owner has applied in the job, this push included
  staleness @3 :UInt64;                   # async: applies between the pull and the push
  enum Outcome {
    applied @0;
    staged @1;                            # sync: waits for the commit
    duplicate @2;                         # (epoch, minibatch) was applied before; nothing changed
  }
}
