package rows

import (
	"fmt"
	"strconv"

	"github.com/agentarbor/arbor/session"
)

// Query is a statement and its arguments.
type Query struct {
	SQL  string
	Args []any
	// Mark precedes the number of a parameter: "?" in SQLite, and "$" in PostgreSQL.
	Mark string
	// User is the column of a session's user.
	User string
}

// Arg adds an argument, and returns its parameter.
func (q *Query) Arg(value any) string {
	q.Args = append(q.Args, value)
	return q.Mark + strconv.Itoa(len(q.Args))
}

// Filter adds the conditions of a filter to a list of the sessions s.
func (q *Query) Filter(filter session.Key) {
	for _, part := range [...]struct{ column, value string }{{"app", filter.App}, {q.User, filter.User}, {"id", filter.ID}} {
		if part.value != "" {
			q.SQL += " AND s." + part.column + " = " + q.Arg(part.value)
		}
	}
}

// Page adds the conditions, the order and the limit of a page to a list of the sessions s. after is the time of
// page.After in the form in which the database stores it.
func (q *Query) Page(page session.Page, after any) {
	if page.Status != "" {
		q.SQL += " AND s.status = " + q.Arg(string(page.Status))
	}
	if page.After != (session.Place{}) {
		key := page.After.Key
		q.SQL += fmt.Sprintf(" AND s.updated <= %[1]s AND (s.updated < %[1]s OR (s.app, s.%[2]s, s.id) > (%[3]s, %[4]s, %[5]s))",
			q.Arg(after), q.User, q.Arg(key.App), q.Arg(key.User), q.Arg(key.ID))
	}
	q.SQL += " ORDER BY s.updated DESC, s.app, s." + q.User + ", s.id"
	if page.Limit > 0 {
		// SQLite compiles a statement again at each call if its limit is a bare parameter.
		q.SQL += " LIMIT CAST(" + q.Arg(page.Limit) + " AS bigint)"
	}
}
