package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// The table message has a row for each run: what a user said, or one activation
// of an agent. It is derived from the events, written with them in one
// transaction, and there for those who ask with SQL; the store does not read the
// log by it. A run's first event makes its row and its end completes it, so that
// the events between cost nothing.

// message is a row to be.
type message struct {
	id, parent               string // parent is the first event's parentId
	role, agent, scope, turn string
	first, last              int64 // last is 0 while the run goes on
}

// messageEnd completes the row of a run that began in an earlier append.
type messageEnd struct {
	id  string
	seq int64
}

// messagesOf returns what a batch changes in the table. A run begins with a user
// event, a harness_start, or any other event with a parentId.
func messagesOf(events []*event.Event) (begun []message, ended []messageEnd) {
	for _, e := range events {
		if e.RunID == "" {
			continue
		}
		typ := e.Type()
		if typ == event.TypeUser || typ == event.TypeHarnessStart || e.ParentID != "" {
			m := message{id: e.RunID, parent: e.ParentID, role: "agent", agent: e.Agent, scope: e.Scope, turn: e.TurnID, first: e.Seq}
			if typ == event.TypeUser {
				m.role, m.agent, m.last = "user", "", e.Seq
			}
			begun = append(begun, m)
		}
		if typ != event.TypeHarnessEnd {
			continue
		}
		// Mostly the run began earlier; if not, its row is right at once.
		end := messageEnd{e.RunID, e.Seq}
		for i := range begun {
			if m := &begun[i]; m.id == end.id {
				m.last = end.seq
				end.id = ""
				break
			}
		}
		if end.id != "" {
			ended = append(ended, end)
		}
	}
	return begun, ended
}

// messageWriter is the log writer's statements for messages.
type messageWriter struct {
	add, complete, recent, above *sql.Stmt
	drop, reopen                 *sql.Stmt
}

func newMessageWriter(p *preparer) *messageWriter {
	return &messageWriter{
		// The parent is mostly of the session itself, or else of one that it forks.
		add: p.prepare(`INSERT INTO message (session, id, parent_message_id, role, agent, scope, turn_id, first_seq, last_seq, completed)
			VALUES (?1, ?2, coalesce(
				(SELECT id FROM message WHERE session = ?1 AND id = ?3),
				(WITH RECURSIVE line (key, upto) AS (
						SELECT parent_key, parent_seq FROM session WHERE key = ?1 AND parent_key IS NOT NULL AND ?3 IS NOT NULL
						UNION ALL
						SELECT s.parent_key, s.parent_seq FROM line CROSS JOIN session s ON s.key = line.key WHERE s.parent_key IS NOT NULL)
					SELECT m.id FROM line CROSS JOIN message m ON m.session = line.key AND m.id = ?3 AND m.first_seq <= line.upto)),
			?4, nullif(?5, ''), nullif(?6, ''), nullif(?7, ''), ?8, nullif(?9, 0), ?9 <> 0)
			ON CONFLICT DO UPDATE SET last_seq = excluded.last_seq, completed = 1 WHERE excluded.completed = 1 AND excluded.role = 'agent'`),
		complete: p.prepare("UPDATE message SET last_seq = max(coalesce(last_seq, 0), ?), completed = 1 WHERE session = ? AND id = ?"),
		recent: p.prepare(`SELECT coalesce(json ->> 'id', ''), coalesce(json ->> 'runId', ''), coalesce(json ->> 'turnId', '')
			FROM event WHERE session = ? AND seq <= ? ORDER BY seq DESC`),
		above:  p.prepare("SELECT parent_key, parent_seq FROM session WHERE key = ? AND parent_key IS NOT NULL"),
		drop:   p.prepare("DELETE FROM message WHERE session = ? AND first_seq > ?"),
		reopen: p.prepare("UPDATE message SET last_seq = NULL, completed = 0 WHERE session = ? AND last_seq > ?"),
	}
}

// writeMessages writes the messages of an append whose events are there already.
func (w *messageWriter) writeMessages(row int64, a *appending) error {
	ctx := context.Background()
	for _, m := range a.messages {
		var parent any // NULL
		if m.parent != "" {
			run, err := w.runOf(row, m)
			if err != nil {
				return err
			}
			parent = run
		}
		if _, err := w.add.ExecContext(ctx, row, m.id, parent, m.role, m.agent, m.scope, m.turn, m.first, m.last); err != nil {
			return err
		}
	}
	for _, e := range a.ends {
		if _, err := w.complete.ExecContext(ctx, e.seq, row, e.id); err != nil {
			return err
		}
	}
	return nil
}

// runOf returns the run that a message's parentId speaks of. It names a node of
// the conversation graph: RUN:TYPE for the nodes of which a run has one, and
// RUN:TYPE:NUMBER for those that are counted; the id of an event, with ":result"
// behind it for a tool's result; or it is the run.
func (w *messageWriter) runOf(row int64, m message) (string, error) {
	if run, ok := runOfNode(m.parent); ok {
		return run, nil
	}
	id := strings.TrimSuffix(m.parent, ":result")
	for upto := m.first - 1; ; {
		run, over, err := w.findInTurn(row, upto, id, m.turn)
		if err != nil || run != "" {
			return run, err
		}
		var found bool
		if !over { // the turn began in what a fork shares
			found, err = queryOne(context.Background(), w.above, []any{row}, &row, &upto)
		}
		if err != nil {
			return "", err
		}
		if !found {
			return m.parent, nil
		}
	}
}

func runOfNode(id string) (run string, ok bool) {
	for _, typ := range []string{event.TypeUser, event.TypeHarnessStart, event.TypeHarnessEnd, event.TypeError} {
		if run, ok = strings.CutSuffix(id, ":"+typ); ok {
			return run, true
		}
	}
	counted := strings.TrimRight(id, "0123456789")
	for _, typ := range []string{event.TypeUsage, event.TypeError} {
		if run, ok = strings.CutSuffix(counted, ":"+typ+":"); ok && counted != id {
			return run, true
		}
	}
	return "", false
}

// findInTurn looks for an event of a turn, from a position back to where the turn
// or a session's own log begins. What called an agent is near.
func (w *messageWriter) findInTurn(row, upto int64, id, turn string) (run string, over bool, err error) {
	rows, err := w.recent.QueryContext(context.Background(), row, upto)
	if err != nil {
		return "", false, err
	}
	defer rows.Close()
	for rows.Next() {
		var eventID, eventRun, eventTurn string
		if err := rows.Scan(&eventID, &eventRun, &eventTurn); err != nil {
			return "", false, err
		}
		if eventTurn != turn {
			return "", true, nil
		}
		if eventID == id {
			return eventRun, true, nil
		}
	}
	return "", false, rows.Err()
}

// trimMessages removes the messages that began behind a position, and makes those
// incomplete that ended there.
func (w *messageWriter) trimMessages(row, upto int64) error {
	ctx := context.Background()
	if _, err := w.drop.ExecContext(ctx, row, upto); err != nil {
		return err
	}
	_, err := w.reopen.ExecContext(ctx, row, upto)
	return err
}
