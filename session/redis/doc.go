// Package redis lets clients follow sessions across machines. A [Tail] wraps any store and publishes through Redis
// Streams what is written to it, including partial events, to all followers on all machines. The package uses
// github.com/redis/go-redis. It runs no agents and stores nothing: sessions exist only in the wrapped store, and Redis
// can be emptied at any time.
//
// # The streams
//
// Each session has one stream with the name arbor:{APP/USER/ID}. The parts are escaped as in paths. The ids in the
// stream are those that followers receive. An entry SEQ-0 says that
// the log has reached the position SEQ, and followers then read the events from the store. An entry SEQ-N contains a
// partial event as JSON in the field e. Other entries SEQ-N say that a lease was acquired or released; followers do
// not receive them. The writer sets all ids, so a publication that is repeated or comes too late has no effect. The
// field t of each entry contains the token of the writer's lease. Followers use it to ignore entries of a writer
// after another process has acquired the lease.
//
// When a turn ends, the entries of all turns before the last two are removed, and the stream expires after the time
// of [WithLinger]. Without activity it expires after an hour. A stream has about 20,000 entries at most.
//
// # What is lost when
//
// Stored events are never lost or doubled, and always arrive in the order of the log, whatever happens to Redis.
// Partial events are lost while Redis cannot be reached or is too slow; followers then receive only complete events.
// A turn never waits for Redis: a goroutine publishes a bounded queue in pipelines.
//
// If a follower cannot reach Redis, it reads the store at an interval, and yields a partial event of type notice with
// the code tail_degraded. When Redis is available again, a notice with the code tail_restored follows. Neither is in
// the log. Each has the id of the entry before it.
//
// An interrupted turn leaves blocks that were shown in part and will never be complete. A partial discard event makes
// them void. The process publishes it when it releases the lease; otherwise the next process that acquires the lease
// does.
//
// The streams belong to the store. If its database is restored to an earlier state, the next turn of a session
// removes a stream that has more than the log. Followers that received events which no longer exist end with an
// error. The order of leases follows the store's clock. If the clock too was set back, by more than the time since
// the backup, partial events are lost until the clock has caught up. A store in memory counts from the start again
// after each start of the process: give its tail another prefix, or remove the streams. Stored events arrive in any
// case.
//
// Partial events contain what models said. Everyone who can read the Redis server can read them until the streams
// expire.
package redis
