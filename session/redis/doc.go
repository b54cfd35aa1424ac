// Package redis lets sessions be followed across machines: a [Tail] is put around any
// store, and shows through Redis Streams what happens in it, partial events included,
// to whoever follows a session on any machine. It uses github.com/redis/go-redis and
// imports session, agent and event. It runs no agents, and it stores nothing: the store below
// is the only place where sessions are kept, and Redis can be emptied at any time.
//
// # The streams
//
// Each session has one stream, named arbor:{APP/USER/ID}, the parts escaped as in
// paths; the braces keep a session on one node of a cluster. The ids in the stream are
// those that followers see: an entry SEQ-0 says that the log has reached the position
// SEQ, and followers read the events from the store; an entry SEQ-N carries a partial
// event as JSON in the field e. Other entries SEQ-N say that a lease was taken or given
// back, and are not shown. All ids are set by the writer, so that a publication that is
// repeated, or comes too late, does nothing. Every entry has in the field t the lease
// of its writer. By it followers leave out what a writer publishes after another has
// taken over its lease.
//
// When a turn ends, what turns before the last two have left is trimmed, and the stream
// expires some time later, see [WithLinger]; without any activity it expires after
// [WithTTL].
//
// # What is lost when
//
// Stored events are never lost, never doubled and always in the order of the log,
// whatever happens to Redis. Partial events are lost while Redis cannot be reached, or
// is too slow; followers then get only the complete events. A turn never waits for
// Redis: publications go through a bounded queue, in pipelines, in the background.
//
// A follower who loses Redis continues to read the store alone, at an interval, and
// gets a partial event of type notice with the code tail_degraded. One with the code
// tail_restored follows when Redis is there again. Both are not in the log, and their
// ids are that of the entry before.
//
// A turn that is cut off leaves blocks that are shown in part and will never be
// complete. They are voided by a partial discard event: by the process itself when it
// gives the lease back, else by the next one that takes the lease.
//
// The streams belong to the store. If its database is restored to an earlier state, the next turn of a session removes
// a stream that has more than the log, and followers who were shown what is gone end with an error. The order of leases
// is that of the store's clock: if that was set back too, by more than the time since the backup, partial events are lost
// until the clock has caught up. A store in memory counts anew after every start: give its tail another prefix, or remove the
// streams. Stored events arrive in any case.
//
// Partial events are what models said: whoever can read the Redis server can read
// them until the streams expire.
package redis
