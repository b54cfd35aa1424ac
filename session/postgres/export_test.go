package postgres

import "time"

// WithClock replaces the server's clock.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.now = now } }

// SchemaVersion is the version of the schema.
const SchemaVersion = schemaVersion

// ListSQL is the statement for a page of a list.
var ListSQL = list

// OrphansSQL is the statement for a page of those that may be orphans.
var OrphansSQL = orphans
