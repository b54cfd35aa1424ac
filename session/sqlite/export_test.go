package sqlite

// ListOfUser is the query of a page of a user's sessions.
const ListOfUser = ofUser

// ListOfUserStatus and ListOfStatus are the queries of a page of the sessions with one status, of a user and of all.
const (
	ListOfUserStatus = ofUserStatus
	ListOfStatus     = allStatus
)

// OrphansSQL is the query of those that may be orphans.
const OrphansSQL = orphans

// WithDriver sets the driver of package database/sql.
func WithDriver(name string) Option { return func(s *Store) { s.file.driver = name } }

// Waiting returns how many changes wait for their turn.
func Waiting(s *Store) int {
	s.writes.queue.mu.Lock()
	defer s.writes.queue.mu.Unlock()
	return len(s.writes.queue.waiting)
}
