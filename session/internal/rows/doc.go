// Package rows is what the stores in SQL databases share in addition to [session.Row]: events and changes of state as they are
// written, logs of forks as they are read, and errors.
package rows
