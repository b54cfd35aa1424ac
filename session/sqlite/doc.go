// Package sqlite stores sessions in one SQLite file, through the pure Go driver modernc.org/sqlite. Any number of
// goroutines, of [Store] values and of processes of one host may use the file at the same time. It runs no agents.
//
// # What survives
//
// When Write with events, Fork or Delete has returned nil, the change survives the death of the process. As far as
// the system's fsync is reliable, it also survives a crash of the system and a loss of power: the file is in WAL mode
// with synchronous=FULL, so each such commit waits for one fsync of the write-ahead log, and Open checks both
// settings. Writes that arrive during another write are committed together, so a thousand sessions do not wait for a
// thousand fsyncs. On macOS, fsync does not reach past the cache of the drive. A write that a crash interrupted is
// stored whole or not at all.
//
// If Write returns an error of the disk, its events are not in the log that this and other processes read. A crash
// before the next commit may bring them back, so load the session again before you continue. This does not apply to
// [agent.ErrConflict] and the context's errors.
//
// Writes without events, such as leases, use synchronous=NORMAL: they have no fsync of their own, unless they are
// committed together with events. The write-ahead log is one sequence. A crash of the system can only remove its end,
// and the fsync of an append covers everything before it. If such a crash loses a lease, nothing that was stored
// under it survived either. The next lease has another random number, as after the file was restored from a copy. A
// crash of the process alone loses nothing.
//
// Snapshots without events are written in the same way. A lost snapshot only costs time, because it is computed from
// the log.
//
// # Forks
//
// A fork is a row that names the session whose own log contains the last shared event, and the position of that
// event. No event is copied: a load reads the segments one after the other, each from the session that has it. If a
// session with forks is deleted, its row stays without its key, and so do the events that the forks share. Both are
// deleted with the last of these forks.
//
// # Files of other versions
//
// Open creates the tables of a new file in one transaction. It refuses a file with an older or a newer schema, and
// leaves it unchanged: export its sessions with the version that wrote it, and import them into a new file.
//
// # Restrictions
//
// The file must be on a local disk, because WAL does not work over network file systems. A process that uses the
// store must not open the database file by other means, such as os.Open: closing the file would drop the POSIX locks
// that SQLite has on it. To copy the file, use the command .backup of the sqlite3 program, or another process.
//
// New files have the permissions 0600, because sessions contain what people said.
package sqlite
