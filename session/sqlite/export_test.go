package sqlite

// ListSQL is the statement for a page of a list.
var ListSQL = list

// OrphansSQL is the statement for a page of those that may be orphans.
var OrphansSQL = orphans

// WithDriver sets the driver of package database/sql.
func WithDriver(name string) Option { return func(s *Store) { s.file.driver = name } }

// Waiting returns how many changes wait for their turn.
func Waiting(s *Store) int {
	s.writes.queue.mu.Lock()
	defer s.writes.queue.mu.Unlock()
	return len(s.writes.queue.waiting)
}
