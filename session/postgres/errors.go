package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session/internal/rows"
)

// Codes of errors: https://www.postgresql.org/docs/15/errcodes-appendix.html
const (
	cachedPlan            = "0A000" // "cached plan must not change result type", after a migration
	uniqueViolation       = "23505" // somebody else was quicker
	foreignKeyViolation   = "23503" // the same
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

// code returns PostgreSQL's code of an error, or "".
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func isConflict(err error) bool { return errors.Is(err, agent.ErrConflict) }

// explain makes the one error that callers see of what went wrong with the
// database: its name, what is the matter, and what to do.
func (s *Store) explain(doing string, err error) error {
	if rows.Passes(err) {
		return err
	}
	advice := ""
	switch code(err) {
	case invalidPassword, invalidAuthorization:
		advice = "the server refuses the user: check the URL's user and password, and the server's pg_hba.conf"
	case unknownDatabase:
		advice = "there is no such database: create it, or check the URL"
	case insufficientPrivilege:
		advice = "the user lacks a right: let an administrator run CREATE SCHEMA arbor AUTHORIZATION the_user, or grant what is missing"
	case diskFull:
		advice = "the server's disk is full: make room"
	case outOfMemory:
		advice = "the server has no memory left"
	case tooManyConnections:
		advice = "the server takes no more connections: raise its max_connections, or lower pool_max_conns in the URL"
	case queryCanceled:
		advice = "the server's statement_timeout, or an administrator, canceled it"
	case lockNotAvailable:
		advice = "the server's lock_timeout passed while others wrote to the same session"
	case readOnlyTransaction:
		advice = "this server only reads: name the primary in the URL, or add target_session_attrs=read-write"
	case invalidPrepared, duplicatePrepared:
		advice = "a pooler between here and the server does not keep prepared statements: add default_query_exec_mode=exec to the URL"
	default:
		if o := (*outage)(nil); errors.As(err, &o) {
			advice = "the server cannot be reached, or does not answer: check that it runs, and the network"
		}
	}
	if isUnknown(err) {
		advice += "; it is not known whether the change was made"
	}
	return rows.Explain("postgres: "+doing+" "+s.name, advice, err)
}
