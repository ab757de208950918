@0xd1578e72a532274a;
# What the master asks of an owner.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("embers::wire");
using M = import "/schema/messages.capnp";
using Common = import "/schema/common.capnp";

struct CommitRequest $M.kind(32) $M.reply("CommitReply") $M.servedBy(optimizer) $M.sentBy([master]) {
  # Sync: add up the staged minibatches in this order and apply them as one step.
  obsolete0 @0 :UInt32;              # was the epoch, which the pushes carry
  version @1 :UInt64;                # the version that the apply makes
  minibatches @2 :List(Part);
  struct Part {
    minibatch @0 :UInt64;
    attempt @1 :UInt32;
    weight @2 :Float64;              # mean: examples / examples of the version; sum: 1
  }
  norms @3 :List(Norm);              # of the version's gradients at all owners; only for those that are clipped by norm
  struct Norm {
    table @0 :UInt32;
    parameter @1 :Text;              # of the dense table: which parameter; else ""
    squared @2 :Float64;
  }
}

struct NormsRequest $M.kind(48) $M.reply("NormsReply") $M.servedBy(optimizer) $M.sentBy([master]) {
  # Sync, before a commit that clips by norm: what are the norms of the sums that it will apply here? Changes nothing.
  commit @0 :CommitRequest;          # without its norms, which are not known yet
}

struct NormsReply $M.kind(49) {
  sums @0 :List(Sum);                # over the rows of this owner
  struct Sum {
    table @0 :UInt32;
    parameter @1 :Text;              # as in CommitRequest.Norm
    words @2 :Data;                  # base/floats/exact_sum.h: 24 x uint64, so that the sum over owners does not round
  }
}

struct CommitReply $M.kind(33) {
  version @0 :UInt64;
  examples @1 :UInt64;               # records this owner has applied in the job
}

struct FenceRequest $M.kind(34) $M.reply("Empty") $M.servedBy(optimizer) $M.sentBy([master]) {
  # From now on nothing is accepted from this incarnation. What it has staged stays, and counts once the master says so.
  incarnation @0 :UInt64;
}

struct MapRequest $M.kind(50) $M.reply("Empty") $M.servedBy(optimizer) $M.sentBy([master]) {
  # From now on only what was routed by this map, or a later one, is accepted.
  mapVersion @0 :UInt32;
}

struct StatsRequest $M.kind(35) $M.reply("StatsReply") $M.servedBy(optimizer) $M.sentBy([master]) {
  epoch @0 :UInt32;                  # whose staleness is asked for; 0: of none
  minibatches @1 :List(UInt64);      # of that epoch: which of these are applied?
}

struct StatsReply $M.kind(36) {
  version @0 :UInt64;
  examples @1 :UInt64;               # records applied in the job
  minibatches @2 :UInt64;            # minibatches applied in the job
  duplicates @3 :UInt64;             # pushes refused because they had been applied before
  staleness @4 :UInt64;              # of the request's epoch: sum over its pushes, see actors/owner/staleness.h
  rows @5 :UInt64;                   # embedding rows; reserved tables not counted
  residentBytes @6 :UInt64;          # rows, slots and index of all tables
  applied @7 :List(Applied);         # of those asked for
  maxStaleness @8 :UInt64;           # of the same epoch: the greatest of any push
  stalenessCounts @9 :List(UInt64);  # of the same epoch: pushes in each bucket
  badGradients @10 :UInt64;          # gradient rows, of minibatches or of a version, left out as infinite or NaN
  struct Applied {
    minibatch @0 :UInt64;
    examples @1 :UInt32;
  }
}

struct RestoreRequest $M.kind(37) $M.reply("Empty") $M.servedBy(shard) $M.sentBy([master]) {
  # Sets rows: the dense parameters' first values, or a checkpoint's rows.
  tables @0 :List(Common.TableKeys); # width dim, or dim plus slots
  onlyAbsent @1 :Bool;               # set-if-absent: rows that exist are left alone (width = dim)
}

struct ResumeRequest $M.kind(38) $M.reply("Empty") $M.servedBy(optimizer) $M.sentBy([master]) {
  # Where the job stands, before the first lease of a (resumed) run.
  epoch @0 :UInt32;
  version @1 :UInt64;
  examples @2 :UInt64;
  minibatches @3 :UInt64;            # applied in the job so far: the optimizer's step
  applied @4 :List(UInt64);          # minibatches of the epoch that have already been applied
}

struct ImportRequest $M.kind(51) $M.reply("Empty") $M.servedBy(shard) $M.sentBy([worker]) {
  # Sets rows of embedding tables that a user's program has from elsewhere, at any time; their slots begin anew. Not a restore: a
  # worker must not set slots, dense parameters or anything else that decides where the job stands.
  mapVersion @0 :UInt32;
  tables @1 :List(Common.TableKeys); # width dim
  # Asked again over another connection, it is still the same one: an owner takes it once.
  incarnation @2 :UInt64;
  number @3 :UInt64;                 # among the imports of this incarnation, from 1
}

struct ScanRequest $M.kind(39) $M.reply("ScanReply") $M.servedBy(shard) $M.sentBy([master, worker, reader]) {
  table @0 :UInt32;
  cursor @1 :UInt64;                 # 0 first, then the reply's next
  limit @2 :UInt32;                  # rows at most; the owner may give fewer
  slots @3 :Bool;                    # values carry the slots too
}

struct ScanReply $M.kind(40) {
  next @0 :UInt64;                   # UINT64_MAX after the last row
  rows @1 :List(Common.TableKeys);   # one entry
}

struct EndRequest $M.kind(41) $M.reply("Empty") $M.servedBy(optimizer) $M.sentBy([master]) {
  # The job is over: exit with status 0, or with 1 and the message.
  ok @0 :Bool;
  message @1 :Text;
}
