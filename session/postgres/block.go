package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// block is what a batch of events says about one run: its start (First is set), its end (Last is set), or both. The
// file schema.sql describes the columns. In ids, characters that PostgreSQL cannot store are replaced; the runner's ids
// contain none.
type block struct {
	ID        string     `json:"id"`
	Parent    *string    `json:"parent"`
	Role      string     `json:"role"`
	Agent     *string    `json:"agent"`
	Scope     *string    `json:"scope"`
	Turn      *string    `json:"turn"`
	First     *int64     `json:"first"`
	Last      *int64     `json:"last"`
	Completed *time.Time `json:"completed"`
}

// blocksOf returns the blocks that events change, in the order in which the events first mention them.
func blocksOf(events []*event.Event, runOf lookup) ([]*block, error) {
	var out []*block
	mentioned := func(e *event.Event) *block {
		id := text(e.RunID)
		for _, b := range out {
			if b.ID == id {
				return b
			}
		}
		b := &block{ID: id, Role: "agent", Agent: optional(e.Agent), Scope: optional(e.Scope), Turn: optional(e.TurnID)}
		out = append(out, b)
		return b
	}
	for i, e := range events {
		switch e.Data.(type) {
		case *event.User:
			b := mentioned(e)
			b.Role, b.Agent = "user", nil
			b.begin(e)
			b.end(e)
		case *event.HarnessStart:
			mentioned(e).begin(e)
		case *event.HarnessEnd:
			mentioned(e).end(e)
		}
		if e.ParentID == "" {
			continue
		}
		b := mentioned(e)
		b.begin(e)
		run, err := parentRun(e.ParentID, events[:i], runOf)
		if err != nil {
			return nil, err
		}
		b.Parent = optional(run)
	}
	return out, nil
}

func (b *block) begin(e *event.Event) {
	if b.First == nil {
		b.First = &e.Seq
	}
}

func (b *block) end(e *event.Event) {
	at := e.Time.UTC()
	if at.Year() < 1 { // PostgreSQL numbers these years differently
		at = time.Time{}
	}
	b.Last, b.Completed = &e.Seq, &at
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	s = text(s)
	return &s
}

// runNodes matches the nodes of the conversation graph that are named after their run: RUN:user, RUN:usage:2 and so
// on.
var runNodes = lazyregexp.New(`^(.*):(?:user|harness_start|harness_end|usage:[0-9]+|error(?::[0-9]+)?)$`)

// parentRun returns the run of the node that a parentId names: a node that is named after its run, or an event. In
// graphs the id of an event may follow the id of its run, which distinguishes events of two runs with the same id.
func parentRun(id string, before []*event.Event, runOf lookup) (string, error) {
	if m := runNodes.FindStringSubmatch(id); m != nil {
		return m[1], nil
	}
	id = strings.TrimSuffix(id, ":result")
	run, err := runOfEvent(id, "", before, runOf)
	if of, rest, ok := strings.Cut(id, ":"); ok && run == "" && err == nil {
		return runOfEvent(rest, of, before, runOf)
	}
	return run, err
}

// lookup returns the run of the last earlier event with an id. If run is not "", only events of this run count. It
// returns "" if there is no such event.
type lookup func(id, run string) (string, error)

func runOfEvent(id, run string, before []*event.Event, runOf lookup) (string, error) {
	for _, e := range slices.Backward(before) {
		if isCalled(e, id, run) {
			return e.RunID, nil
		}
	}
	return runOf(id, run)
}

func isCalled(e *event.Event, id, run string) bool {
	return e.ID == id && (run == "" || e.RunID == run)
}

// callSQL finds the events that may have an id: their text contains it as the id of a line, or in whole JSON. The
// recursive part collects the session and the sessions that it was forked from, as far as it shares their events.
const callSQL = `WITH RECURSIVE line (key, parent, after, upto) AS (
		SELECT key, parent_key, coalesce(parent_seq, 0), $2::bigint FROM arbor.session WHERE key = $1
		UNION ALL
		SELECT s.key, s.parent_key, coalesce(s.parent_seq, 0), line.after FROM line JOIN arbor.session s ON s.key = line.parent)
	SELECT e.seq, e.line FROM line JOIN arbor.log e ON e.session = line.key AND e.seq > line.after AND e.seq <= line.upto
	WHERE position($3 in e.line) > 0 OR position($4 in e.line) > 0 ORDER BY e.seq DESC`

// runOf searches the first seq events of a session for an event. It is called for the first event of an agent that is
// called as a tool, unless the call is in the same batch, and of a fork that resumes a run.
func runOf(ctx context.Context, conn *pgx.Conn, row, seq int64, id, run string) (string, error) {
	result, _ := conn.Query(ctx, callSQL, row, seq, `"id":`+text(string(event.EncodeJSON(id))), " "+text(id)+" ")
	var at int64
	var line []byte
	var decoder event.Decoder
	found := ""
	_, err := pgx.ForEachRow(result, []any{&at, &line}, func() error {
		if e := decoder.DecodeLine(at, line); found == "" && e.Type() != event.TypeUnreadable && isCalled(e, id, run) {
			found = e.RunID
		}
		return nil
	})
	return found, err
}
