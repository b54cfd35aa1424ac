package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session/internal/rows"
)

// Error codes: https://www.postgresql.org/docs/15/errcodes-appendix.html
const (
	cachedPlan            = "0A000" // "cached plan must not change result type", after a migration
	uniqueViolation       = "23505" // another transaction was faster
	foreignKeyViolation   = "23503" // another transaction was faster
	readOnlyTransaction   = "25006" // a standby that is not promoted yet
	invalidPrepared       = "26000"
	invalidAuthorization  = "28000"
	invalidPassword       = "28P01"
	unknownDatabase       = "3D000"
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	insufficientPrivilege = "42501"
	duplicatePrepared     = "42P05"
	diskFull              = "53100"
	outOfMemory           = "53200"
	tooManyConnections    = "53300"
	lockNotAvailable      = "55P03"
	queryCanceled         = "57014"
	adminShutdown         = "57P01"
	crashShutdown         = "57P02"
	cannotConnectNow      = "57P03"
)

// code returns PostgreSQL's error code, or "" if the error did not come from the server.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

func isConflict(err error) bool { return errors.Is(err, agent.ErrConflict) }

// explain returns the error that callers get when the database fails: it names the database, the cause, and what to
// do.
func (s *Store) explain(doing string, err error) error {
	if rows.Passes(err) {
		return err
	}
	advice := ""
	switch code(err) {
	case invalidPassword, invalidAuthorization:
		advice = "the server refuses the user: check the URL's user and password, and the server's pg_hba.conf"
	case unknownDatabase:
		advice = "the database does not exist: create it, or check the URL"
	case insufficientPrivilege:
		advice = "the user lacks a right: let an administrator run CREATE SCHEMA arbor AUTHORIZATION the_user, or grant what is missing"
	case diskFull:
		advice = "the server's disk is full: make room"
	case outOfMemory:
		advice = "the server is out of memory: try again later, or give it more memory"
	case tooManyConnections:
		advice = "the server accepts no more connections: raise its max_connections, or lower pool_max_conns in the URL"
	case queryCanceled:
		advice = "the server's statement_timeout, or an administrator, canceled the statement: try again, or raise the timeout"
	case lockNotAvailable:
		advice = "the server's lock_timeout passed while other connections wrote to the same session: try again, or raise the timeout"
	case readOnlyTransaction:
		advice = "this server is read-only: name the primary in the URL, or add target_session_attrs=read-write"
	case invalidPrepared, duplicatePrepared:
		advice = "a pooler between here and the server does not keep prepared statements: add default_query_exec_mode=exec to the URL"
	default:
		if o := (*outage)(nil); errors.As(err, &o) {
			advice = "the server cannot be reached or does not answer: check that it runs, and check the network"
		}
	}
	if isUnknown(err) {
		advice += "; it is not known whether the change was made"
	}
	return rows.Explain("postgres: "+doing+" "+s.name, advice, err)
}
