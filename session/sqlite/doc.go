// Package sqlite keeps sessions in one SQLite file, through the pure Go driver
// modernc.org/sqlite. Any number of goroutines, of [Store] values and of
// processes of one host may use the file at the same time. It imports session,
// agent and event, and runs no agents.
//
// # What survives
//
// When Write, Fork or Delete has returned nil, the change survives the death of the
// process and, as far as the system's fsync keeps its word, a crash of the system
// and a loss of power: the file is in WAL mode with synchronous=FULL, so every
// such commit waits for one fsync of the write-ahead log; Open makes sure of both
// settings. Writes that come while another is being made are committed
// together, so that a thousand sessions do not wait for a thousand fsyncs. On
// macOS fsync does not reach past the cache of the drive. An append that was cut
// off by a crash is there whole or not at all. If Write returns an error of the
// disk, as opposed to [agent.ErrConflict] or the context's, its events are not in
// the log that this and other processes see, but a crash before the next commit
// may bring them back; load the session again before going on.
//
// Leases are written with synchronous=NORMAL, without an fsync of their own, unless
// they are committed together with appends. The
// log of changes is one sequence. A crash of the system can only cut off its end,
// and the fsync of an append covers everything before it. So if a lease was lost
// in such a crash, nothing that was stored under it survived either, and the next one has another random number, as after the
// file was restored from a copy. A crash of the process alone loses nothing.
//
// Snapshots without events are written the same way: one that was lost costs time, since it follows from the
// log.
//
// # Forks
//
// A fork is a row that names the session whose own log holds the last event that
// is shared, and its position. No event is copied: a load reads the segments one
// after the other, each from the session that has it. A deleted session that
// others fork keeps its row without its name, and the events that they share; both
// go when the last of these forks goes.
//
// # Files of older versions
//
// Open brings a file up to date in one transaction, or leaves it as it was. A
// process with the older version that has the file open meanwhile loses its leases:
// its next append is a conflict, and its next lease is refused with an error that
// says why. What it had stored is there; an append that fails stores nothing. An older version does not open a newer file.
//
// # What to keep to
//
// The file must be on a local disk: WAL does not work over network file systems.
// A process that uses the store must not open the database file by other means,
// such as os.Open: closing it would drop the locks of POSIX systems that SQLite
// holds on it. To copy the file, use the sqlite3 program's ".backup", or another
// process.
//
// New files have the permissions 0600, since sessions hold what people said.
package sqlite
